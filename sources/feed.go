package sources

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"sallyport/action"
)

// feed caches the list of one source. Its tenant's mutex guards the fields.
type feed struct {
	tenant    *tenant
	connector action.Connector
	source    Source // nil: it could not be opened

	ctx    context.Context // of its background work
	cancel context.CancelFunc

	tools        []*tool
	offerings    offerings
	warnings     []string
	protocol     string
	server       string      // name that the server gives itself
	instructions string      // of the server, for models
	fetchedAt    time.Time   // when the current list was requested; zero: there is none
	observedHash string      // of the list that Observe recorded last; empty: none
	err          error       // of the last refresh; nil: it succeeded
	failingSince time.Time   // when err was first set since the last success; zero: it succeeded
	failures     int         // consecutive
	retryAt      time.Time   // earliest time of the next refresh
	refresh      *refreshRun // in progress; nil: none

	about         *action.About // of the current actions
	notifications notificationState
	updates       resourceUpdates
}

// refreshRun is one refresh. Any number of callers can wait for it, and none
// can cancel it.
type refreshRun struct {
	started time.Time
	done    chan struct{}
	changed listSet // lists that the source announced as changed; agents are notified of those
}

// refreshResult is the result of a refresh.
type refreshResult struct {
	tools        []*tool
	offerings    offerings
	warnings     []string
	protocol     string
	server       string
	instructions string
}

// open returns the feed of a connector. If the connector cannot be opened, the
// feed keeps the error, as it does for a source that does not answer.
func (t *tenant) open(con action.Connector) *feed {
	f := &feed{tenant: t, connector: con}
	f.ctx, f.cancel = context.WithCancel(t.ctx)
	source, err := t.Open(con)
	if f.setErrorLocked(err); err != nil {
		f.failures = 1
	} else {
		f.source = source
	}
	return f
}

func (f *feed) close() {
	f.cancel()
	if c, ok := f.source.(io.Closer); ok {
		if err := c.Close(); err != nil {
			f.tenant.Log.Debug("could not close a source", "source", f.source.ID(), "error", err)
		}
	}
}

func (f *feed) name() string {
	f.tenant.mu.Lock()
	defer f.tenant.mu.Unlock()
	return f.connector.Name
}

// currentLocked reports whether the list needs no refresh.
func (f *feed) currentLocked() bool {
	return !f.fetchedAt.IsZero() && f.tenant.Now().Sub(f.fetchedAt) < f.tenant.TTL
}

// refreshIfDueLocked returns the refresh to wait for before the list is used,
// and starts it if necessary. Nil: none is due.
func (f *feed) refreshIfDueLocked() *refreshRun {
	switch {
	case f.source == nil || f.currentLocked():
		return nil
	case f.refresh != nil:
		return f.refresh
	case f.tenant.Now().Before(f.retryAt):
		return nil
	}
	return f.startLocked()
}

// worthAwaitingLocked reports whether List would wait for a refresh, including
// one that is due but not started.
func (f *feed) worthAwaitingLocked() bool {
	now := f.tenant.Now()
	switch {
	case f.source == nil || f.currentLocked():
		return false
	case f.refresh == nil:
		return !now.Before(f.retryAt)
	}
	return now.Sub(f.refresh.started) < f.tenant.Patience
}

// startLocked starts a refresh with a timeout of its own; callers cannot cancel
// it.
func (f *feed) startLocked() *refreshRun {
	fl := &refreshRun{started: f.tenant.Now(), done: make(chan struct{})}
	before := refreshResult{tools: f.tools, offerings: f.offerings}
	run := func() {
		defer close(fl.done)
		ctx, stop := context.WithTimeout(f.tenant.ctx, f.tenant.Timeout)
		defer stop()
		listing, err := f.list(ctx)
		var c refreshResult
		if err == nil {
			c.protocol, c.server, c.instructions = listing.Protocol, listing.Server, strings.ToValidUTF8(listing.Instructions, "\uFFFD")
			var ofTools, others []string
			c.tools, ofTools = compileTools(listing, before.tools, f.tenant.Budget)
			c.offerings, others = compileOfferings(listing, before.offerings)
			c.warnings = slices.Concat(listing.Warnings, ofTools, others)
			if more := len(c.warnings) - maxWarnings; more > 0 {
				c.warnings = append(c.warnings[:maxWarnings:maxWarnings], fmt.Sprintf("And %d more warnings.", more))
			}
			err = f.observe(c.tools)
		}
		f.applyRefresh(fl, c, err)
	}
	if !f.tenant.goTracked(run) {
		close(fl.done)
		return fl
	}
	f.refresh = fl
	return fl
}

func (f *feed) list(ctx context.Context) (l Listing, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the source panicked: %v", p)
		}
	}()
	return f.source.List(ctx)
}

// applyRefresh stores the result of a refresh. After a failure the last good
// list stays.
func (f *feed) applyRefresh(fl *refreshRun, c refreshResult, err error) {
	t := f.tenant
	t.mu.Lock()
	f.refresh = nil
	if err != nil {
		f.recordFailureLocked(err)
	} else {
		f.tools, f.offerings, f.warnings, f.protocol, f.server, f.instructions = c.tools, c.offerings, c.warnings, c.protocol, c.server, c.instructions
		f.setErrorLocked(nil)
		f.fetchedAt, f.failures, f.retryAt = fl.started, 0, time.Time{}
	}
	changed := false
	if t.feeds[f.connector.Source()] == f {
		if err == nil {
			t.changes.add(fl.changed)
			if f.source != nil && !t.ephemeral && !f.notifications.listening {
				f.notifications.listening = t.goTracked(f.listen)
			}
		}
		changed = t.rebuildLocked()
		t.updateExpiryLocked()
	}
	t.mu.Unlock()
	t.publishChange(changed)
}

// recordFailureLocked keeps the error of a refresh. An open circuit does not
// replace an earlier error, which says more.
func (f *feed) recordFailureLocked(err error) {
	t := f.tenant
	wait := min(t.Retry<<min(f.failures, 10), maxRetry)
	var e *action.Error
	if errors.As(err, &e) {
		wait = min(max(wait, e.RetryAfter), maxAsked)
	}
	if f.err == nil || e == nil || e.Code != FaultOpen {
		f.setErrorLocked(err)
	}
	f.failures++
	f.retryAt = t.Now().Add(wait)
	if t.ctx.Err() == nil {
		t.Log.Warn("could not list a source", "organization", t.organization, "source", f.connector.Source(), "again_in", wait, "error", err)
	}
}

// setErrorLocked sets the error of the last refresh, and since when there is one.
func (f *feed) setErrorLocked(err error) {
	switch f.err = err; {
	case err == nil:
		f.failingSince = time.Time{}
	case f.failingSince.IsZero():
		f.failingSince = f.tenant.Now()
	}
}

// awaitFirst waits until the source has answered once. If a refresh is due, it
// starts one without waiting for it.
func (f *feed) awaitFirst(ctx context.Context) error {
	f.tenant.mu.Lock()
	fl := f.refreshIfDueLocked()
	never := f.fetchedAt.IsZero()
	f.tenant.mu.Unlock()
	if fl != nil && never {
		if err := fl.wait(ctx); err != nil {
			return err
		}
	}
	return f.usable()
}

// refreshIfStale refreshes the list unless it is fresh or the source has just
// failed. A refresh that started earlier may return an older list: it is
// awaited, and then another one is due.
func (f *feed) refreshIfStale(ctx context.Context) error {
	return f.refreshOlderThan(ctx, f.tenant.Fresh)
}

// refreshOlderThan refreshes the list unless it was requested within maxAge.
// Zero: always.
func (f *feed) refreshOlderThan(ctx context.Context, maxAge time.Duration) error {
	t := f.tenant
	for range 2 {
		t.mu.Lock()
		now := t.Now()
		fl := f.refresh
		if fl == nil {
			if f.source == nil || now.Before(f.retryAt) || !f.fetchedAt.IsZero() && now.Sub(f.fetchedAt) < maxAge {
				t.mu.Unlock()
				break
			}
			fl = f.startLocked()
		}
		old := now.Sub(fl.started) >= maxAge && fl.started.Before(now)
		t.mu.Unlock()
		if err := fl.wait(ctx); err != nil {
			return err
		}
		if !old {
			break
		}
	}
	return f.usable()
}

func (fl *refreshRun) wait(ctx context.Context) error {
	select {
	case <-fl.done:
		return nil
	case <-ctx.Done():
		return action.NewError("source_not_ready").WithRetry(time.Second).WithCause(context.Cause(ctx))
	}
}

// usable returns nil if there is a list, and otherwise the reason why there is
// none.
func (f *feed) usable() error {
	f.tenant.mu.Lock()
	defer f.tenant.mu.Unlock()
	if !f.fetchedAt.IsZero() {
		return nil
	}
	reason := "it has not answered yet. Retry in a few seconds."
	if f.err != nil {
		reason = diagnose(f.err).Message
	}
	return action.NewError("source_unavailable", quote(f.connector.Name), reason).WithCause(f.err).WithRetry(max(f.retryAt.Sub(f.tenant.Now()), 0))
}

// diagnose returns the public form of an error of List.
func diagnose(err error) *action.Error {
	var e *action.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return action.Errorf(action.ErrUnavailable, FaultTimeout, "It did not answer in time. Check that the server is running and reachable from the gateway. The gateway retries automatically.")
	}
	return action.Errorf(action.ErrUnavailable, FaultFailed, "Unexpected failure. See the gateway's log for details.")
}

// observe records a list that differs from the previous one, before the list is
// published. Review and drift are determined from the recorded versions: a tool
// that agents see earlier could be decided, and run, before the gateway knows
// whether it is the reviewed one. For the same reason a list that cannot be
// recorded is not used.
func (f *feed) observe(tools []*tool) error {
	t := f.tenant
	hash := listHash(tools)
	t.mu.Lock()
	con := f.connector
	// A feed of an old revision records nothing: its list may come from another
	// server.
	due := t.Observe != nil && !t.ephemeral && t.feeds[con.Source()] == f && f.observedHash != hash
	t.mu.Unlock()
	if !due {
		return nil
	}
	versions := make(map[string]action.ToolVersion, len(tools))
	for _, tl := range tools {
		versions[tl.name] = action.ToolVersion{ToolHashes: tl.hashes, Risk: effectiveRisk(con.Risks[tl.name], tl.riskHint, con.DefaultRisk), Definition: tl.raw}
	}
	ctx, stop := context.WithTimeout(t.ctx, t.Timeout)
	defer stop()
	if err := t.Observe(ctx, con, versions); err != nil {
		return action.Errorf(action.ErrUnavailable, FaultUnrecorded,
			"It answered, but the gateway could not record its tools, so they are not used. The gateway retries automatically. See its log for details.").WithCause(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f.observedHash = hash
	return nil
}

// listHash is equal for two lists exactly if they have the same tools, in any
// order and with any formatting of their definitions.
func listHash(tools []*tool) string {
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
