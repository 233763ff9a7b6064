package credential

import (
	"context"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

// place is whose tokens they are.
type place struct{ organization, connector string }

// fresh is how long a row that was read is relied on.
const fresh = time.Second

// retry is how long a renewal that failed is not tried again.
const retry = 10 * time.Second

// door is what this instance knows of a connector's tokens, and the one way
// for it to change them.
type door struct {
	turn chan struct{} // holds one value while somebody changes them

	// Guarded by the OAuth's mutex:
	at     time.Time // the row was read; zero: it is to be read
	grant  action.OAuthGrant
	kept   *kept
	failed error // of the last renewal
	until  time.Time
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

// look returns the grant as it was a second ago or later.
func (o *OAuth) look(ctx context.Context, at place) (action.OAuthGrant, *kept, error) {
	d, now := o.door(at), o.Now()
	o.mu.Lock()
	g, k, age := d.grant, d.kept, now.Sub(d.at)
	o.mu.Unlock()
	if age >= 0 && age < fresh {
		return g, k, nil
	}
	return o.reread(ctx, at)
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
	d.at, d.failed, d.until = time.Time{}, nil, time.Time{}
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

// alone runs f while nobody else changes these tokens, here or elsewhere. One
// caller of an instance at a time asks for the lock that all contend for.
func (o *OAuth) alone(ctx context.Context, at place, f func() error) error {
	d := o.door(at)
	select {
	case d.turn <- struct{}{}:
	case <-ctx.Done():
		return late(context.Cause(ctx))
	}
	defer func() { <-d.turn }()
	unlock, err := o.Lock(ctx, "oauth:"+at.organization+":"+at.connector)
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
