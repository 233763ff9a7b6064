package ingest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/redact"
)

// DispatcherConfig says what a [Dispatcher] works with. The interfaces, Do, Token,
// Worker, MCPURL and APIURL are required; of the durations and numbers, zero
// means the default in the comment.
type DispatcherConfig struct {
	Rows  Rows
	Vault action.Vault
	JSON  *redact.JSON
	// Do sends a request to an endpoint for runs: it reaches no private address
	// and follows no redirect.
	Do func(r *http.Request) (*http.Response, error)

	Worker    string // this process; unique among those that share rows
	Token     func(session string) string
	MCPURL    string // where agents reach the gateway
	APIURL    string // where workers do: the base of /api/v1
	UserAgent string // "sallyport"

	Batch    int           // parcels that are claimed at once; 32
	Parallel int           // requests at once, of all organizations; 64
	Every    time.Duration // between two looks when nobody wakes it; 1 second
	Timeout  time.Duration // of a request; 15 seconds
	Lease    time.Duration // before others send what this process has; 2 minutes
	Life     time.Duration // of a run that an endpoint took; 48 hours

	// Changed is told of runs that were claimed for their endpoint, or that failed
	// because it did not take them. Nil: nobody is.
	Changed func(runs []event.Run)
	Now     func() time.Time // time.Now
	Log     *slog.Logger     // discards
}

func (c *DispatcherConfig) fill() error {
	if c.Rows == nil || c.Vault == nil || c.JSON == nil || c.Do == nil || c.Token == nil || c.Worker == "" || c.MCPURL == "" || c.APIURL == "" {
		return errors.New("ingest.DispatcherConfig: Rows, Vault, JSON, Do, Token, Worker, MCPURL and APIURL are required")
	}
	for value, use := range map[*time.Duration]time.Duration{&c.Every: time.Second, &c.Timeout: 15 * time.Second, &c.Lease: 2 * time.Minute, &c.Life: 48 * time.Hour} {
		if *value == 0 {
			*value = use
		}
	}
	for value, use := range map[*int]int{&c.Batch: 32, &c.Parallel: 64} {
		if *value == 0 {
			*value = use
		}
	}
	if c.UserAgent == "" {
		c.UserAgent = "sallyport"
	}
	if c.Changed == nil {
		c.Changed = func([]event.Run) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Dispatcher delivers runs to the endpoints of their organizations. A run may
// reach its endpoint more than once, each time with the same webhook-id, claim
// and session.
type Dispatcher struct {
	DispatcherConfig
	wake    bell
	room    chan struct{} // of requests
	bags    bags
	sending sync.WaitGroup
}

// NewDispatcher returns a dispatcher, for [Dispatcher.Run].
func NewDispatcher(c DispatcherConfig) (*Dispatcher, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	return &Dispatcher{DispatcherConfig: c, wake: newBell(), room: make(chan struct{}, c.Parallel)}, nil
}

// Wake has the dispatcher look for runs now. It does not wait.
func (d *Dispatcher) Wake() { d.wake.ring() }

// Run delivers what is due until ctx ends, finishes the requests that are under
// way, and returns ctx's error.
func (d *Dispatcher) Run(ctx context.Context) error {
	work, stop := outlive(ctx, finishWithin)
	defer stop()
	defer d.sending.Wait()
	for failures := 0; ctx.Err() == nil; {
		list, err := d.Rows.ClaimParcels(work, d.Worker, d.Batch, d.Lease, d.Life)
		d.take(ctx, work, list) // also with an error: these are claimed
		switch {
		case err != nil:
			failures++
			d.Log.ErrorContext(ctx, "runs cannot be taken from the outbox", "error", err)
			sleep(ctx, backoff(d.Every, 30*d.Every, failures))
		case len(list) < d.Batch:
			failures = 0
			d.wake.wait(ctx, d.Every)
		default:
			failures = 0
		}
	}
	return ctx.Err()
}

// take puts claimed parcels into the bags of their organizations.
func (d *Dispatcher) take(ctx, work context.Context, list []event.Dispatch) {
	var begun []event.Run
	for _, one := range list {
		if one.Parcel.Attempt == 1 {
			begun = append(begun, one.Work.Run)
		}
		switch b, where := d.bags.put(one, d.Now()); where {
		case sender:
			d.sending.Go(func() { d.empty(ctx, work, b) })
		case full:
			d.settle(work, d.putOff(one.Parcel, one.Parcel.LastError))
		case down:
			d.settle(work, d.unanswered(one.Parcel))
		}
	}
	if len(begun) > 0 {
		d.Changed(begun)
	}
}

// empty sends what is in a bag, one parcel after the other. Once ctx ended it
// sends nothing more.
func (d *Dispatcher) empty(ctx, work context.Context, b *bag) {
	for one, ok := d.bags.next(b); ok; one, ok = d.bags.next(b) {
		d.room <- struct{}{}
		if ctx.Err() != nil || d.Now().After(one.at.Add(d.Lease-d.Timeout)) {
			<-d.room
			d.settle(work, event.Sent{Parcel: one.Parcel, Status: event.ParcelPending, NextAt: d.Now()})
			continue
		}
		one.Parcel = d.tried(one.Parcel)
		sent, answered := d.send(work, one.Dispatch)
		<-d.room
		d.settle(work, sent)
		for _, other := range d.bags.answered(b, answered) {
			d.settle(work, d.unanswered(other.Parcel))
		}
	}
}

// settle writes what came of a parcel. While rows are out of reach it tries
// until the lease is over; then the parcel is sent again.
func (d *Dispatcher) settle(ctx context.Context, s event.Sent) {
	ctx, end := outlive(ctx, time.Second)
	defer end()
	ctx, stop := context.WithTimeout(ctx, d.Lease)
	defer stop()
	var run event.Run
	var held bool
	err := patient(ctx, func() (err error) {
		run, held, err = d.Rows.SettleParcel(ctx, d.Worker, s)
		return err
	})
	switch {
	case err != nil:
		d.Log.ErrorContext(ctx, "what came of a delivery could not be written", "run", s.Parcel.Run, "error", err)
	case !held && s.Status == event.ParcelDelivered: // who has the run began before the answer came
	case !held:
		d.Log.WarnContext(ctx, "a delivery was in other hands when it ended", "run", s.Parcel.Run)
	case run.Status.Ended():
		d.Log.WarnContext(ctx, "a run could not be delivered", "organization", run.Organization, "run", run.ID, "http", s.HTTP, "error", s.Error)
		d.Changed([]event.Run{run})
	}
}
