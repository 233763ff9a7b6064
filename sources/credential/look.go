package credential

import (
	"context"
	"time"

	"sallyport/action"
)

// fresh is how long a row that was read is relied on.
const fresh = time.Second

// reading is one read of a row, for all who look meanwhile.
type reading struct {
	done  chan struct{}
	grant action.OAuthGrant
	kept  *kept
	err   error
}

// look returns the grant as it was a second ago or later. However many look,
// its row is read once at a time, and whoever leaves stops it for nobody.
func (o *OAuth) look(ctx context.Context, at place) (action.OAuthGrant, *kept, error) {
	d, now := o.door(at), o.Now()
	o.mu.Lock()
	if age := now.Sub(d.at); age >= 0 && age < fresh {
		defer o.mu.Unlock()
		return d.grant, d.kept, nil
	}
	r, first := d.reading, d.reading == nil
	if first {
		r = &reading{done: make(chan struct{})}
		d.reading = r
	}
	o.mu.Unlock()
	if first {
		if err := o.start(func() { o.fill(ctx, at, r) }); err != nil {
			r.err = err
			o.show(d, r, now)
		}
	}
	select {
	case <-r.done:
		return r.grant, r.kept, r.err
	case <-ctx.Done():
		return action.OAuthGrant{}, nil, context.Cause(ctx)
	}
}

// fill reads the row.
func (o *OAuth) fill(ctx context.Context, at place, r *reading) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), o.Timeout)
	defer stop()
	now := o.Now()
	r.grant, r.kept, r.err = o.read(ctx, at.organization, at.connector)
	o.show(o.door(at), r, now)
}

// show hands out what was read. What was forgotten meanwhile is an older row,
// for those alone who were there before.
func (o *OAuth) show(d *door, r *reading, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if d.reading == r {
		d.reading = nil
		if r.err == nil {
			d.at, d.grant, d.kept = at, r.grant, r.kept
		}
	}
	close(r.done)
}
