package connector

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

// errNoStream reports a server without a notification stream.
var errNoStream = errors.New("the server has no notification stream")

// Listen implements [sources.Source] with a stream on the shared session, or
// with subscriptions/listen if there are no sessions. Notifications on other
// streams are passed on, too.
func (s *Source) Listen(ctx context.Context, heard func(sources.Notice)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(s.ctx, stop)()
	defer s.notices.listen(heard)()
	ear := &listener{Source: s}
	s.subscriptions.setListening(true)
	defer s.subscriptions.setListening(false)
	wait := time.Duration(0)
	for {
		began := time.Now()
		err := ear.listen(ctx)
		if ctx.Err() != nil || errors.Is(err, errNoStream) {
			return nil
		}
		s.cfg.Log.Debug("could not listen to a server", "source", s.cfg.ID, "error", s.redactError(err))
		if time.Since(began) > maxBackoff {
			wait = 0
		}
		wait = min(max(2*wait, s.cfg.Backoff), maxBackoff)
		if s.backoff(ctx, wait, err) != nil {
			return nil
		}
	}
}

// waitFor waits until done is closed or ctx ends, for at most d.
func waitFor(ctx context.Context, done <-chan struct{}, d time.Duration) {
	ctx, stop := context.WithTimeout(ctx, d)
	defer stop()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// backoff waits before a stream is reopened, at least as long as the server
// asks for.
func (s *Source) backoff(ctx context.Context, wait time.Duration, err error) error {
	return pause(ctx, max(wait/2+rand.N(wait), action.Public(err).RetryAfter))
}

// listener reads one notification stream after another.
type listener struct {
	*Source
	restarted      bool // a stream ended: notifications can have been missed
	missingStreams int  // consecutive new sessions without a stream
}

// listen opens one stream and reads it to its end.
func (e *listener) listen(ctx context.Context) error {
	ses, err := e.shared(ctx)
	if err != nil {
		return err
	}
	if ses.listChanges == (listChanges{}) && !ses.capabilities.Subscribe {
		return errNoStream
	}
	if ses.stateless {
		return e.listenBySubscription(ctx, ses)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(ses.ctx, stop)()
	return e.listenOnSession(ctx, ses)
}

// shared returns the shared session without holding it: if no call uses it, it
// can end, and the stream with it.
func (s *Source) shared(ctx context.Context) (*session, error) {
	done, err := s.begin()
	if err != nil {
		return nil, errNoStream
	}
	defer done()
	trial, err := s.circuit.allow()
	if err != nil {
		return nil, err
	}
	ses, err := s.acquire(ctx, sessionKey{})
	if err != nil {
		s.circuit.record(trial, err)
		return nil, err
	}
	s.circuit.cancel(trial)
	s.release(ses)
	return ses, nil
}

// listenOnSession reads the stream of the shared session, and subscribes a new
// session to all resources meanwhile.
func (e *listener) listenOnSession(ctx context.Context, ses *session) error {
	resp, err := e.openSessionStream(ctx, ses) //nolint:bodyclose // follow closes it
	if errors.Is(err, errSessionGone) {
		if e.missingStreams++; e.missingStreams > 1 {
			return errNoStream // it has no stream, and no other word for that
		}
		e.drop(ses)
		return err
	}
	if err != nil {
		return err
	}
	e.missingStreams = 0
	again := e.announceMissed(ses)
	ctx, stop := context.WithCancel(ctx)
	var telling sync.WaitGroup
	defer telling.Wait()
	defer stop()
	telling.Go(func() { e.resubscribe(ctx, ses, again) })
	return e.readStream(resp, func(m *message, method string) {
		switch {
		case m.method == nil: // a response, which nobody waits for here
		case m.id != nil:
			e.refuseRequest(ctx, ses, m, method)
		default:
			e.handleNotice(m, method)
		}
	})
}

// announceMissed announces that the lists may have changed while no stream was
// open. It reports false for the first stream, before which nothing can have
// been missed.
func (e *listener) announceMissed(ses *session) (again bool) {
	again, e.restarted = e.restarted, true
	if !again {
		return false
	}
	for _, list := range []struct {
		kind  sources.NoticeKind
		tells bool
	}{
		{sources.NoticeTools, ses.listChanges.tools},
		{sources.NoticeResources, ses.listChanges.resources},
		{sources.NoticePrompts, ses.listChanges.prompts},
	} {
		if list.tells {
			e.notices.publish(sources.Notice{Kind: list.kind})
		}
	}
	return true
}

// listenToSession reads the stream of an agent's own session while the session
// exists: the server sends questions and log messages on it that it does not
// link to a call.
//
// tuned is called when the first attempt to open the stream succeeded or
// failed.
func (s *Source) listenToSession(ses *session, tuned func()) {
	defer tuned()
	wait := time.Duration(0)
	for ses.ctx.Err() == nil {
		resp, err := s.openSessionStream(ses.ctx, ses)
		tuned()
		if err == nil {
			wait = 0
			err = s.readStream(resp, func(m *message, method string) { s.dispatchMessage(ses, m, method) })
		}
		if errors.Is(err, errNoStream) || errors.Is(err, errSessionGone) {
			return // a call will learn of it
		}
		wait = min(max(2*wait, s.cfg.Backoff), maxBackoff)
		if s.backoff(ses.ctx, wait, err) != nil {
			return
		}
	}
}

func (s *Source) dispatchMessage(ses *session, m *message, method string) {
	calls := s.callsOn(ses)
	if m.method == nil || m.id == nil && s.handleNotice(m, method) {
		return // a response, which nobody waits for here, or for whoever listens
	}
	if len(calls) == 0 {
		if m.id != nil {
			s.refuseRequest(ses.ctx, ses, m, method)
		}
		return
	}
	latest := calls[len(calls)-1]
	if method != "notifications/progress" {
		latest.handleMessage(m)
		return
	}
	for _, x := range calls { // each knows its own token
		x.handleMessage(m)
	}
}

// refuseRequest answers a request of the server for which there is no caller.
func (s *Source) refuseRequest(ctx context.Context, ses *session, m *message, method string) {
	x := &exchange{Source: s, ses: ses, cred: &credential{}, request: &request{}, client: s.client(ses.sse, nil, nil)}
	x.handleRequest(ctx, m, method)
}

// maxQueuedNotices bounds the notices that are kept for the next listener.
const maxQueuedNotices = maxSubscriptions + 3

// noticeQueue distributes the server's notifications about itself, from any
// stream. Without listeners it keeps one of each.
type noticeQueue struct {
	mu        sync.Mutex // the fields below; held while they are told, one at a time
	listeners []*func(sources.Notice)
	queued    []sources.Notice
}

// listen calls heard for each notice, starting with the queued ones.
func (n *noticeQueue) listen(heard func(sources.Notice)) (stop func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, told := range n.queued {
		heard(told)
	}
	n.listeners, n.queued = append(n.listeners, &heard), nil
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.listeners = slices.DeleteFunc(n.listeners, func(h *func(sources.Notice)) bool { return h == &heard })
	}
}

func (n *noticeQueue) publish(told sources.Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, heard := range n.listeners {
		(*heard)(told)
	}
	if len(n.listeners) == 0 && len(n.queued) < maxQueuedNotices && !slices.Contains(n.queued, told) {
		n.queued = append(n.queued, told)
	}
}

// handleNotice publishes a notification of the server about itself, and reports
// whether the message is one. Updates of resources without a subscription are
// dropped.
func (s *Source) handleNotice(m *message, method string) bool {
	n := sources.Notice{Kind: sources.NoticeKind(method)}
	switch n.Kind {
	case sources.NoticeTools, sources.NoticeResources, sources.NoticePrompts:
		s.notices.publish(n)
	case sources.NoticeUpdated:
		uri, _ := unquote(member(m.params, "uri"))
		s.resourceUpdated(s.cleaner.Load().text(uri))
	default:
		return false
	}
	return true
}

// resourceUpdated tells that a resource may have changed.
func (s *Source) resourceUpdated(uri string) {
	if s.subscriptions.contains(uri) {
		s.notices.publish(sources.Notice{Kind: sources.NoticeUpdated, URI: uri})
	}
}
