package connector

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/internal/jsonlex"
	"sallyport/sources"
)

// Subscribe implements [sources.Source].
func (s *Source) Subscribe(ctx context.Context, uri string, on bool) error {
	done, err := s.begin()
	if err != nil {
		return err
	}
	defer done()
	tell, err := s.subscriptions.add(uri, on)
	if err != nil || !tell {
		return err
	}
	err = s.updateSubscription(ctx, uri, on)
	switch {
	case !on: // what it says of the resource all the same is heard by nobody
		return nil
	case err != nil:
		_, _ = s.subscriptions.add(uri, false)
		return err
	}
	s.subscriptions.confirm(uri)
	return nil
}

// updateSubscription subscribes to a resource at the server, or unsubscribes.
func (s *Source) updateSubscription(ctx context.Context, uri string, on bool) error {
	ctx, stop := context.WithTimeout(ctx, s.cfg.ConnectTimeout+subscribeTimeout)
	defer stop()
	ses, err := s.shared(ctx)
	switch {
	case errors.Is(err, errNoStream):
		return action.Errorf(action.ErrUnavailable, sources.FaultConfig, "The connector was changed or removed. Retry.")
	case err != nil:
		return err
	case ses.stateless && on:
		s.subscriptions.awaitActive(ctx, uri)
		return nil
	case ses.stateless:
		return nil
	}
	return s.syncSubscription(ctx, ses, uri)
}

// syncSubscription sends resources/subscribe or resources/unsubscribe unless
// the session is up to date. Requests are sent one at a time, each with a
// timeout.
func (s *Source) syncSubscription(ctx context.Context, ses *session, uri string) error {
	select {
	case s.subscriptions.sending <- struct{}{}:
		defer func() { <-s.subscriptions.sending }()
	case <-ctx.Done():
		return interrupted(ctx, action.ErrUnavailable)
	}
	on := s.subscriptions.contains(uri)
	if ses.subscribed[uri] == on {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, s.subscriptions.timeout)
	defer stop()
	if err := s.sendSubscription(ctx, uri, on); err != nil {
		return err
	}
	if ses.subscribed == nil {
		ses.subscribed = map[string]bool{}
	}
	ses.subscribed[uri] = on
	if !on {
		delete(ses.subscribed, uri)
	}
	return nil
}

func (s *Source) sendSubscription(ctx context.Context, uri string, on bool) error {
	cred, err := s.credential(ctx)
	if err != nil {
		return err
	}
	r := &request{method: "resources/subscribe", name: uri, params: append(jsonlex.Quote([]byte(`{"uri":`), uri), '}')}
	if !on {
		r.method = "resources/unsubscribe"
	}
	a, err := s.do(ctx, &cred, r)
	if err != nil {
		return asListError(err)
	}
	if a.problem != nil {
		return action.Errorf(action.ErrUnavailable, sources.FaultRefused, "The server refused the subscription. It says: %s", sources.Printable(errorText(a.problem), 200))
	}
	return nil
}

// resubscribe subscribes a new session to all resources, with retries. again:
// resources can have changed in between.
func (e *listener) resubscribe(ctx context.Context, ses *session, again bool) {
	due := e.subscriptions.uris()
	for wait := e.cfg.Backoff; ; wait = min(2*wait, maxBackoff) {
		var left []string
		var last error
		for _, uri := range due {
			err := e.syncSubscription(ctx, ses, uri)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil && code(err) != sources.FaultRefused:
				left, last = append(left, uri), err
			case err == nil && again:
				e.resourceUpdated(uri)
			}
		}
		if due = left; len(due) == 0 {
			return
		}
		e.cfg.Log.Debug("could not renew subscriptions", "source", e.cfg.ID, "left", len(due), "error", e.redactError(last))
		if e.backoff(ctx, wait, last) != nil {
			return
		}
	}
}

// Limits on subscriptions.
const (
	maxSubscriptions = 1_000
	subscribeTimeout = 5 * time.Second // of one subscription
)

// subscriptionSet are the resources with subscribers.
type subscriptionSet struct {
	sending chan struct{} // semaphore of size one: sending a subscription
	timeout time.Duration // of one subscription

	mu            sync.Mutex // the fields below
	wanted        map[string]subscription
	changed       chan struct{}   // closed at the next change of the set; nil: no waiter
	listening     int             // number of open streams
	active        map[string]bool // resources of the last stream without session
	activeChanged chan struct{}   // closed when active or listening changes
}

// subscription is one resource with its number of subscribers.
type subscription struct {
	count     int
	confirmed bool // the server knows it, or will be told
}

// add adds or removes a subscriber. tell reports whether the server must be
// notified.
func (w *subscriptionSet) add(uri string, on bool) (tell bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was, n := w.wanted[uri], 1
	switch {
	case on && was.count == 0 && len(w.wanted) >= maxSubscriptions:
		return false, action.Errorf(action.ErrTooMany, "too_many_subscriptions", "More than %d resources of this source are subscribed to; end some subscriptions first.", maxSubscriptions)
	case !on && was.count == 0:
		return false, nil
	case w.wanted == nil:
		w.wanted = map[string]subscription{}
	case !on:
		n = -1
	}
	now := subscription{was.count + n, was.confirmed}
	w.wanted[uri] = now
	if now.count == 0 {
		delete(w.wanted, uri)
	}
	if (was.count == 0 || now.count == 0) && w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
	return on && !now.confirmed || now.count == 0, nil
}

// confirm records that the server knows a subscription.
func (w *subscriptionSet) confirm(uri string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.wanted[uri]; now.count > 0 {
		w.wanted[uri] = subscription{now.count, true}
	}
}

func (w *subscriptionSet) contains(uri string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wanted[uri].count > 0
}

func (w *subscriptionSet) uris() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.wanted))
}

// snapshot returns the resources and a channel that is closed when they change.
func (w *subscriptionSet) snapshot() (uris []string, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return slices.Sorted(maps.Keys(w.wanted)), w.changed
}

// setListening counts open streams.
func (w *subscriptionSet) setListening(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if on {
		w.listening++
	} else {
		w.listening--
	}
	w.notifyLocked()
}

// setActive records the resources of a new stream.
func (w *subscriptionSet) setActive(uris []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active = map[string]bool{}
	for _, uri := range uris {
		w.active[uri] = true
	}
	w.notifyLocked()
}

func (w *subscriptionSet) notifyLocked() {
	if w.activeChanged != nil {
		close(w.activeChanged)
		w.activeChanged = nil
	}
}

// awaitActive waits until the open stream includes the resource. Without a
// stream it returns immediately.
func (w *subscriptionSet) awaitActive(ctx context.Context, uri string) {
	ctx, stop := context.WithTimeout(ctx, subscribeTimeout)
	defer stop()
	for {
		w.mu.Lock()
		if w.listening == 0 || w.active[uri] {
			w.mu.Unlock()
			return
		}
		if w.activeChanged == nil {
			w.activeChanged = make(chan struct{})
		}
		news := w.activeChanged
		w.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
	}
}
