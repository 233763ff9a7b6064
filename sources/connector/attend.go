package connector

import (
	"context"
	"errors"
	"time"
)

// attend hears the stream of an agent's own session while it lives: questions
// and log messages come on it which the server does not tie to a call.
//
// tuned is called when the server took part for the first time, or did not.
func (s *Source) attend(ses *session, tuned func()) {
	defer tuned()
	wait := time.Duration(0)
	for ses.life.Err() == nil {
		resp, err := s.tune(ses.life, ses)
		tuned()
		if err == nil {
			wait = 0
			err = s.follow(resp, func(m *message, method string) { s.attendTo(ses, m, method) })
		}
		if errors.Is(err, errDeaf) || errors.Is(err, errSessionGone) {
			return // a call will learn of it
		}
		wait = min(max(2*wait, s.cfg.Backoff), maxBackoff)
		if s.breathe(ses.life, wait, err) != nil {
			return
		}
	}
}

func (s *Source) attendTo(ses *session, m *message, method string) {
	calls := s.inFlight(ses)
	if m.method == nil || m.id == nil && s.notice(m, method) {
		return // a response, which nobody waits for here, or for whoever listens
	}
	if len(calls) == 0 {
		if m.id != nil {
			s.refuse(ses.life, ses, m, method)
		}
		return
	}
	latest := calls[len(calls)-1]
	if method != "notifications/progress" {
		latest.hear(m)
		return
	}
	for _, x := range calls { // each knows its own token
		x.hear(m)
	}
}

// refuse answers a request of the server for which there is no caller.
func (s *Source) refuse(ctx context.Context, ses *session, m *message, method string) {
	x := &exchange{Source: s, ses: ses, cred: &credential{}, request: &request{}, client: s.client(nil, nil)}
	x.reply(ctx, m, method)
}
