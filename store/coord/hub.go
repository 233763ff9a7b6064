package coord

import (
	"slices"
	"sync"
	"sync/atomic"

	"sallyport/action"
)

// Hub publishes hints within one process: Publish calls every subscriber on the
// goroutine of the publisher. The zero value is ready to use.
type Hub struct {
	mu   sync.Mutex // serializes changes of list
	list atomic.Pointer[[]*subscriber]
}

type subscriber struct {
	call func(action.Hint)
	gone atomic.Bool
}

// NewHub returns a hub without subscribers.
func NewHub() *Hub { return &Hub{} }

// Publish implements [action.Hints]. It calls subscribers without a lock, so that they
// can publish, subscribe and cancel.
func (h *Hub) Publish(hint action.Hint) {
	list := h.list.Load()
	if list == nil {
		return
	}
	for _, s := range *list {
		if !s.gone.Load() {
			s.call(hint)
		}
	}
}

// Subscribe implements [action.Hints]. No call of f starts after cancel has returned;
// cancel does not wait for a call in progress.
func (h *Hub) Subscribe(f func(action.Hint)) (cancel func()) {
	s := &subscriber{call: f}
	h.change(func(list []*subscriber) []*subscriber { return append(list, s) })
	return func() {
		if s.gone.CompareAndSwap(false, true) {
			h.change(func(list []*subscriber) []*subscriber {
				return slices.DeleteFunc(list, func(o *subscriber) bool { return o == s })
			})
		}
	}
}

// change replaces the list by a changed copy, since a Publish in progress still reads
// the old one.
func (h *Hub) change(f func([]*subscriber) []*subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []*subscriber
	if old := h.list.Load(); old != nil {
		list = slices.Clone(*old)
	}
	list = f(list)
	h.list.Store(&list)
}
