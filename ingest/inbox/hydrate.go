package inbox

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"sallyport/ingest/event"
	"sallyport/ingest/loop"
)

const (
	queueWorkers   = 4   // deliveries of one integration that are completed concurrently
	maxQueued      = 25  // limit of deliveries in one queue
	maxQueuedTotal = 200 // limit of deliveries in all queues
	hydrateTimeout = 30 * time.Second
	// maxHydrations is the number of attempts before an event continues incomplete, and
	// hydrateWithin how long it waits for a service that asks to retry later.
	maxHydrations   = 3
	hydrateWithin   = 6 * time.Hour
	maxServicePause = time.Hour
)

// postponed is the error of a delivery that is to be processed later, without having
// failed.
type postponed struct {
	until  time.Time
	reason string
}

func (l *postponed) Error() string { return l.reason }

// queueName returns the queue of a reading: the integration that completes its
// events or is rechecked, the first if there are several; empty if no service is
// called.
func (w *Worker) queueName(rd *reading) string {
	if len(rd.recheck) > 0 {
		return rd.recheck[0].Organization + "/" + rd.recheck[0].ID
	}
	for _, e := range rd.events {
		for _, t := range rd.targets {
			if t.listensTo(e) && w.needsHydration(t, e) {
				return t.organization + "/" + t.integration
			}
		}
	}
	return ""
}

// needsHydration reports whether an event is completed for a target. Unverified
// events cause no calls of a service.
func (w *Worker) needsHydration(t target, e event.Event) bool {
	return t.integration != "" && !t.unverified && w.Hydrates(e.Provider)
}

func (t *target) listensTo(e event.Event) bool {
	return slices.ContainsFunc(t.triggers, func(tr event.Trigger) bool { return tr.Type == e.Type })
}

// hydrateLater completes and settles a reading in the background. It returns when to
// retry if the queue is full or paused.
func (w *Worker) hydrateLater(ctx, work context.Context, rd *reading) *postponed {
	l, late := w.queues.admit(rd.queue, w.Now(), w.Backoff(rd.receipt.Failures+1))
	if late != nil {
		return late
	}
	w.hydrations.Go(func() {
		defer func() { w.queues.release(rd.queue, w.Now()) }()
		w.settle(work, []event.Settlement{w.hydrateAndMatch(ctx, work, rd, l)})
	})
	return nil
}

// hydrateAndMatch processes a reading when its turn in the queue comes. If ctx ends
// before, the delivery is released.
func (w *Worker) hydrateAndMatch(ctx, work context.Context, rd *reading, l *serviceQueue) event.Settlement {
	select {
	case <-ctx.Done():
		return w.postpone(rd, stoppedError(w.Now()))
	case l.slots <- struct{}{}:
	}
	defer func() { <-l.slots }()
	if late := w.queues.paused(rd.queue, w.Now()); late != nil {
		return w.postpone(rd, late)
	}
	return w.outcome(work, rd, func(t target, e *event.Event) (string, error) {
		return w.hydrate(ctx, rd, t, e)
	})
}

func stoppedError(now time.Time) *postponed {
	return &postponed{until: now, reason: "The gateway stopped while it processed this."}
}

// hydrate completes an event with the credential of a target's integration. The note
// tells people why an event stayed incomplete. The error is a [*postponed] if the
// service asks to retry later, any other if a retry may help.
func (w *Worker) hydrate(ctx context.Context, rd *reading, t target, e *event.Event) (note string, err error) {
	within, stop := context.WithTimeout(ctx, hydrateTimeout)
	defer stop()
	whole := *e
	err = w.match.Recovering(ctx, "completing an event of "+e.Provider, func() error {
		_, err := w.Integrations.Hydrate(within, t.organization, t.integration, &whole)
		return err
	})
	switch {
	case err == nil:
		*e = whole
		return "", nil
	case ctx.Err() != nil:
		return "", stoppedError(w.Now())
	}
	if wait := loop.RetryAfter(err); wait > 0 && w.Now().Sub(rd.receipt.ReceivedAt) < hydrateWithin {
		w.Count("hydrate_backoff", e.Provider)
		return "", w.queues.pause(rd.queue, w.Now().Add(min(wait, maxServicePause)))
	}
	w.Count("hydrate_failed", e.Provider)
	if rd.receipt.Failures+1 < maxHydrations {
		return "", err
	}
	w.Log.WarnContext(ctx, "processing an event without details", "delivery", rd.receipt.ID, "integration", t.integration, "error", w.match.JSON.RedactText(err.Error(), nil))
	return "Its details could not be fetched from the service. " + w.match.PublicText(err), nil
}

// serviceQueues bound what waits for services, so that neither a flood of one
// integration nor a slow service delays others.
type serviceQueues struct {
	mu     sync.Mutex
	total  int
	byName map[string]*serviceQueue
}

type serviceQueue struct {
	slots       chan struct{}
	length      int
	pausedUntil time.Time // when the service may be called again
}

// admit reserves a place in a queue, or says when to retry.
func (l *serviceQueues) admit(name string, now time.Time, wait time.Duration) (*serviceQueue, *postponed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.byName[name]
	switch {
	case in == nil && l.total < maxQueuedTotal:
		in = &serviceQueue{slots: make(chan struct{}, queueWorkers)}
		if l.byName == nil {
			l.byName = make(map[string]*serviceQueue)
		}
		l.byName[name] = in
	case in != nil && in.pausedUntil.After(now):
		return nil, in.postpone(now)
	case in == nil, l.total >= maxQueuedTotal, in.length >= maxQueued:
		return nil, &postponed{until: now.Add(min(wait, time.Minute)), reason: "Other deliveries wait for the same service."}
	}
	l.total++
	in.length++
	return in, nil
}

func (l *serviceQueues) release(name string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	in := l.byName[name]
	if in.length--; in.length == 0 && !in.pausedUntil.After(now) {
		delete(l.byName, name)
	}
}

// pause stops a queue until a time.
func (l *serviceQueues) pause(name string, until time.Time) *postponed {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.byName[name]
	if until.After(in.pausedUntil) {
		in.pausedUntil = until
	}
	return &postponed{until: until, reason: pausedText}
}

// paused returns when to retry while a queue is paused, otherwise nil.
func (l *serviceQueues) paused(name string, now time.Time) *postponed {
	l.mu.Lock()
	defer l.mu.Unlock()
	if in := l.byName[name]; in.pausedUntil.After(now) {
		return in.postpone(now)
	}
	return nil
}

const pausedText = "The service asked to retry later."

// postpone adds jitter, because all deliveries of the queue wait for the same time.
func (l *serviceQueue) postpone(now time.Time) *postponed {
	return &postponed{until: l.pausedUntil.Add(rand.N(l.pausedUntil.Sub(now)/2 + 1)), reason: pausedText}
}
