package connector

import (
	"context"
	"errors"

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
	tell, err := s.wishes.add(uri, on)
	if err != nil || !tell {
		return err
	}
	err = s.wish(ctx, uri, on)
	switch {
	case !on: // what it says of the resource all the same is heard by nobody
		return nil
	case err != nil:
		_, _ = s.wishes.add(uri, false)
		return err
	}
	s.wishes.take(uri)
	return nil
}

// wish has the server know of one resource that is wanted, or no more.
func (s *Source) wish(ctx context.Context, uri string, on bool) error {
	ctx, stop := context.WithTimeout(ctx, s.cfg.ConnectTimeout+wishTime)
	defer stop()
	ses, err := s.shared(ctx)
	switch {
	case errors.Is(err, errDeaf):
		return action.Errorf(action.ErrUnavailable, sources.FaultConfig, "The connector was changed or removed; try again.")
	case err != nil:
		return err
	case ses.stateless && on:
		s.wishes.settle(ctx, uri)
		return nil
	case ses.stateless:
		return nil
	}
	return s.tellWish(ctx, ses, uri)
}

// tellWish sends resources/subscribe or its opposite, unless the session was
// told so before. One is sent at a time, in which each has a moment.
func (s *Source) tellWish(ctx context.Context, ses *session, uri string) error {
	select {
	case s.wishes.turn <- struct{}{}:
		defer func() { <-s.wishes.turn }()
	case <-ctx.Done():
		return interrupted(ctx, action.ErrUnavailable)
	}
	on := s.wishes.wants(uri)
	if ses.told[uri] == on {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, s.wishes.time)
	defer stop()
	if err := s.sendWish(ctx, uri, on); err != nil {
		return err
	}
	if ses.told == nil {
		ses.told = map[string]bool{}
	}
	ses.told[uri] = on
	if !on {
		delete(ses.told, uri)
	}
	return nil
}

func (s *Source) sendWish(ctx context.Context, uri string, on bool) error {
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
		return asListing(err)
	}
	if a.problem != nil {
		return action.Errorf(action.ErrUnavailable, sources.FaultRefused, "The server did not take the subscription. It says: %s", sources.Printable(problemText(a.problem), 200))
	}
	return nil
}

// resubscribe tells a session of all that is wanted, as often as it takes. With
// again it may have changed before the server knew.
func (e *ear) resubscribe(ctx context.Context, ses *session, again bool) {
	due := e.wishes.uris()
	for wait := e.cfg.Backoff; ; wait = min(2*wait, maxBackoff) {
		var left []string
		var last error
		for _, uri := range due {
			err := e.tellWish(ctx, ses, uri)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil && code(err) != sources.FaultRefused:
				left, last = append(left, uri), err
			case err == nil && again:
				e.updated(uri)
			}
		}
		if due = left; len(due) == 0 {
			return
		}
		e.cfg.Log.Debug("subscribing again", "source", e.cfg.ID, "left", len(due), "error", e.scrub(last))
		if e.breathe(ctx, wait, last) != nil {
			return
		}
	}
}
