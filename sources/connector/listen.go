package connector

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

// errDeaf is a server to which there is nothing to listen.
var errDeaf = errors.New("the server tells nothing by itself")

// Listen implements [sources.Source] by a stream on the shared session, or by
// subscriptions/listen where there are no sessions. What the server says of
// itself on other streams is heard too.
func (s *Source) Listen(ctx context.Context, heard func(sources.Notice)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(s.life, stop)()
	defer s.notices.listen(heard)()
	ear := &ear{Source: s}
	s.wishes.listen(true)
	defer s.wishes.listen(false)
	wait := time.Duration(0)
	for {
		began := time.Now()
		err := ear.listen(ctx)
		if ctx.Err() != nil || errors.Is(err, errDeaf) {
			return nil
		}
		s.cfg.Log.Debug("listening to a server", "source", s.cfg.ID, "error", s.scrub(err))
		if time.Since(began) > maxBackoff {
			wait = 0
		}
		wait = min(max(2*wait, s.cfg.Backoff), maxBackoff)
		if s.breathe(ctx, wait, err) != nil {
			return nil
		}
	}
}

// breathe waits before a stream is begun anew, for as long as the server wants.
func (s *Source) breathe(ctx context.Context, wait time.Duration, err error) error {
	return pause(ctx, max(wait/2+rand.N(wait), action.Public(err).RetryAfter))
}

// ear is one who listens, stream after stream.
type ear struct {
	*Source
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

// attended hears the stream of the shared session, and meanwhile tells a new
// session of all that is wanted.
func (e *ear) attended(ctx context.Context, ses *session) error {
	resp, err := e.tune(ctx, ses) //nolint:bodyclose // follow closes it
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
	again := e.missed(ses)
	ctx, stop := context.WithCancel(ctx)
	var telling sync.WaitGroup
	defer telling.Wait()
	defer stop()
	telling.Go(func() { e.resubscribe(ctx, ses, again) })
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

// missed tells that the lists may have changed while nobody listened. again
// reports whether somebody did before that.
func (e *ear) missed(ses *session) (again bool) {
	again, e.again = e.again, true
	if !again {
		return false
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
			e.notices.tell(sources.Notice{Kind: list.kind})
		}
	}
	return true
}
