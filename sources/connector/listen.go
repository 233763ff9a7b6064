package connector

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"sallyport/sources"
)

// errDeaf is a server to which there is nothing to listen.
var errDeaf = errors.New("the server tells nothing by itself")

// Listen implements [sources.Listener] by a stream on the shared session, or by
// subscriptions/listen where there are no sessions.
func (s *Source) Listen(ctx context.Context, heard func(sources.Notice)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(s.life, stop)()
	ear := &ear{Source: s, heard: heard}
	s.wishes.listen(true)
	defer s.wishes.listen(false)
	wait := time.Duration(0)
	for {
		began := time.Now()
		err := ear.listen(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, errDeaf):
			return nil
		case errors.Is(err, errRetuned):
			ear.again = false // nothing broke
			continue
		}
		s.cfg.Log.Debug("listening to a server", "source", s.cfg.ID, "error", s.scrub(err))
		if time.Since(began) > maxBackoff {
			wait = 0
		}
		wait = min(max(2*wait, s.cfg.Backoff), maxBackoff)
		if pause(ctx, wait/2+rand.N(wait)) != nil {
			return nil
		}
	}
}

// ear is one who listens, stream after stream.
type ear struct {
	*Source
	heard   func(sources.Notice)
	again   bool // a stream broke: something may have been missed
	missing int  // streams in a row that a new session did not have
}

// listen opens one stream and hears it to its end.
func (e *ear) listen(ctx context.Context) error {
	ses, err := e.shared(ctx)
	if err != nil {
		return err
	}
	if ses.lists == (changing{}) && !ses.offers.Subscribe {
		return errDeaf
	}
	if ses.stateless {
		return e.subscribed(ctx, ses)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(ses.life, stop)()
	return e.attended(ctx, ses)
}

// shared returns the shared session. It is not held: when no call uses it any
// more it may end, and the stream with it.
func (s *Source) shared(ctx context.Context) (*session, error) {
	done, err := s.begin()
	if err != nil {
		return nil, errDeaf
	}
	defer done()
	trial, err := s.circuit.enter()
	if err != nil {
		return nil, err
	}
	ses, err := s.acquire(ctx, place{})
	if err != nil {
		s.circuit.leave(trial, err)
		return nil, err
	}
	s.circuit.pass(trial)
	s.release(ses)
	return ses, nil
}

// attended hears the stream of the shared session.
func (e *ear) attended(ctx context.Context, ses *session) error {
	resp, err := e.tune(ctx, ses)
	if errors.Is(err, errSessionGone) {
		if e.missing++; e.missing > 1 {
			return errDeaf // it has no stream, and no other word for that
		}
		e.drop(ses)
		return err
	}
	if err != nil {
		return err
	}
	e.missing = 0
	if err := e.resubscribe(ctx, ses); err != nil {
		resp.Body.Close() //nolint:errcheck,gosec // it is begun anew
		return err
	}
	e.missed(ses)
	return e.follow(resp, func(m *message, method string) {
		switch {
		case m.method == nil: // a response, which nobody waits for here
		case m.id != nil:
			e.refuse(ctx, ses, m, method)
		default:
			e.notice(m, method)
		}
	})
}

// missed tells that everything may have changed while nobody listened.
func (e *ear) missed(ses *session) {
	if !e.again {
		e.again = true
		return
	}
	for _, list := range []struct {
		kind  sources.NoticeKind
		tells bool
	}{
		{sources.NoticeTools, ses.lists.tools},
		{sources.NoticeResources, ses.lists.resources},
		{sources.NoticePrompts, ses.lists.prompts},
	} {
		if list.tells {
			e.heard(sources.Notice{Kind: list.kind})
		}
	}
	for _, uri := range e.wishes.uris() {
		e.heard(sources.Notice{Kind: sources.NoticeUpdated, URI: uri})
	}
}

// notice hands on a notification.
func (e *ear) notice(m *message, method string) {
	n := sources.Notice{Kind: sources.NoticeKind(method)}
	switch n.Kind {
	case sources.NoticeTools, sources.NoticeResources, sources.NoticePrompts:
	case sources.NoticeUpdated:
		members, _ := sources.Members(m.params)
		n.URI, _ = unquoted(sources.Lookup(m.params, members, "uri"))
		n.URI = e.cleaner.Load().text(n.URI)
		if n.URI == "" {
			return
		}
	default:
		return
	}
	e.heard(n)
}
