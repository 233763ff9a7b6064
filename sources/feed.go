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

// feed keeps the list of one source. Its tenant's mutex guards the fields.
type feed struct {
	tenant    *tenant
	connector action.Connector
	source    Source // nil: it could not be opened

	life context.Context // of what it does by itself
	end  context.CancelFunc

	tools    []*tool
	offer    offer
	warnings []string
	protocol string
	says     string    // the server's instructions to models
	asked    time.Time // when the list at hand was asked for; zero: there is none
	observed string    // mark of the list that Observe took last; empty: none
	err      error     // of the last attempt; nil: it worked
	fails    int       // in a row
	retry    time.Time // not before
	flight   *flight   // the refresh that is under way

	about   *action.About // of the actions as they are
	ear     ear
	updates updates
}

// flight is one refresh, which anyone may wait for and nobody cancels.
type flight struct {
	started time.Time
	done    chan struct{}
	told    kinds // the lists that the source said are others: whoever has them is told so
}

// content is what a refresh brought.
type content struct {
	tools    []*tool
	offer    offer
	warnings []string
	protocol string
	says     string
}

// open returns the feed of a connector; one that cannot be opened keeps the
// error, as one that does not answer would.
func (t *tenant) open(con action.Connector) *feed {
	f := &feed{tenant: t, connector: con}
	f.life, f.end = context.WithCancel(t.life)
	if f.source, f.err = t.Open(con); f.err != nil {
		f.source = nil
		f.fails = 1
	}
	return f
}

func (f *feed) close() {
	f.end()
	if c, ok := f.source.(io.Closer); ok {
		if err := c.Close(); err != nil {
			f.tenant.Log.Debug("closing a source", "source", f.source.ID(), "error", err)
		}
	}
}

func (f *feed) name() string {
	f.tenant.mu.Lock()
	defer f.tenant.mu.Unlock()
	return f.connector.Name
}

// goodLocked reports whether the list at hand needs no refresh.
func (f *feed) goodLocked() bool {
	return !f.asked.IsZero() && f.tenant.Now().Sub(f.asked) < f.tenant.TTL
}

// dueLocked returns the refresh that a list is worth waiting for, started if
// need be, or nil.
func (f *feed) dueLocked() *flight {
	switch {
	case f.source == nil || f.goodLocked():
		return nil
	case f.flight != nil:
		return f.flight
	case f.tenant.Now().Before(f.retry):
		return nil
	}
	return f.startLocked()
}

// awaitedLocked reports whether List would wait for a refresh, one that is due
// and that nobody started yet included.
func (f *feed) awaitedLocked() bool {
	now := f.tenant.Now()
	switch {
	case f.source == nil || f.goodLocked():
		return false
	case f.flight == nil:
		return !now.Before(f.retry)
	}
	return now.Sub(f.flight.started) < f.tenant.Patience
}

// startLocked starts a refresh. It has its own time limit and no caller.
func (f *feed) startLocked() *flight {
	fl := &flight{started: f.tenant.Now(), done: make(chan struct{})}
	before := content{tools: f.tools, offer: f.offer}
	run := func() {
		defer close(fl.done)
		ctx, stop := context.WithTimeout(f.tenant.life, f.tenant.Timeout)
		defer stop()
		listing, err := f.list(ctx)
		var c content
		if err == nil {
			c = f.compile(listing, before)
			err = f.observe(c.tools)
		}
		f.take(fl, c, err)
	}
	if !f.tenant.start(run) {
		close(fl.done)
		return fl
	}
	f.flight = fl
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

// compile compiles what the source listed.
func (f *feed) compile(l Listing, before content) (c content) {
	c.protocol, c.says = l.Protocol, strings.ToValidUTF8(l.Says, "\uFFFD")
	tools, warnings := compileAll(l, before.tools, f.tenant.Budget)
	c.tools, c.warnings = tools, append(slices.Clone(l.Warnings), warnings...)
	c.offer, warnings = compileOffer(l, before.offer)
	c.warnings = fewer(append(c.warnings, warnings...))
	return c
}

// take keeps what a refresh brought. A failed one leaves the last good list.
func (f *feed) take(fl *flight, c content, err error) {
	t := f.tenant
	t.mu.Lock()
	f.flight = nil
	if err != nil {
		f.failedLocked(err)
	} else {
		f.tools, f.offer, f.warnings, f.protocol, f.says = c.tools, c.offer, c.warnings, c.protocol, c.says
		f.asked, f.err, f.fails, f.retry = fl.started, nil, 0, time.Time{}
	}
	changed := false
	if t.feeds[f.connector.Source()] == f {
		if err == nil {
			t.told.add(fl.told)
			f.listenLocked()
		}
		changed = t.rebuildLocked()
		t.lastLocked()
	}
	t.mu.Unlock()
	t.announce(changed)
}

// failedLocked keeps why the source cannot be listed. That it is left alone for
// a while says less than why that was.
func (f *feed) failedLocked(err error) {
	t := f.tenant
	wait := min(t.Retry<<min(f.fails, 10), maxRetry)
	var e *action.Error
	if errors.As(err, &e) {
		wait = min(max(wait, e.RetryAfter), maxAsked)
	}
	if f.err == nil || e == nil || e.Code != FaultOpen {
		f.err = err
	}
	f.fails++
	f.retry = t.Now().Add(wait)
	if t.life.Err() == nil {
		t.Log.Warn("a source cannot be listed", "organization", t.organization, "source", f.connector.Source(), "again_in", wait, "error", err)
	}
}

// answered waits until the source has ever answered, and starts what is due
// without waiting for it.
func (f *feed) answered(ctx context.Context) error {
	f.tenant.mu.Lock()
	fl := f.dueLocked()
	never := f.asked.IsZero()
	f.tenant.mu.Unlock()
	if fl != nil && never {
		if err := fl.wait(ctx); err != nil {
			return err
		}
	}
	return f.usable()
}

// refreshed asks the source again unless its list is fresh, or it failed just
// now. A refresh that began earlier may have read an older list: it is waited
// for, and then another one is due.
func (f *feed) refreshed(ctx context.Context) error { return f.since(ctx, f.tenant.Fresh) }

// since asks the source again unless its list was asked for within the time;
// zero: whatever list there is.
func (f *feed) since(ctx context.Context, fresh time.Duration) error {
	t := f.tenant
	for range 2 {
		t.mu.Lock()
		now := t.Now()
		fl := f.flight
		if fl == nil {
			if f.source == nil || now.Before(f.retry) || !f.asked.IsZero() && now.Sub(f.asked) < fresh {
				t.mu.Unlock()
				break
			}
			fl = f.startLocked()
		}
		old := now.Sub(fl.started) >= fresh && fl.started.Before(now)
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

func (fl *flight) wait(ctx context.Context) error {
	select {
	case <-fl.done:
		return nil
	case <-ctx.Done():
		return action.NewError("source_not_ready").WithRetry(time.Second).WithCause(context.Cause(ctx))
	}
}

// usable returns nil when there is a list, and otherwise why there is none.
func (f *feed) usable() error {
	f.tenant.mu.Lock()
	defer f.tenant.mu.Unlock()
	if !f.asked.IsZero() {
		return nil
	}
	reason := "it did not answer yet; try again in a few seconds."
	if f.err != nil {
		reason = diagnose(f.err).Message
	}
	return action.NewError("source_unavailable", show(f.connector.Name), reason).WithCause(f.err).WithRetry(max(f.retry.Sub(f.tenant.Now()), 0))
}

// diagnose returns what people may be told of an error of List.
func diagnose(err error) *action.Error {
	var e *action.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return action.Errorf(action.ErrUnavailable, FaultTimeout, "It did not answer in time; see whether its server is up and can be reached from the gateway. It is asked again by itself.")
	}
	return action.Errorf(action.ErrUnavailable, FaultFailed, "It failed in an unexpected way; the gateway's log has the details.")
}

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
