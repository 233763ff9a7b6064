package ingest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/redact"
)

// PollerConfig says what a [Poller] works with. The interfaces, Worker and NewID
// are required; of the durations and numbers, zero means the default in the
// comment.
type PollerConfig struct {
	Providers    []event.Provider
	Rows         Rows
	Integrations Integrations
	Vault        action.Vault
	JSON         *redact.JSON

	Worker string        // this process; unique among those that share rows
	NewID  func() string // ids of events and runs, ascending in time (UUIDv7)

	Parallel int           // looks at once; 4
	Every    time.Duration // between two questions what is due, while nothing is; 1 second
	Lease    time.Duration // before others poll what this process has; 1 minute
	Longest  time.Duration // that a look may take; 2 minutes

	Began func(runs []event.Run) // is told of runs that began; nil: nobody is
	// Looked is told for metrics how a look went: "found", "failed", "backoff"
	// where the service wants to be left alone, or "lost" to another process.
	// Nil: nobody is.
	Looked func(result, provider string, took time.Duration)
	Now    func() time.Time // time.Now
	Log    *slog.Logger     // discards
}

func (c *PollerConfig) fill() error {
	if c.Rows == nil || c.Integrations == nil || c.Vault == nil || c.JSON == nil || c.NewID == nil || c.Worker == "" {
		return errors.New("ingest.PollerConfig: Rows, Integrations, Vault, JSON, NewID and Worker are required")
	}
	for value, use := range map[*time.Duration]time.Duration{&c.Every: time.Second, &c.Lease: time.Minute, &c.Longest: 2 * time.Minute} {
		if *value == 0 {
			*value = use
		}
	}
	if c.Parallel == 0 {
		c.Parallel = 4
	}
	if c.Began == nil {
		c.Began = func([]event.Run) {}
	}
	if c.Looked == nil {
		c.Looked = func(string, string, time.Duration) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Poller looks for events at services that are polled: once for all triggers of
// an integration, by one process at a time.
type Poller struct {
	PollerConfig
	match  *matcher
	rounds rounds
}

// NewPoller returns a poller, for [Poller.Run].
func NewPoller(c PollerConfig) (*Poller, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	known, err := newRegistry(c.Providers)
	if err != nil {
		return nil, err
	}
	return &Poller{PollerConfig: c, match: &matcher{providers: known, vault: c.Vault, json: c.JSON, newID: c.NewID, now: c.Now, log: c.Log}}, nil
}

// Run looks at what is due until ctx ends, finishes the looks that it is at, and
// returns ctx's error. What it cannot finish in time is polled anew when its
// lease is over.
func (p *Poller) Run(ctx context.Context) error {
	work, stop := outlive(ctx, finishWithin)
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
				p.turn(work, g)
			})
			continue
		}
		<-room
		pause := p.Every
		if failures++; err == nil {
			failures = 0
		} else {
			p.Log.ErrorContext(ctx, "what is to be polled cannot be read", "error", err)
			pause = backoff(p.Every, 30*p.Every, failures)
		}
		sleep(ctx, pause)
	}
	return ctx.Err()
}

// turn looks at a claimed group and writes what came of it.
func (p *Poller) turn(ctx context.Context, g event.PollGroup) {
	ctx, stop := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { p.renew(ctx, stop, g) })
	defer renewing.Wait()
	defer stop()
	began := p.Now()
	l, result := p.look(ctx, g)
	if ctx.Err() != nil || !p.settle(ctx, l) {
		result = "lost"
	}
	p.Looked(result, g.Provider, p.Now().Sub(began))
}

// renew has the lease of a group begin anew, until ctx ends. It calls stop when
// another process has the group, or may have it.
func (p *Poller) renew(ctx context.Context, stop func(), g event.PollGroup) {
	for until := p.Now().Add(p.Lease); sleep(ctx, p.Lease/3); {
		begun := p.Now()
		held, err := p.Rows.RenewPoll(ctx, p.Worker, g, p.Lease)
		switch {
		case err == nil && held:
			until = begun.Add(p.Lease)
		case err == nil, !p.Now().Before(until):
			p.Log.WarnContext(ctx, "a look was given up: it was lost", "integration", g.Integration, "error", err)
			stop()
			return
		}
	}
}

// settle writes what came of a look; false: it is thrown away. What cannot be
// written, though rows can be reached, is found again after a while.
func (p *Poller) settle(ctx context.Context, l event.Look) bool {
	runs, err := p.written(ctx, l)
	if err != nil && !errors.Is(err, action.ErrConflict) && ctx.Err() == nil {
		p.Log.ErrorContext(ctx, "what was polled could not be written", "integration", l.Group.Integration, "error", err)
		l = p.failed(l.Group, err)
		_, err = p.written(ctx, l)
	}
	if len(runs) > 0 {
		p.Began(runs)
	}
	return err == nil
}

func (p *Poller) written(ctx context.Context, l event.Look) (runs []event.Run, err error) {
	err = patient(ctx, func() error {
		runs, err = p.Rows.SettlePoll(ctx, p.Worker, l)
		return err
	})
	return runs, err
}
