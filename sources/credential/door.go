package credential

import (
	"context"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

// place is whose tokens they are.
type place struct{ organization, connector string }

// retry is how long a renewal that failed is not tried again.
const retry = 10 * time.Second

// door is what this instance knows of a connector's tokens, and the one way
// for it to change them.
type door struct {
	turn chan struct{} // holds one value while somebody changes them

	// Guarded by the OAuth's mutex:
	at      time.Time // the row was read; zero: it is to be read
	grant   action.OAuthGrant
	kept    *kept
	reading *reading // what those who look wait for; nil: nobody does
	failed  error    // of the last renewal
	until   time.Time
}

func (o *OAuth) door(at place) *door {
	o.mu.Lock()
	defer o.mu.Unlock()
	d := o.doors[at]
	if d == nil {
		d = &door{turn: make(chan struct{}, 1)}
		o.doors[at] = d
	}
	return d
}

// reread returns the grant as its row has it now.
func (o *OAuth) reread(ctx context.Context, at place) (action.OAuthGrant, *kept, error) {
	now := o.Now()
	g, k, err := o.read(ctx, at.organization, at.connector)
	if err != nil {
		return g, nil, err
	}
	d := o.door(at)
	o.mu.Lock()
	d.at, d.grant, d.kept = now, g, k
	o.mu.Unlock()
	return g, k, nil
}

// forget has the row read again.
func (o *OAuth) forget(at place) {
	d := o.door(at)
	o.mu.Lock()
	d.at, d.reading, d.failed, d.until = time.Time{}, nil, nil, time.Time{}
	o.mu.Unlock()
}

// paused returns why the last renewal failed, as long as it is too early for
// another.
func (o *OAuth) paused(at place) error {
	d := o.door(at)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.Now().Before(d.until) {
		return d.failed
	}
	return nil
}

func (o *OAuth) pause(at place, err error) {
	d := o.door(at)
	o.mu.Lock()
	defer o.mu.Unlock()
	d.failed, d.until = err, o.Now().Add(retry)
}

// busy reports whether somebody here changes the tokens now.
func (o *OAuth) busy(at place) bool { return len(o.door(at).turn) > 0 }

// alone runs f while nobody else changes these tokens, here or elsewhere.
func (o *OAuth) alone(ctx context.Context, at place, f func() error) error {
	leave, err := o.door(at).enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return o.locked(ctx, at, f)
}

// enter waits until nobody of this instance changes the tokens: one caller at a
// time asks for the lock that all instances contend for.
func (d *door) enter(ctx context.Context) (leave func(), err error) {
	select {
	case d.turn <- struct{}{}:
		return func() { <-d.turn }, nil
	case <-ctx.Done():
		return nil, late(context.Cause(ctx))
	}
}

func (o *OAuth) locked(ctx context.Context, at place, f func() error) error {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(o.life, stop)()
	unlock, err := o.Lock(waiting, "oauth:"+at.organization+":"+at.connector)
	if err != nil {
		return late(err)
	}
	defer unlock()
	return f()
}

func late(err error) error {
	e := action.Errorf(action.ErrUnavailable, sources.FaultTimeout, "The connector's token is being renewed, which takes too long; try again.")
	e.Err = err
	return e
}
