package connector

import (
	"context"
	"encoding/json"
	"time"

	"sallyport/action"
	"sallyport/internal/jsonlex"
	"sallyport/sources"
)

// Bounds of the rounds of one request.
const (
	maxRounds = 10 // in which the server asks something before it answers
	maxIdle   = 3  // of them without a question: the server wants a moment
)

// rounds sends a request, answers what a server without sessions asks first,
// and sends it again with the answers, until it is complete. A result that
// asks tells that nothing was completed.
func (s *Source) rounds(ctx context.Context, cred *credential, r *request) (answer, error) {
	idle := 0
	for round := 0; ; round++ {
		a, err := s.do(ctx, cred, r)
		if err != nil || a.problem != nil || !a.stateless || !asks(a.result) {
			return a, err
		}
		if round == maxRounds {
			return a, unasked("too_many_questions", "it asked more than %d times.", maxRounds)
		}
		questions, err := s.questions(a.result)
		if err != nil {
			return a, err
		}
		var replies map[string]action.Reply
		if len(questions) > 0 {
			replies, err = s.ask(ctx, r, questions)
		} else if idle++; idle > maxIdle {
			err = unasked("no_question", "it asked for input without saying which.")
		} else {
			err = pause(ctx, s.cfg.Backoff)
		}
		if err != nil {
			return a, err
		}
		r.round = replied(a.raw, questions, replies)
	}
}

// asks reports whether a result is no result yet.
func asks(result json.RawMessage) bool {
	members, ok := sources.Members(result)
	kind, _ := unquoted(sources.Lookup(result, members, "resultType"))
	return ok && kind == "input_required"
}

// questions reads what a result asks, in its order.
func (s *Source) questions(result json.RawMessage) ([]action.Question, error) {
	members, _ := sources.Members(result)
	requests := sources.Lookup(result, members, "inputRequests")
	if requests == nil || string(requests) == "null" {
		return nil, nil
	}
	list, ok := sources.Members(requests)
	if !ok || len(list) > maxAsking {
		return nil, unasked("too_many_questions", "its questions are no object, or more than %d.", maxAsking)
	}
	questions := make([]action.Question, 0, len(list))
	for _, m := range list {
		request := requests[m.Value:m.End]
		members, _ := sources.Members(request)
		q := action.Question{Key: m.Name, Params: sources.Lookup(request, members, "params")}
		q.Method, _ = unquoted(sources.Lookup(request, members, "method"))
		if refusal := s.refuses(&q); refusal != "" {
			return nil, unasked("not_asked", "%s", refusal)
		}
		questions = append(questions, q)
	}
	return questions, nil
}

// ask puts a round of questions to the caller.
func (s *Source) ask(ctx context.Context, r *request, questions []action.Question) (map[string]action.Reply, error) {
	if r.caller == nil {
		return nil, unasked("not_asked", "nobody waits for this request.")
	}
	replies, err := r.caller.Ask(ctx, questions)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, interrupted(ctx, action.ErrUnavailable)
	case err != nil:
		told := action.Public(err)
		e := unasked(told.Code, "%s", told.Message)
		e.Err = err
		return nil, e
	}
	return replies, nil
}

// replied returns the members with which the request is sent again. The state
// goes back to the server exactly as it came. What the client answered with an
// error is left open, as the protocol has it.
func replied(result json.RawMessage, questions []action.Question, replies map[string]action.Reply) []byte {
	b := []byte(`"inputResponses":{`)
	start := len(b)
	for _, q := range questions {
		reply := replies[q.Key]
		if len(reply.Problem) > 0 || len(reply.Result) == 0 {
			continue
		}
		if len(b) > start {
			b = append(b, ',')
		}
		b = append(jsonlex.Quote(b, q.Key), ':')
		b = append(b, reply.Result...)
	}
	b = append(b, '}')
	if len(questions) == 0 {
		b = b[:0]
	}
	members, _ := sources.Members(result)
	if state := sources.Lookup(result, members, "requestState"); state != nil {
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = append(append(b, `"requestState":`...), state...)
	}
	return b
}

// unasked is a request that ended because its question was not answered.
func unasked(code, format string, args ...any) *action.Error {
	return action.Errorf(action.ErrUnavailable, code, "The server asked something before it would go on, which could not be answered, so nothing was completed: "+format, args...)
}

// pause waits a moment.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return interrupted(ctx, action.ErrUnavailable)
	}
}
