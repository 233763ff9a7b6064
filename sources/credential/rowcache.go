package credential

import (
	"context"
	"errors"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

// rowKey identifies a credential: that of a connector or of an integration.
type rowKey struct{ organization, id string }

// retryDelay is the pause after a failed renewal.
const retryDelay = 10 * time.Second

// rowCache serialises access to the rows of credentials in this instance:
// concurrent reads of a row share one query, and one caller at a time changes
// it. A lock extends that to all instances.
type rowCache[V any] struct {
	name    string // prefix of the lock names
	lock    func(ctx context.Context, name string) (unlock func(), err error)
	read    func(ctx context.Context, at rowKey) (V, error)
	timeout time.Duration // of a read
	now     func() time.Time

	background sync.WaitGroup  // renewals and reads
	ctx        context.Context // of waiting for locks
	cancel     context.CancelFunc

	mu      sync.Mutex // guards the fields below, and those of the entries
	closed  bool
	entries map[rowKey]*entry[V]
}

// entry is what this instance knows of one credential.
type entry[V any] struct {
	busy chan struct{} // semaphore of size one: held by whoever changes the credential

	// of the row; zero: not cached
	readAt    time.Time // the row was read; zero: it is to be read
	row       V
	pending   *pendingRead[V] // read in progress; nil: none
	lastError error           // of the last renewal
	retryAt   time.Time
}

func (d *rowCache[V]) start() {
	d.entries = make(map[rowKey]*entry[V])
	d.ctx, d.cancel = context.WithCancel(context.Background())
}

// close waits for background work. Nothing starts afterwards.
func (d *rowCache[V]) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.cancel()
	d.background.Wait()
}

// goTracked runs f in a goroutine that close waits for. After close it returns
// an error.
func (d *rowCache[V]) goTracked(f func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return action.Errorf(action.ErrUnavailable, sources.FaultCredential, "The gateway is shutting down. Retry in a few seconds.")
	}
	d.background.Go(f)
	return nil
}

func (d *rowCache[V]) entry(key rowKey) *entry[V] {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.entries[key]
	if one == nil {
		one = &entry[V]{busy: make(chan struct{}, 1)}
		d.entries[key] = one
	}
	return one
}

// reload reads the row now.
func (d *rowCache[V]) reload(ctx context.Context, key rowKey) (V, error) {
	now := d.now()
	row, err := d.read(ctx, key)
	if err != nil {
		return row, err
	}
	one := d.entry(key)
	d.mu.Lock()
	one.readAt, one.row = now, row
	d.mu.Unlock()
	return row, nil
}

// evict removes the row from the cache.
func (d *rowCache[V]) evict(key rowKey) {
	one := d.entry(key)
	d.mu.Lock()
	one.readAt, one.pending, one.lastError, one.retryAt = time.Time{}, nil, nil, time.Time{}
	d.mu.Unlock()
}

// retryError returns the error of the last renewal while it is too early to
// retry.
func (d *rowCache[V]) retryError(key rowKey) error {
	one := d.entry(key)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now().Before(one.retryAt) {
		return one.lastError
	}
	return nil
}

func (d *rowCache[V]) setRetry(key rowKey, err error) {
	one := d.entry(key)
	d.mu.Lock()
	defer d.mu.Unlock()
	one.lastError, one.retryAt = err, d.now().Add(retryDelay)
}

// changing reports whether a caller of this instance is changing the
// credential.
func (d *rowCache[V]) changing(key rowKey) bool { return len(d.entry(key).busy) > 0 }

// exclusive runs f while no other caller or instance changes the credential.
func (d *rowCache[V]) exclusive(ctx context.Context, key rowKey, f func() error) error {
	leave, err := d.entry(key).acquire(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return d.withLock(ctx, key, f)
}

// acquire waits until no caller of this instance changes the credential: only
// one at a time contends for the lock of all instances.
func (d *entry[V]) acquire(ctx context.Context) (leave func(), err error) {
	select {
	case d.busy <- struct{}{}:
		return func() { <-d.busy }, nil
	case <-ctx.Done():
		return nil, waitError(context.Cause(ctx))
	}
}

func (d *rowCache[V]) withLock(ctx context.Context, key rowKey, f func() error) error {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(d.ctx, stop)()
	unlock, err := d.lock(waiting, d.name+":"+key.organization+":"+key.id)
	if err != nil {
		return waitError(err)
	}
	defer unlock()
	return f()
}

func waitError(err error) error {
	e := action.Errorf(action.ErrUnavailable, sources.FaultTimeout, "The token is being renewed, which is taking too long. Retry.")
	e.Err = err
	return e
}

// runExclusive runs f in the background once no other caller of this instance
// changes the credential. If ctx ends, the caller stops waiting and f
// continues.
func runExclusive[V, R any](ctx context.Context, d *rowCache[V], key rowKey, f func(context.Context) (R, error)) (R, error) {
	var got, none R
	leave, err := d.entry(key).acquire(ctx)
	if err != nil {
		return none, err
	}
	var failed error
	done := make(chan struct{})
	err = d.goTracked(func() {
		defer close(done)
		defer leave()
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), renewTimeout)
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
		return none, waitError(context.Cause(ctx))
	}
}

// renew returns what fresh takes from the row, or else from what replace makes of
// it: once for all callers and instances.
func renew[V, R any](ctx context.Context, d *rowCache[V], key rowKey, fresh func(V) (R, bool), replace func(context.Context, V) (R, error)) (R, error) {
	if err := d.retryError(key); err != nil {
		var none R
		return none, err
	}
	return runExclusive(ctx, d, key, func(ctx context.Context) (next R, err error) {
		// The previous holder can have renewed it: checking needs no lock.
		if row, err := d.load(ctx, key); err == nil {
			if now, ok := fresh(row); ok {
				return now, nil
			}
		}
		err = d.withLock(ctx, key, func() error {
			if err := d.retryError(key); err != nil {
				return err
			}
			row, err := d.reload(ctx, key)
			if err != nil {
				return storageError(err)
			}
			var ok bool
			if next, ok = fresh(row); ok {
				return nil
			}
			if next, err = replace(ctx, row); err != nil && !errors.Is(err, errChanged) { // the changed one may be valid
				d.setRetry(key, err)
			}
			return err
		})
		return next, err
	})
}

// writeRenewed writes renewed tokens. They can be the only valid ones, so that it
// retries after a failure.
func (d *rowCache[V]) writeRenewed(ctx context.Context, key rowKey, write func() error) error {
	for attempt := 1; ; attempt++ {
		err := write()
		if err == nil {
			d.evict(key)
		}
		if err == nil || attempt == 3 || errors.Is(err, action.ErrConflict) || errors.Is(err, action.ErrNotFound) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(attempt) * 200 * time.Millisecond):
		}
	}
}

// cacheTTL is how long a row is cached.
const cacheTTL = time.Second

// pendingRead is one read of a row, shared by all callers that arrive
// meanwhile.
type pendingRead[V any] struct {
	done chan struct{}
	row  V
	err  error
}

// load returns the row, at most cacheTTL old. Concurrent callers share one
// read, and a caller that leaves does not cancel it.
func (d *rowCache[V]) load(ctx context.Context, key rowKey) (row V, err error) {
	one, now := d.entry(key), d.now()
	d.mu.Lock()
	if age := now.Sub(one.readAt); age >= 0 && age < cacheTTL {
		defer d.mu.Unlock()
		return one.row, nil
	}
	r, first := one.pending, one.pending == nil
	if first {
		r = &pendingRead[V]{done: make(chan struct{})}
		one.pending = r
	}
	d.mu.Unlock()
	if first {
		err := d.goTracked(func() {
			ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), d.timeout)
			defer stop()
			now := d.now()
			r.row, r.err = d.read(ctx, key)
			d.publish(one, r, now)
		})
		if err != nil {
			r.err = err
			d.publish(one, r, now)
		}
	}
	select {
	case <-r.done:
		return r.row, r.err
	case <-ctx.Done():
		return row, context.Cause(ctx)
	}
}

// publish hands the row to the waiting callers. A row that was evicted during
// the read is not cached.
func (d *rowCache[V]) publish(one *entry[V], r *pendingRead[V], at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if one.pending == r {
		one.pending = nil
		if r.err == nil {
			one.readAt, one.row = at, r.row
		}
	}
	close(r.done)
}
