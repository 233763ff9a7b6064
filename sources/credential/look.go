package credential

import (
	"context"
	"time"
)

// fresh is how long a row that was read is relied on.
const fresh = time.Second

// reading is one read of a row, for all who look meanwhile.
type reading[V any] struct {
	done chan struct{}
	row  V
	err  error
}

// look returns the row as it was a second ago or later. However many look, it
// is read once at a time, and whoever leaves stops it for nobody.
func (d *doors[V]) look(ctx context.Context, at place) (row V, err error) {
	one, now := d.door(at), d.now()
	d.mu.Lock()
	if age := now.Sub(one.at); age >= 0 && age < fresh {
		defer d.mu.Unlock()
		return one.row, nil
	}
	r, first := one.reading, one.reading == nil
	if first {
		r = &reading[V]{done: make(chan struct{})}
		one.reading = r
	}
	d.mu.Unlock()
	if first {
		if err := d.start(func() { d.fill(ctx, at, r) }); err != nil {
			r.err = err
			d.show(one, r, now)
		}
	}
	select {
	case <-r.done:
		return r.row, r.err
	case <-ctx.Done():
		return row, context.Cause(ctx)
	}
}

// fill reads the row.
func (d *doors[V]) fill(ctx context.Context, at place, r *reading[V]) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), d.timeout)
	defer stop()
	now := d.now()
	r.row, r.err = d.read(ctx, at)
	d.show(d.door(at), r, now)
}

// show hands out what was read. What was forgotten meanwhile is an older row,
// for those alone who were there before.
func (d *doors[V]) show(one *door[V], r *reading[V], at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if one.reading == r {
		one.reading = nil
		if r.err == nil {
			one.at, one.row = at, r.row
		}
	}
	close(r.done)
}
