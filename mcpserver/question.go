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

// A source may ask the client of a running call for input. With a session, the client
// gets each question as a request on the event stream of its call and POSTs the reply
// to any instance; see handleReply. A stateless client gets the questions as the
// result of its call and repeats the call with the replies; see readRetry.

// askClient sends the source's questions to the client, round after round, until
// there is an outcome. For stateless clients the questions are the response.
func (s *Server) askClient(ctx context.Context, c *caller, o *action.Outcome, err error) (*action.Outcome, error) {
	for err == nil && o.Round != nil {
		round := o.Round
		switch {
		case !c.stateless:
			for i := range round.Questions {
				q := &round.Questions[i]
				b := jsonlex.Quote([]byte(`{"jsonrpc":"2.0","id":`), questionID(round.ID, q.Key))
				c.onWriteError(c.reply.Event(append(appendQuestion(append(b, ','), round.SourceName, q), '}')))
			}
		case s.askStateless(c, round):
			return o, nil
		default:
			s.failQuestions(c, round, "The question could not be asked: its keys are too long for the client to return.")
		}
		o, err = s.cfg.Gate.Wait(ctx, &c.who, round.Invocation, s.waiting(c, s.patience(c)))
		if err != nil {
			s.failQuestions(c, round, "The client disconnected.")
		}
	}
	return o, err
}

// failQuestions tells the source that no reply will come, and why, so that it does
// not wait. Replies that were received are kept.
func (s *Server) failQuestions(c *caller, round *action.Round, why string) {
	replies := make(map[string]action.Reply, len(round.Questions))
	for i := range round.Questions {
		replies[round.Questions[i].Key] = action.Reply{Problem: (&wire.Error{Code: wire.CodeInternal, Message: why}).Raw()}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), peerTimeout)
	defer cancel()
	_, err := s.cfg.Gate.Reply(ctx, &c.who, round.ID, replies, true)
	if errors.Is(err, action.ErrTooLarge) { // because of the keys alone: send no reason
		_, err = s.cfg.Gate.Reply(ctx, &c.who, round.ID, nil, true)
	}
	if err != nil && !errors.Is(err, action.ErrNotFound) && !errors.Is(err, action.ErrGone) {
		s.cfg.Log.Warn("a source could not be notified that its question has no answer", "invocation", round.Invocation, "error", err)
	}
}

// questionPrefix starts the ids of questions. The rest names round and question, so
// that any instance can accept the reply.
const questionPrefix = "sallyport/"

func questionID(round, key string) string { return questionPrefix + round + "/" + key }

// uuidText is the length of a round's UUID in its canonical form.
const uuidText = 36

// parseQuestionID parses the id of a response to a question.
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

// appendQuestion appends the method and params of a question. Its source is named in
// _meta and in the message that a person reads, so that a source cannot pretend to
// be another one or the gateway. Other values stay as they are.
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
	const sourceMeta = "sallyport/source"
	b = append(b, `"_meta":{`...)
	for m := (wire.Members{Text: meta}); m.Next(); {
		if string(m.Key) != sourceMeta { // which only the gateway sets
			b = append(jsonlex.Quote(b, m.Key), ':')
			b = append(append(b, m.Value...), ',')
		}
	}
	b = jsonlex.Quote(append(b, `"`+sourceMeta+`":`...), source)
	return append(b, '}', '}')
}

// appendQuestions appends the questions of a round as an object, under their keys with
// a prefix.
func appendQuestions(b []byte, round *action.Round, prefix string) []byte {
	b = append(b, '{')
	for i := range round.Questions {
		q := &round.Questions[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(jsonlex.Quote(b, prefix+q.Key), `:{`...)
		b = append(appendQuestion(b, round.SourceName, q), '}')
	}
	return append(b, '}')
}

// handleReply handles a response to a question of this or another instance. Other
// responses are ignored.
func (s *Server) handleReply(x *exchange) {
	round, key, ok := parseQuestionID(x.ID)
	switch {
	case x.stateless:
		x.sendError(wire.InvalidRequest("A stateless client replies in inputResponses of the repeated call."))
		return
	case !ok:
		x.w.WriteHeader(http.StatusAccepted)
		return
	case !s.allow(x, kindReply):
		x.w.Header().Set("Retry-After", "60")
		wire.WriteText(x.w, http.StatusTooManyRequests, "This session replied too often within a minute; send this reply again in a minute.")
		return
	}
	// The client may disconnect before the response.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), peerTimeout)
	defer cancel()
	err := s.forwardReply(ctx, x, round, key)
	switch {
	case err == nil, errors.Is(err, action.ErrNotFound), errors.Is(err, action.ErrGone):
		x.w.WriteHeader(http.StatusAccepted)
	default:
		s.cfg.Log.Error("a reply to a question could not be stored", "session", x.who.ID, "error", err)
		s.sendLookupFailed(x.w)
	}
}

// forwardReply passes a reply to the Gate. A reply that is too large becomes an
// error for the source, because the client will not send another one.
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

// retry is a repeated call of a stateless client with replies to the source's
// questions.
type retry struct {
	token.RequestState
	replies map[string]action.Reply
}

// askStateless sends a round of questions as the result of the call; false if its
// request state would be too large. A lost result is no problem: the client repeats its
// call and is asked again (see action.Waiting.Again).
func (s *Server) askStateless(c *caller, round *action.Round) bool {
	a := &token.RequestState{
		Principal: principalBytes(c), Call: token.CallDigest(c.Method, c.name, c.arguments),
		Invocation: round.Invocation, Round: round.ID, Until: round.Until.Add(token.RequestStateGrace).Unix(),
	}
	for i := range round.Questions {
		a.Keys = append(a.Keys, round.Questions[i].Key)
	}
	state, ok := s.requestStates.Seal(a)
	if !ok {
		return false
	}
	b := appendQuestions([]byte(`{"resultType":"input_required","inputRequests":`), round, "")
	b = jsonlex.Quote(append(b, `,"requestState":`...), state)
	_ = c.sendTo(c.reply, wire.Response{Result: append(b, '}')})
	return true
}

func principalBytes(c *caller) []byte {
	p := token.PrincipalOf(&c.who)
	return p[:]
}

// readRetry reads the request state and the replies of a repeated call; nil without
// a state. A state is valid only for the call and the principal that it was issued
// to.
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
		return nil, wire.InvalidParams("requestState does not belong to this call or has expired. Return it unchanged with the same name and arguments, or omit it and inputResponses to start over.")
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

// resumeCall passes on the replies and waits for the call again. Duplicate and late
// replies change nothing.
func (s *Server) resumeCall(ctx context.Context, c *caller) (*action.Outcome, error) {
	if c.retry.Round != "" { // empty: the client was asked to open a page
		_, err := s.cfg.Gate.Reply(ctx, &c.who, c.retry.Round, c.retry.replies, true)
		if err != nil && !errors.Is(err, action.ErrNotFound) && !errors.Is(err, action.ErrGone) {
			return &action.Outcome{}, err
		}
	}
	return s.cfg.Gate.Wait(ctx, &c.who, c.retry.Invocation, s.waiting(c, s.patience(c)))
}
