package webhook_test

import (
	"context"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/ingest"
	"sallyport/ingest/event"
)

// receiptRows is an inbox in memory, for what the server puts in.
type receiptRows struct {
	mu       sync.Mutex
	receipts []event.Receipt
	fail     error
	before   func(context.Context) error // called at the beginning of Receive
}

func (s *receiptRows) Receive(ctx context.Context, r event.Receipt) (fresh bool, err error) {
	if s.before != nil {
		if err := s.before(ctx); err != nil {
			return false, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return false, s.fail
	}
	for _, known := range s.receipts {
		if known.Endpoint == r.Endpoint && known.Key == r.Key {
			return false, nil
		}
	}
	s.receipts = append(s.receipts, r)
	return true, nil
}

func (s *receiptRows) stored() []event.Receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]event.Receipt(nil), s.receipts...)
}

// triggerRows has triggers with their secrets, by id.
type triggerRows struct {
	ingest.Rows // nothing else is asked of it
	mu          sync.Mutex
	locks       map[string]event.TriggerSecrets
	looks       int
	fail        error

	before func(id string) // called at the beginning of TriggerSecrets
}

func (r *triggerRows) TriggerSecrets(_ context.Context, id string) (event.TriggerSecrets, error) {
	if r.before != nil {
		r.before(id)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looks++
	if r.fail != nil {
		return event.TriggerSecrets{}, r.fail
	}
	lock, ok := r.locks[id]
	if !ok {
		return event.TriggerSecrets{}, action.ErrNotFound
	}
	return lock, nil
}

func (r *triggerRows) WebhookTriggerSecrets(_ context.Context, automation, provider string) (event.TriggerSecrets, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looks++
	found := []event.TriggerSecrets{}
	for _, lock := range r.locks {
		if lock.Trigger.Automation == automation && lock.Trigger.Provider == provider {
			found = append(found, lock)
		}
	}
	if len(found) != 1 {
		return event.TriggerSecrets{}, action.ErrNotFound
	}
	return found[0], nil
}

// change changes a trigger.
func (r *triggerRows) change(id string, do func(*event.TriggerSecrets)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lock := r.locks[uid(id)]
	do(&lock)
	r.locks[uid(id)] = lock
}

// fakeClock is a clock that stands still until it is moved.
type fakeClock struct {
	mu sync.Mutex
	at time.Time
}

func (w *fakeClock) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

func (w *fakeClock) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = w.at.Add(d)
}
