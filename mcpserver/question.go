package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/internal/jsonlex"
	"sallyport/mcpserver/token"
	"sallyport/mcpserver/wire"
)

// A source may ask something of the caller of a call that runs. The client of
// the older era gets each question as a request on the event stream of its
// call, and POSTs the reply to any instance; see replied. That of the stateless
// era gets them as the result of its call, and repeats the call with the
// replies; see retry.go.

// askClient puts what the call's source asks to its client, round after round,
// until there is an outcome to answer with, or the question is the answer.
func (s *Server) askClient(ctx context.Context, c *caller, o *action.Outcome, err error) (*action.Outcome, error) {
	for err == nil && o.Round != nil {
		round := o.Round
		switch {
		case !c.stateless:
			for i := range round.Questions {
				c.onWriteError(c.reply.Event(questionEvent(round, &round.Questions[i])))
			}
		case s.askStateless(c, round):
			return o, nil
		default:
			s.failQuestions(c, round, "This cannot be asked: the keys of the questions are too long for a client to hand back.")
		}
		o, err = s.cfg.Gate.Wait(ctx, &c.who, round.Invocation, s.waiting(c, s.patience(c)))
		if err != nil {
			s.failQuestions(c, round, "The client that was asked is gone.")
		}
	}
	return o, err
}

// failQuestions tells a source that nobody replies, and why, so that it need not
// wait. Replies that came keep their place.
func (s *Server) failQuestions(c *caller, round *action.Round, why string) {
	replies := make(map[string]action.Reply, len(round.Questions))
	for i := range round.Questions {
		replies[round.Questions[i].Key] = action.Reply{Problem: (&wire.Error{Code: wire.CodeInternal, Message: why}).Raw()}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), peerTimeout)
	defer cancel()
	_, err := s.cfg.Gate.Reply(ctx, &c.who, round.ID, replies, true)
	if errors.Is(err, action.ErrTooLarge) { // the keys alone are: then it hears no reason
		_, err = s.cfg.Gate.Reply(ctx, &c.who, round.ID, nil, true)
	}
	if err != nil && !errors.Is(err, action.ErrNotFound) && !errors.Is(err, action.ErrGone) {
		s.cfg.Log.Warn("telling a source that its question has no answer", "invocation", round.Invocation, "error", err)
	}
}

// questionEvent is a question as a request.
func questionEvent(round *action.Round, q *action.Question) []byte {
	b := jsonlex.Quote([]byte(`{"jsonrpc":"2.0","id":`), questionID(round.ID, q.Key))
	return append(appendQuestion(append(b, ','), round.SourceName, q), '}')
}

// questionIDs begin so. The rest names round and question, so that the reply
// can be taken by any instance.
const questionPrefix = "sallyport/"

func questionID(round, key string) string { return questionPrefix + round + "/" + key }

// uuidText is the length of a UUID as rounds have it; there are other spellings.
const uuidText = 36

// parseQuestionID reads the id of a response, if it can be to a question of
// ours.
func parseQuestionID(id []byte) (round, key string, ok bool) {
	if !wire.IsString(id) {
		return "", "", false
	}
	rest, ok := strings.CutPrefix(wire.DecodeString(id), questionPrefix)
	if !ok {
		return "", "", false
	}
	round, key, ok = strings.Cut(rest, "/")
	return round, key, ok && len(round) == uuidText && uuid.Validate(round) == nil
}

// appendQuestion appends the method and params of a question. Whose it is
// stands in its _meta, and before the message that a person reads: a source
// must not pass for another one, or for the gateway. Values that are not
// concerned stay as they are.
func appendQuestion(b []byte, source string, q *action.Question) []byte {
	b = jsonlex.Quote(append(b, `"method":`...), q.Method)
	b = append(b, `,"params":{`...)
	var meta []byte
	for m := (wire.Members{Text: q.Params}); m.Next(); {
		value := m.Value
		switch key := string(m.Key); {
		case key == "_meta":
			meta = value
			continue
		case key == "message" && q.Method == "elicitation/create" && wire.IsString(value):
			value = jsonlex.Quote(nil, source+" asks: "+wire.DecodeString(value))
		}
		b = append(jsonlex.Quote(b, m.Key), ':')
		b = append(append(b, value...), ',')
	}
	return append(appendSource(append(b, `"_meta":{`...), source, meta), '}')
}

// sourceMeta names whose question it is.
const sourceMeta = "sallyport/source"

// appendSource appends the members of _meta, with the source's name in place of
// one that the source may have given itself.
func appendSource(b []byte, source string, meta []byte) []byte {
	for m := (wire.Members{Text: meta}); m.Next(); {
		if string(m.Key) != sourceMeta {
			b = append(jsonlex.Quote(b, m.Key), ':')
			b = append(append(b, m.Value...), ',')
		}
	}
	b = jsonlex.Quote(append(b, `"`+sourceMeta+`":`...), source)
	return append(b, '}')
}

// handleReply takes the response of a client of the older era to a question that
// this or another instance put to it. Any other response means nothing.
func (s *Server) handleReply(x *exchange) {
	round, key, ok := parseQuestionID(x.ID)
	switch {
	case x.stateless:
		x.sendError(wire.InvalidRequest("Nothing was asked by a request; replies go into inputResponses of the call, repeated."))
		return
	case !ok:
		x.w.WriteHeader(http.StatusAccepted)
		return
	case !s.allowReply(x):
		x.w.Header().Set("Retry-After", "60")
		wire.WriteText(x.w, http.StatusTooManyRequests, "This session replied too often within a minute; send this reply again in a minute.")
		return
	}
	// Whoever answers may well not wait for our answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), peerTimeout)
	defer cancel()
	err := s.forwardReply(ctx, x, round, key)
	switch {
	case err == nil, errors.Is(err, action.ErrNotFound), errors.Is(err, action.ErrGone):
		x.w.WriteHeader(http.StatusAccepted)
	default:
		s.cfg.Log.Error("keeping the reply to a question", "session", x.who.ID, "error", err)
		s.sendLookupFailed(x.w)
	}
}

// Writer hands one reply on. One that is too large is no answer; the source is
// told so, because nobody will send another.
func (s *Server) forwardReply(ctx context.Context, x *exchange, round, key string) error {
	r := action.Reply{Result: bytes.Clone(x.Result), Problem: bytes.Clone(x.Error)}
	if r.Problem != nil {
		r.Result = nil
	}
	_, err := s.cfg.Gate.Reply(ctx, &x.who, round, map[string]action.Reply{key: r}, false)
	if errors.Is(err, action.ErrTooLarge) || errors.Is(err, action.ErrInvalid) {
		refusal := action.Reply{Problem: (&wire.Error{Code: wire.CodeInternal, Message: "The client's reply cannot be passed on: " + action.Public(err).Message}).Raw()}
		_, err = s.cfg.Gate.Reply(ctx, &x.who, round, map[string]action.Reply{key: refusal}, false)
	}
	return err
}

// retry is a call of the stateless era that comes again with replies to what
// its source asked.
type retry struct {
	token.RequestState
	replies map[string]action.Reply
}

// askStateless puts a round of questions to a client of the stateless era, as the result
// of its call; false when that cannot be done. Whether the result gets out does
// not matter: a client that lost it repeats its call and is asked again (see
// action.Waiting.Again), and for one that does not the source waits no longer
// than it would for a person.
func (s *Server) askStateless(c *caller, round *action.Round) bool {
	m, ok := s.inputRequired(c, round)
	if ok {
		_ = c.sendTo(c.reply, m)
	}
	return ok
}

// inputRequired is the result that asks a client of the stateless era; false when
// its state would be larger than one that is taken back.
func (s *Server) inputRequired(c *caller, round *action.Round) (m wire.Response, ok bool) {
	a := &token.RequestState{
		Principal: principalBytes(c), Call: token.CallDigest(c.Method, c.name, c.arguments),
		Invocation: round.Invocation, Round: round.ID, Until: round.Until.Add(token.RequestStateGrace).Unix(),
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
	state, ok := s.requestStates.Seal(a)
	b = jsonlex.Quote(append(b, `},"requestState":`...), state)
	return wire.Response{Result: append(b, '}')}, ok
}

func principalBytes(c *caller) []byte {
	p := token.PrincipalOf(&c.who)
	return p[:]
}

// readRetry reads what a call carries that comes again; nil when it does not.
// A state is good for the call that it was given to and for nobody else's.
func (s *Server) readRetry(c *caller, p *params) (*retry, *wire.Error) {
	if !c.stateless || p.state == nil || wire.IsNull(p.state) {
		return nil, nil
	}
	ok := wire.IsString(p.state)
	r := &retry{replies: map[string]action.Reply{}}
	if ok {
		r.RequestState, ok = s.requestStates.Open(wire.DecodeString(p.state), s.cfg.Now())
	}
	if !ok || !bytes.Equal(r.Principal, principalBytes(c)) || !bytes.Equal(r.Call, token.CallDigest(c.Method, c.name, c.arguments)) {
		return nil, wire.InvalidParams("requestState is not of this call, or is too old. Hand it back as it came, with the same name and arguments; or leave it and inputResponses out to begin anew.")
	}
	if p.responses != nil && !wire.IsNull(p.responses) && !wire.IsObject(p.responses) {
		return nil, wire.InvalidParams("inputResponses must be an object.")
	}
	for m := (wire.Members{Text: p.responses}); m.Next(); {
		key := string(m.Key)
		if _, twice := r.replies[key]; !twice && slices.Contains(r.Keys, key) {
			r.replies[key] = action.Reply{Result: bytes.Clone(m.Value)}
		}
	}
	return r, nil
}

// resumeCall hands the replies of a retry on, and waits for its call as it did
// before. Replies that come twice, or too late, change nothing.
func (s *Server) resumeCall(ctx context.Context, c *caller) (*action.Outcome, error) {
	if c.retry.Round != "" { // otherwise a page was to be opened, and the reply says nothing
		_, err := s.cfg.Gate.Reply(ctx, &c.who, c.retry.Round, c.retry.replies, true)
		if err != nil && !errors.Is(err, action.ErrNotFound) && !errors.Is(err, action.ErrGone) {
			return &action.Outcome{}, err
		}
	}
	return s.cfg.Gate.Wait(ctx, &c.who, c.retry.Invocation, s.waiting(c, s.patience(c)))
}
