package sources

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"sallyport/action"
)

// observe has a list written down that is another than the one before. It
// comes before the list is anybody's: what is reviewed and what drifted is told
// by what was written down, so a tool that is seen earlier would be decided, and
// might run, before the gateway knows whether it is the one that was reviewed.
// For the same reason a list that cannot be written down is not used.
func (f *feed) observe(tools []*tool) error {
	t := f.tenant
	mark := markOf(tools)
	t.mu.Lock()
	con := f.connector
	// A feed of an old revision has nothing to say any more: what it lists may
	// be another server's.
	due := t.Observe != nil && !t.quiet && t.feeds[con.Source()] == f && f.observed != mark
	t.mu.Unlock()
	if !due {
		return nil
	}
	versions := make(map[string]action.ToolVersion, len(tools))
	for _, tl := range tools {
		versions[tl.name] = action.ToolVersion{ToolHashes: tl.hashes, Risk: risk(con.Risks[tl.name], tl.hint, con.DefaultRisk), Definition: tl.raw}
	}
	ctx, stop := context.WithTimeout(t.life, t.Timeout)
	defer stop()
	if err := t.Observe(ctx, con, versions); err != nil {
		return action.Errorf(action.ErrUnavailable, FaultUnrecorded,
			"It answered, but the gateway could not write its tools down, so they are not used; this is tried again by itself, and the gateway's log has the details.").WithCause(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f.observed = mark
	return nil
}

// markOf is the same for two lists exactly when they have the same tools, in
// any order and any spelling of their definitions.
func markOf(tools []*tool) string {
	lines := make([]string, len(tools))
	for i, tl := range tools {
		lines[i] = tl.name + " " + tl.hashes.Behaviour + " " + tl.hashes.Text
	}
	slices.Sort(lines)
	h := sha256.New()
	for _, line := range lines {
		fmt.Fprintln(h, line)
	}
	return hex.EncodeToString(h.Sum(nil))
}
