// Package dispatch delivers runs to the HTTP endpoints of their organizations, at least
// once, and ends runs whose worker was lost or whose time is over.
package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/ingest"
	"sallyport/ingest/event"
	"sallyport/ingest/loop"
	"sallyport/internal/defaults"
	"sallyport/internal/redact"
)

// DispatcherConfig configures a [Dispatcher]. The interfaces, Do, Token, Worker, MCPURL and
// APIURL are required; zero durations and numbers mean the default in the comment.
type DispatcherConfig struct {
	Rows  ingest.Rows
	Vault action.Vault
	JSON  *redact.JSON
	// Do sends a request to an endpoint. It must not reach private addresses or follow
	// redirects.
	Do func(r *http.Request) (*http.Response, error)

	Worker    string // id of this process; unique among those that share the database
	Token     func(session string) string
	MCPURL    string // of the gateway, for agents
	APIURL    string // the base of /api/v1, for workers
	UserAgent string // "sallyport"

	Timing
	Batch    int           `default:"32"`  // deliveries per claim
	Parallel int           `default:"64"`  // concurrent requests of all organizations
	Timeout  time.Duration `default:"15s"` // of a request
	Lease    time.Duration `default:"2m"`  // of claimed deliveries
	Life     time.Duration `default:"48h"` // of an endpoint's claim to a run

	// Changed is called with runs that were claimed for their endpoint, or that failed
	// because it did not accept them. May be nil.
	Changed func(runs []event.Run)
	Now     func() time.Time `default:"time.Now"`
	Log     *slog.Logger     `default:"discard"`
}

// Timing is the interval of a [Dispatcher] that is a flag of the server. Zero
// means the default.
type Timing struct {
	Every time.Duration `default:"1s" help:"Interval of checking for runs to deliver (default: ${default})." name:"dispatch-every" placeholder:"D"` // without a wake-up
}

func (c *DispatcherConfig) setDefaults() error {
	if c.Rows == nil || c.Vault == nil || c.JSON == nil || c.Do == nil || c.Token == nil || c.Worker == "" || c.MCPURL == "" || c.APIURL == "" {
		return errors.New("dispatch.DispatcherConfig: Rows, Vault, JSON, Do, Token, Worker, MCPURL and APIURL are required")
	}
	if c.UserAgent == "" {
		c.UserAgent = "sallyport"
	}
	if c.Changed == nil {
		c.Changed = func([]event.Run) {}
	}
	defaults.Set(c)
	return nil
}

// Dispatcher delivers runs to the endpoints of their organizations. A run may reach its
// endpoint more than once, each time with the same webhook-id, claim and session.
type Dispatcher struct {
	DispatcherConfig
	wake    loop.Signal
	slots   chan struct{} // for concurrent requests
	queues  queues
	sending sync.WaitGroup
}

// NewDispatcher returns a dispatcher, for [Dispatcher.Run].
func NewDispatcher(c DispatcherConfig) (*Dispatcher, error) {
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	return &Dispatcher{DispatcherConfig: c, wake: loop.NewSignal(), slots: make(chan struct{}, c.Parallel)}, nil
}

// Wake has the dispatcher claim runs now. It does not block.
func (d *Dispatcher) Wake() { d.wake.Notify() }

// Run delivers due runs until ctx ends, finishes requests in progress and returns
// ctx's error.
func (d *Dispatcher) Run(ctx context.Context) error {
	work, stop := loop.WithGrace(ctx, loop.ShutdownGrace)
	defer stop()
	defer d.sending.Wait()
	for failures := 0; ctx.Err() == nil; {
		list, err := d.Rows.ClaimRunDeliveries(work, d.Worker, d.Batch, d.Lease, d.Life)
		d.enqueue(ctx, work, list) // even after an error, list was claimed
		switch {
		case err != nil:
			failures++
			d.Log.ErrorContext(ctx, "runs could not be claimed from the outbox", "error", err)
			loop.Sleep(ctx, loop.Backoff(d.Every, 30*d.Every, failures))
		case len(list) < d.Batch:
			failures = 0
			d.wake.Wait(ctx, d.Every)
		default:
			failures = 0
		}
	}
	return ctx.Err()
}

// enqueue adds claimed deliveries to the queues of their organizations.
func (d *Dispatcher) enqueue(ctx, work context.Context, list []event.Dispatch) {
	var begun []event.Run
	for _, one := range list {
		if one.Delivery.Attempt == 1 {
			begun = append(begun, one.Work.Run)
		}
		switch b, where := d.queues.add(one, d.Now()); where {
		case needsSender:
			d.sending.Go(func() { d.sendQueue(ctx, work, b) })
		case queueFull:
			d.settle(work, d.postpone(one.Delivery, one.Delivery.LastError))
		case endpointDown:
			d.settle(work, d.retryUnanswered(one.Delivery))
		}
	}
	if len(begun) > 0 {
		d.Changed(begun)
	}
}

// sendQueue sends the deliveries of a queue one by one. After ctx has ended it sends
// nothing more.
func (d *Dispatcher) sendQueue(ctx, work context.Context, b *queue) {
	for one, ok := d.queues.next(b); ok; one, ok = d.queues.next(b) {
		d.slots <- struct{}{}
		if ctx.Err() != nil || d.Now().After(one.claimedAt.Add(d.Lease-d.Timeout)) {
			<-d.slots
			d.settle(work, event.DispatchResult{Delivery: one.Delivery, Status: event.DeliveryPending, NextAt: d.Now()})
			continue
		}
		one.Delivery = d.markAttempted(one.Delivery)
		sent, answered := d.send(work, one.Dispatch)
		<-d.slots
		d.settle(work, sent)
		for _, other := range d.queues.recordAnswer(b, answered) {
			d.settle(work, d.retryUnanswered(other.Delivery))
		}
	}
}

// settle writes the outcome of a delivery. While the database is unreachable it
// retries until the lease expires; then the delivery is sent again.
func (d *Dispatcher) settle(ctx context.Context, s event.DispatchResult) {
	ctx, end := loop.WithGrace(ctx, time.Second)
	defer end()
	ctx, stop := context.WithTimeout(ctx, d.Lease)
	defer stop()
	var run event.Run
	var held bool
	err := loop.RetryUnavailable(ctx, func() (err error) {
		run, held, err = d.Rows.SettleRunDelivery(ctx, d.Worker, s)
		return err
	})
	switch {
	case err != nil:
		d.Log.ErrorContext(ctx, "the outcome of a delivery could not be written", "run", s.Delivery.Run, "error", err)
	case !held && s.Status == event.DeliveryDelivered: // the run began before the response arrived
	case !held:
		d.Log.WarnContext(ctx, "another worker had the delivery when it ended", "run", s.Delivery.Run)
	case run.Status.Ended():
		d.Log.WarnContext(ctx, "a run could not be delivered", "organization", run.Organization, "run", run.ID, "http", s.HTTP, "error", s.Error)
		d.Changed([]event.Run{run})
	}
}

const (
	maxQueued  = 32 // queued deliveries of an organization
	maxSenders = 4  // concurrent requests to its endpoint
)

// queues hold claimed deliveries by organization, so that an endpoint that does not
// respond delays only its own.
type queues struct {
	mu             sync.Mutex
	byOrganization map[string]*queue
}

type queue struct {
	organization string
	deliveries   []queuedDelivery
	senders      int
	unreachable  bool // the endpoint did not respond to the last request
}

type queuedDelivery struct {
	event.Dispatch
	claimedAt time.Time // for the lease
}

// putResult is the result of queues.add.
type putResult int

const (
	queued       putResult = iota
	needsSender            // queued; start another sender
	queueFull              // rejected: the queue is full
	endpointDown           // rejected: the endpoint does not respond
)

// add queues a delivery unless the queue is full or its endpoint does not respond.
func (s *queues) add(one event.Dispatch, now time.Time) (*queue, putResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.byOrganization[one.Delivery.Organization]
	if b == nil {
		b = &queue{organization: one.Delivery.Organization}
		if s.byOrganization == nil {
			s.byOrganization = map[string]*queue{}
		}
		s.byOrganization[b.organization] = b
	}
	switch {
	case b.unreachable:
		return b, endpointDown
	case len(b.deliveries) >= maxQueued:
		return b, queueFull
	}
	b.deliveries = append(b.deliveries, queuedDelivery{one, now})
	if b.senders >= maxSenders {
		return b, queued
	}
	b.senders++
	return b, needsSender
}

// next returns the next delivery; false ends the sender.
func (s *queues) next(b *queue) (one queuedDelivery, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(b.deliveries) > 0 {
		one, b.deliveries = b.deliveries[0], b.deliveries[1:]
		return one, true
	}
	if b.senders--; b.senders == 0 {
		delete(s.byOrganization, b.organization) // and the state of the endpoint with it
	}
	return one, false
}

// recordAnswer records whether an endpoint responded. If not, the queued deliveries are
// returned.
func (s *queues) recordAnswer(b *queue, did bool) (out []queuedDelivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.unreachable = !did; did {
		return nil
	}
	out, b.deliveries = b.deliveries, nil
	return out
}
