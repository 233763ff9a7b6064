package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"sallyport/action"
	"sallyport/internal/jsonlex"
)

// retry is a call of the stateless era that comes again with replies to what
// its source asked.
type retry struct {
	asked
	replies map[string]action.Reply
}

// ask puts a round of questions to a client of the stateless era, as the result
// of its call; false when that cannot be done. Whether the result gets out does
// not matter: a client that lost it repeats its call and is asked again (see
// action.Waiting.Again), and for one that does not the source waits no longer
// than it would for a person.
func (s *Server) ask(c *caller, round *action.Round) bool {
	m, ok := s.needsInput(c, round)
	if ok {
		_ = c.answer(c.reply, m)
	}
	return ok
}

// needsInput is the result that asks a client of the stateless era; false when
// its state would be larger than one that is taken back.
func (s *Server) needsInput(c *caller, round *action.Round) (m message, ok bool) {
	a := &asked{
		Principal: principalBytes(c), Call: callDigest(c.method, c.name, c.arguments),
		Invocation: round.Invocation, Round: round.ID, Until: round.Until.Add(stateLife).Unix(),
	}
	b := []byte(`{"resultType":"input_required","inputRequests":{`)
	for i := range round.Questions {
		q := &round.Questions[i]
		a.Keys = append(a.Keys, q.Key)
		if i > 0 {
			b = append(b, ',')
		}
		b = append(jsonlex.Quote(b, q.Key), `:{`...)
		b = append(appendQuestion(b, round.SourceName, q), '}')
	}
	state, ok := s.states.seal(a)
	b = jsonlex.Quote(append(b, `},"requestState":`...), state)
	return message{result: append(b, '}')}, ok
}

func principalBytes(c *caller) []byte {
	p := principalOf(&c.who)
	return p[:]
}

// readRetry reads what a call carries that comes again; nil when it does not.
// A state is good for the call that it was given to and for nobody else's.
func (s *Server) readRetry(c *caller, p *params) (*retry, *problem) {
	if !c.modern || p.state == nil || isNull(p.state) {
		return nil, nil
	}
	ok := isString(p.state)
	r := &retry{replies: map[string]action.Reply{}}
	if ok {
		r.asked, ok = s.states.open(decodeString(p.state), s.cfg.Now())
	}
	if !ok || !bytes.Equal(r.Principal, principalBytes(c)) || !bytes.Equal(r.Call, callDigest(c.method, c.name, c.arguments)) {
		return nil, invalidParams("requestState is not of this call, or is too old. Hand it back as it came, with the same name and arguments; or leave it and inputResponses out to begin anew.")
	}
	if p.responses != nil && !isNull(p.responses) && !isObject(p.responses) {
		return nil, invalidParams("inputResponses must be an object.")
	}
	for m := (members{text: p.responses}); m.next(); {
		key := string(m.key)
		if _, twice := r.replies[key]; !twice && slices.Contains(r.Keys, key) {
			r.replies[key] = action.Reply{Result: bytes.Clone(m.value)}
		}
	}
	return r, nil
}

// goOn hands the replies of a retry on, and waits for its call as it did
// before. Replies that come twice, or too late, change nothing.
func (s *Server) goOn(ctx context.Context, c *caller) (*action.Outcome, error) {
	if c.retry.Round != "" { // otherwise a page was to be opened, and the reply says nothing
		_, err := s.cfg.Gate.Reply(ctx, &c.who, c.retry.Round, c.retry.replies, true)
		if err != nil && !errors.Is(err, action.ErrNotFound) && !errors.Is(err, action.ErrGone) {
			return &action.Outcome{}, err
		}
	}
	return s.cfg.Gate.Wait(ctx, &c.who, c.retry.Invocation, s.waiting(c, s.patience(c)))
}
