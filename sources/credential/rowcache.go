package credential

import (
	"context"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

// place is whose credential it is: a connector's, or an integration's.
type place struct{ organization, id string }

// retry is how long a renewal that failed is not tried again.
const retry = 10 * time.Second

// doors are the one way for this instance to read credentials of rows and to
// change them: each is read once at a time and changed by one at a time.
type doors[V any] struct {
	name    string // of the locks
	lock    func(ctx context.Context, name string) (unlock func(), err error)
	read    func(ctx context.Context, at place) (V, error)
	timeout time.Duration // of reading
	now     func() time.Time

	work sync.WaitGroup  // renewals, and reads of rows
	life context.Context // of waiting for locks
	end  context.CancelFunc

	mu     sync.Mutex // and what is said to be guarded of each door
	closed bool
	doors  map[place]*door[V]
}

// door is what this instance knows of one credential.
type door[V any] struct {
	turn chan struct{} // holds one value while somebody changes it

	// Guarded by the mutex of all:
	at      time.Time // the row was read; zero: it is to be read
	row     V
	reading *reading[V] // what those who look wait for; nil: nobody does
	failed  error       // of the last renewal
	until   time.Time
}

func (d *doors[V]) open() {
	d.doors = make(map[place]*door[V])
	d.life, d.end = context.WithCancel(context.Background())
}

// close waits for what was started. Nothing begins after it.
func (d *doors[V]) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.end()
	d.work.Wait()
}

// start runs f in the background, where close waits for it, unless it came
// first.
func (d *doors[V]) start(f func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return action.Errorf(action.ErrUnavailable, sources.FaultCredential, "The gateway is stopping; try again in a few seconds.")
	}
	d.work.Go(f)
	return nil
}

func (d *doors[V]) door(at place) *door[V] {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.doors[at]
	if one == nil {
		one = &door[V]{turn: make(chan struct{}, 1)}
		d.doors[at] = one
	}
	return one
}

// reread returns the row as it is now.
func (d *doors[V]) reread(ctx context.Context, at place) (V, error) {
	now := d.now()
	row, err := d.read(ctx, at)
	if err != nil {
		return row, err
	}
	one := d.door(at)
	d.mu.Lock()
	one.at, one.row = now, row
	d.mu.Unlock()
	return row, nil
}

// forget has the row read again.
func (d *doors[V]) forget(at place) {
	one := d.door(at)
	d.mu.Lock()
	one.at, one.reading, one.failed, one.until = time.Time{}, nil, nil, time.Time{}
	d.mu.Unlock()
}

// paused returns why the last renewal failed, as long as it is too early for
// another.
func (d *doors[V]) paused(at place) error {
	one := d.door(at)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now().Before(one.until) {
		return one.failed
	}
	return nil
}

func (d *doors[V]) pause(at place, err error) {
	one := d.door(at)
	d.mu.Lock()
	defer d.mu.Unlock()
	one.failed, one.until = err, d.now().Add(retry)
}

// busy reports whether somebody here changes the credential now.
func (d *doors[V]) busy(at place) bool { return len(d.door(at).turn) > 0 }

// alone runs f while nobody else changes the credential, here or elsewhere.
func (d *doors[V]) alone(ctx context.Context, at place, f func() error) error {
	leave, err := d.door(at).enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return d.locked(ctx, at, f)
}

// enter waits until nobody of this instance changes the credential: one caller
// at a time asks for the lock that all instances contend for.
func (d *door[V]) enter(ctx context.Context) (leave func(), err error) {
	select {
	case d.turn <- struct{}{}:
		return func() { <-d.turn }, nil
	case <-ctx.Done():
		return nil, late(context.Cause(ctx))
	}
}

func (d *doors[V]) locked(ctx context.Context, at place, f func() error) error {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(d.life, stop)()
	unlock, err := d.lock(waiting, d.name+":"+at.organization+":"+at.id)
	if err != nil {
		return late(err)
	}
	defer unlock()
	return f()
}

func late(err error) error {
	e := action.Errorf(action.ErrUnavailable, sources.FaultTimeout, "The token is being renewed, which takes too long; try again.")
	e.Err = err
	return e
}

// once runs f when it is the caller's turn at the door, in the background: a
// caller whose ctx ends is waited for no longer, and what was begun goes on.
func once[V, R any](ctx context.Context, d *doors[V], at place, f func(context.Context) (R, error)) (R, error) {
	var got, none R
	leave, err := d.door(at).enter(ctx)
	if err != nil {
		return none, err
	}
	var failed error
	done := make(chan struct{})
	err = d.start(func() {
		defer close(done)
		defer leave()
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), maxRenew)
		defer stop()
		got, failed = f(ctx)
	})
	if err != nil {
		leave()
		return none, err
	}
	select {
	case <-done:
		return got, failed
	case <-ctx.Done():
		return none, late(context.Cause(ctx))
	}
}

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
