// Package poll fetches events from services that have no webhooks. One instance at a
// time polls an integration, for all of its triggers.
package poll

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/ingest"
	"sallyport/ingest/event"
	"sallyport/ingest/loop"
	"sallyport/ingest/match"
	"sallyport/internal/defaults"
	"sallyport/internal/redact"
)

// Config configures a [Poller]. The interfaces, Worker and NewID are required.
type Config struct {
	Providers    []event.Provider
	Rows         ingest.Rows
	Integrations ingest.Integrations
	Vault        action.Vault
	JSON         *redact.JSON

	Worker string        // id of this process; unique among those that share the database
	NewID  func() string // ids of events and runs, ascending in time (UUIDv7)

	Timing
	Parallel int           `default:"4"`  // concurrent polls
	Lease    time.Duration `default:"1m"` // of a claimed group
	Timeout  time.Duration `default:"2m"` // of a poll

	Began func(runs []event.Run) // called with runs that began; may be nil
	// Looked is called for metrics with the result of a poll: "found", "failed",
	// "backoff" if the service asked to wait, or "lost" to another process. May be nil.
	Looked func(result, provider string, took time.Duration)
	Now    func() time.Time `default:"time.Now"`
	Log    *slog.Logger     `default:"discard"`
}

// Timing is the interval of a [Poller] that is a flag of the server. Zero means
// the default.
type Timing struct {
	Every time.Duration `default:"1s" help:"Interval of checking which triggers to poll (default: ${default})." name:"look-every" placeholder:"D"` // between two claims while nothing is due
}

func (c *Config) setDefaults() error {
	if c.Rows == nil || c.Integrations == nil || c.Vault == nil || c.JSON == nil || c.NewID == nil || c.Worker == "" {
		return errors.New("poll.Config: Rows, Integrations, Vault, JSON, NewID and Worker are required")
	}
	if c.Began == nil {
		c.Began = func([]event.Run) {}
	}
	if c.Looked == nil {
		c.Looked = func(string, string, time.Duration) {}
	}
	defaults.Set(c)
	return nil
}

// Poller polls services for events: once for all triggers of an integration, by one
// process at a time.
type Poller struct {
	Config
	match  *match.Matcher
	rounds consecutivePolls
}

// NewPoller returns a poller, for [Poller.Run].
func NewPoller(c Config) (*Poller, error) {
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	known, err := match.NewRegistry(c.Providers)
	if err != nil {
		return nil, err
	}
	return &Poller{Config: c, match: &match.Matcher{Providers: known, Vault: c.Vault, JSON: c.JSON, NewID: c.NewID, Now: c.Now, Log: c.Log}}, nil
}

// Run polls what is due until ctx ends, finishes begun polls and returns ctx's
// error. Unfinished ones are polled again after their leases.
func (p *Poller) Run(ctx context.Context) error {
	work, stop := loop.WithGrace(ctx, loop.ShutdownGrace)
	defer stop()
	var looks sync.WaitGroup
	defer looks.Wait()
	room := make(chan struct{}, p.Parallel)
	for failures := 0; ctx.Err() == nil; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case room <- struct{}{}:
		}
		g, found, err := p.Rows.ClaimPoll(work, p.Worker, p.Lease)
		if found && err == nil {
			failures = 0
			looks.Go(func() {
				defer func() { <-room }()
				p.process(work, g)
			})
			continue
		}
		<-room
		pause := p.Every
		if failures++; err == nil {
			failures = 0
		} else {
			p.Log.ErrorContext(ctx, "due polls could not be claimed", "error", err)
			pause = loop.Backoff(p.Every, 30*p.Every, failures)
		}
		loop.Sleep(ctx, pause)
	}
	return ctx.Err()
}

// process polls a claimed group and writes the result.
func (p *Poller) process(ctx context.Context, g event.PollGroup) {
	ctx, stop := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { p.renewLease(ctx, stop, g) })
	defer renewing.Wait()
	defer stop()
	began := p.Now()
	l, result := p.pollGroup(ctx, g)
	if ctx.Err() != nil || !p.settle(ctx, l) {
		result = "lost"
	}
	p.Looked(result, g.Provider, p.Now().Sub(began))
}

// renewLease renews the lease of a group until ctx ends. It calls stop if another
// process has, or may have, the group.
func (p *Poller) renewLease(ctx context.Context, stop func(), g event.PollGroup) {
	for until := p.Now().Add(p.Lease); loop.Sleep(ctx, p.Lease/3); {
		begun := p.Now()
		held, err := p.Rows.RenewPoll(ctx, p.Worker, g, p.Lease)
		switch {
		case err == nil && held:
			until = begun.Add(p.Lease)
		case err == nil, !p.Now().Before(until):
			p.Log.WarnContext(ctx, "a poll was abandoned: its lease was lost", "integration", g.Integration, "error", err)
			stop()
			return
		}
	}
}

// settle writes the result of a poll; false: the result is dropped. If it cannot be
// written, the group is polled again later.
func (p *Poller) settle(ctx context.Context, l event.PollOutcome) bool {
	runs, err := p.save(ctx, l)
	if err != nil && !errors.Is(err, action.ErrConflict) && ctx.Err() == nil {
		p.Log.ErrorContext(ctx, "the result of a poll could not be written", "integration", l.Group.Integration, "error", err)
		l = p.backOff(l.Group, err)
		_, err = p.save(ctx, l)
	}
	if len(runs) > 0 {
		p.Began(runs)
	}
	return err == nil
}

func (p *Poller) save(ctx context.Context, l event.PollOutcome) (runs []event.Run, err error) {
	err = loop.RetryUnavailable(ctx, func() error {
		runs, err = p.Rows.SettlePoll(ctx, p.Worker, l)
		return err
	})
	return runs, err
}

const (
	// maxConsecutivePolls is how often a service with more events is polled without a
	// pause.
	maxConsecutivePolls = 20
	// maxBackoff bounds the delay of the next poll after failures, and maxRetryAfter the
	// delay that a service asks for.
	maxBackoff    = time.Hour
	maxRetryAfter = 24 * time.Hour
)

// pollGroup polls the service and asks the triggers. The result is that of
// [Config.Looked].
func (p *Poller) pollGroup(ctx context.Context, g event.PollGroup) (l event.PollOutcome, result string) {
	triggers, polled, err := p.poll(ctx, g)
	switch {
	case err != nil && loop.RetryAfter(err) > 0:
		result = "backoff"
	case err != nil:
		result = "failed"
	}
	if err != nil && ctx.Err() == nil {
		p.Log.WarnContext(ctx, "a poll failed", "provider", g.Provider, "integration", g.Integration, "error", p.JSON.RedactText(err.Error(), nil))
	}
	if err != nil {
		return p.backOff(g, err), result
	}
	l = event.PollOutcome{Group: g, Cursor: polled.Cursor, Lost: p.match.Line(polled.Lost, match.MaxLine), NextAt: p.nextPoll(g, polled)}
	if l.Lost != "" {
		p.Log.WarnContext(ctx, "a service may have events that polling missed", "provider", g.Provider, "integration", g.Integration, "lost", l.Lost)
	}
	for _, e := range polled.Events {
		l.Matches = append(l.Matches, p.match.Matches(ctx, triggers, e, "")...)
	}
	return l, "found"
}

// poll returns the new events of a group and its triggers, which are read again
// after the service has answered, because that takes a while. A group without
// triggers is not polled.
func (p *Poller) poll(ctx context.Context, g event.PollGroup) (triggers []event.Trigger, polled event.PollResult, err error) {
	if triggers, err = p.triggers(ctx, g); err != nil || len(triggers) == 0 {
		return nil, polled, err
	}
	within, stop := context.WithTimeout(ctx, p.Timeout)
	defer stop()
	err = p.match.Recovering(ctx, "looking for events of "+g.Provider, func() error {
		polled, err = p.Integrations.Poll(within, g.Organization, g.Integration, g.Cursor)
		return err
	})
	if err == nil && len(polled.Events) > 0 {
		triggers, err = p.triggers(ctx, g)
	}
	return triggers, polled, err
}

// triggers are the enabled triggers of a group.
func (p *Poller) triggers(ctx context.Context, g event.PollGroup) (list []event.Trigger, err error) {
	err = loop.RetryUnavailable(ctx, func() error {
		list, err = p.Rows.ActiveTriggers(ctx, g.Organization, g.Provider)
		return err
	})
	return slices.DeleteFunc(list, func(t event.Trigger) bool {
		return t.Kind != event.Polling || t.Integration != g.Integration
	}), err
}

// nextPoll returns when to poll again.
func (p *Poller) nextPoll(g event.PollGroup, polled event.PollResult) time.Time {
	if p.rounds.again(g.ID, polled.More) {
		return p.Now()
	}
	return p.Now().Add(max(interval(g), polled.Wait))
}

// backOff returns when to poll again after a failure: with backoff, or when the
// service says.
func (p *Poller) backOff(g event.PollGroup, err error) event.PollOutcome {
	p.rounds.again(g.ID, false)
	wait := loop.Backoff(interval(g), max(maxBackoff, interval(g)), g.Failures+1)
	if told := loop.RetryAfter(err); told > 0 {
		wait = max(min(told, maxRetryAfter), interval(g))
	}
	return event.PollOutcome{Group: g, NextAt: p.Now().Add(wait), LastError: p.match.PublicText(err)}
}

func interval(g event.PollGroup) time.Duration {
	return time.Duration(max(g.PollSeconds, 1)) * time.Second
}

// consecutivePolls counts polls of a group without a pause.
type consecutivePolls struct {
	mu     sync.Mutex
	counts map[string]int
}

// again reports whether to poll a group again at once.
func (r *consecutivePolls) again(group string, has bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !has || r.counts[group]+1 >= maxConsecutivePolls {
		delete(r.counts, group)
		return false
	}
	if r.counts == nil {
		r.counts = map[string]int{}
	}
	r.counts[group]++
	return true
}
