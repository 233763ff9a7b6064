package ingest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

const (
	laneWide    = 4   // deliveries of one integration whose events are completed at once
	laneDeep    = 25  // that this process holds in one lane
	lanesDeep   = 200 // and in all lanes
	hydrateTime = 30 * time.Second
	// hydrateTries is how often an event is asked for before it goes on as it
	// came, and hydrateWithin how long, where the service only wants to be asked
	// later.
	hydrateTries  = 3
	hydrateWithin = 6 * time.Hour
	longestWait   = time.Hour
)

// later is an error of a delivery with which nothing is wrong: its time has not
// come.
type later struct {
	at  time.Time
	why string
}

func (l *later) Error() string { return l.why }

// lane returns the integration that the events of a reading are completed with,
// or that is asked about, the first if they are several; empty: nothing is asked
// of a service.
func (w *Worker) lane(rd *reading) string {
	if len(rd.recheck) > 0 {
		return rd.recheck[0].Organization + "/" + rd.recheck[0].ID
	}
	for _, e := range rd.events {
		for _, t := range rd.targets {
			if t.hears(e) && w.completes(t, e) {
				return t.organization + "/" + t.integration
			}
		}
	}
	return ""
}

// completes reports whether an event is completed for a target. What nobody
// vouches for has nothing asked of a service.
func (w *Worker) completes(t target, e event.Event) bool {
	return t.integration != "" && !t.unverified && w.Hydrates(e.Provider)
}

func (t *target) hears(e event.Event) bool {
	return slices.ContainsFunc(t.triggers, func(tr event.Trigger) bool { return tr.Type == e.Type })
}

// setAside has the events of a reading completed and what comes of it written,
// beside the batches. It returns when to come again where the lane is full, or
// its service wants to be left alone.
func (w *Worker) setAside(ctx, work context.Context, rd *reading) *later {
	l, late := w.lanes.enter(rd.lane, w.Now(), w.Backoff(rd.receipt.Failures+1))
	if late != nil {
		return late
	}
	w.aside.Go(func() {
		defer func() { w.lanes.leave(rd.lane, w.Now()) }()
		w.settle(work, []event.Settlement{w.completed(ctx, work, rd, l)})
	})
	return nil
}

// completed works off a reading whose turn in its lane comes. When ctx ends
// somebody else is to do it.
func (w *Worker) completed(ctx, work context.Context, rd *reading, l *lane) event.Settlement {
	select {
	case <-ctx.Done():
		return w.later(rd, stopped(w.Now()))
	case l.room <- struct{}{}:
	}
	defer func() { <-l.room }()
	if late := w.lanes.paused(rd.lane, w.Now()); late != nil {
		return w.later(rd, late)
	}
	return w.outcome(work, rd, func(t target, e *event.Event) (string, error) {
		return w.hydrate(ctx, rd, t, e)
	})
}

func stopped(now time.Time) *later {
	return &later{at: now, why: "The gateway was stopped while it worked on it."}
}

// hydrate completes an event with the credential of a target's integration. The
// note tells people why it stayed as it came. The error is a [*later] when the
// service wants to be asked again, and any other when it may be worth to try.
func (w *Worker) hydrate(ctx context.Context, rd *reading, t target, e *event.Event) (note string, err error) {
	within, stop := context.WithTimeout(ctx, hydrateTime)
	defer stop()
	whole := *e
	err = w.match.safely(ctx, "completing an event of "+e.Provider, func() error {
		_, err := w.Integrations.Hydrate(within, t.organization, t.integration, &whole)
		return err
	})
	switch {
	case err == nil:
		*e = whole
		return "", nil
	case ctx.Err() != nil:
		return "", stopped(w.Now())
	}
	if wait := asked(err); wait > 0 && w.Now().Sub(rd.receipt.ReceivedAt) < hydrateWithin {
		w.Count("hydrate_backoff", e.Provider)
		return "", w.lanes.pause(rd.lane, w.Now().Add(min(wait, longestWait)))
	}
	w.Count("hydrate_failed", e.Provider)
	if rd.receipt.Failures+1 < hydrateTries {
		return "", err
	}
	w.Log.WarnContext(ctx, "an event goes on incomplete", "delivery", rd.receipt.ID, "integration", t.integration, "error", w.match.json.RedactText(err.Error(), nil))
	return "Its details could not be fetched from the service. " + w.match.forPeople(err), nil
}

// asked returns how long a service wants to be left alone; zero: it did not say.
func asked(err error) time.Duration {
	var e *action.Error
	if errors.As(err, &e) && (errors.Is(err, action.ErrUnavailable) || errors.Is(err, action.ErrTooMany)) {
		return e.RetryAfter
	}
	return 0
}

// lanes bound what waits for services, so that no integration's flood, and no
// slow service, keeps others waiting.
type lanes struct {
	mu   sync.Mutex
	held int
	all  map[string]*lane
}

type lane struct {
	room  chan struct{}
	held  int
	until time.Time // when its service may be asked again
}

// enter takes a place in a lane, or says when to come again.
func (l *lanes) enter(name string, now time.Time, wait time.Duration) (*lane, *later) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.all[name]
	switch {
	case in == nil && l.held < lanesDeep:
		in = &lane{room: make(chan struct{}, laneWide)}
		if l.all == nil {
			l.all = make(map[string]*lane)
		}
		l.all[name] = in
	case in != nil && in.until.After(now):
		return nil, in.late(now)
	case in == nil, l.held >= lanesDeep, in.held >= laneDeep:
		return nil, &later{at: now.Add(min(wait, time.Minute)), why: "Others wait for the same service."}
	}
	l.held++
	in.held++
	return in, nil
}

func (l *lanes) leave(name string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held--
	in := l.all[name]
	if in.held--; in.held == 0 && !in.until.After(now) {
		delete(l.all, name)
	}
}

// pause has a lane rest.
func (l *lanes) pause(name string, until time.Time) *later {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.all[name]
	if until.After(in.until) {
		in.until = until
	}
	return &later{at: until, why: restText}
}

// paused returns when to come again while a lane rests, otherwise nil.
func (l *lanes) paused(name string, now time.Time) *later {
	l.mu.Lock()
	defer l.mu.Unlock()
	if in := l.all[name]; in.until.After(now) {
		return in.late(now)
	}
	return nil
}

const restText = "The service wants to be asked later."

// late spreads those who come again: they all wait for the same moment.
func (l *lane) late(now time.Time) *later {
	return &later{at: l.until.Add(rand.N(l.until.Sub(now)/2 + 1)), why: restText}
}
