package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/internal/jsonlex"
)

// A source may ask something of the caller of a call that runs. The client of
// the older era gets each question as a request on the event stream of its
// call, and POSTs the reply to any instance; see replied. That of the stateless
// era gets them as the result of its call, and repeats the call with the
// replies; see retry.go.

// settle puts what the call's source asks to its client, round after round,
// until there is an outcome to answer with, or the question is the answer.
func (s *Server) settle(ctx context.Context, c *caller, o *action.Outcome, err error) (*action.Outcome, error) {
	for err == nil && o.Round != nil {
		round := o.Round
		switch {
		case !c.modern:
			for i := range round.Questions {
				c.heard(c.reply.event(questionEvent(round, &round.Questions[i])))
			}
		case s.ask(c, round):
			return o, nil
		default:
			s.unanswered(c, round, "This cannot be asked: the keys of the questions are too long for a client to hand back.")
		}
		o, err = s.cfg.Gate.Wait(ctx, &c.who, round.Invocation, s.waiting(c, s.patience(c)))
		if err != nil {
			s.unanswered(c, round, "The client that was asked is gone.")
		}
	}
	return o, err
}

// unanswered tells a source that nobody replies, and why, so that it need not
// wait. Replies that came keep their place.
func (s *Server) unanswered(c *caller, round *action.Round, why string) {
	replies := make(map[string]action.Reply, len(round.Questions))
	for i := range round.Questions {
		replies[round.Questions[i].Key] = action.Reply{Problem: (&problem{code: codeInternal, text: why}).raw()}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), peerWithin)
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
	if !isString(id) {
		return "", "", false
	}
	rest, ok := strings.CutPrefix(decodeString(id), questionPrefix)
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
	for m := (members{text: q.Params}); m.next(); {
		value := m.value
		switch key := string(m.key); {
		case key == "_meta":
			meta = value
			continue
		case key == "message" && q.Method == "elicitation/create" && isString(value):
			value = jsonlex.Quote(nil, source+" asks: "+decodeString(value))
		}
		b = append(jsonlex.Quote(b, m.key), ':')
		b = append(append(b, value...), ',')
	}
	return append(appendSource(append(b, `"_meta":{`...), source, meta), '}')
}

// sourceMeta names whose question it is.
const sourceMeta = "sallyport/source"

// appendSource appends the members of _meta, with the source's name in place of
// one that the source may have given itself.
func appendSource(b []byte, source string, meta []byte) []byte {
	for m := (members{text: meta}); m.next(); {
		if string(m.key) != sourceMeta {
			b = append(jsonlex.Quote(b, m.key), ':')
			b = append(append(b, m.value...), ',')
		}
	}
	b = jsonlex.Quote(append(b, `"`+sourceMeta+`":`...), source)
	return append(b, '}')
}

// replied takes the response of a client of the older era to a question that
// this or another instance put to it. Any other response means nothing.
func (s *Server) replied(x *exchange) {
	round, key, ok := parseQuestionID(x.id)
	switch {
	case x.modern:
		x.fail(wrongEnvelope("Nothing was asked by a request; replies go into inputResponses of the call, repeated."))
		return
	case !ok:
		x.w.WriteHeader(http.StatusAccepted)
		return
	case !s.mayReply(x):
		x.w.Header().Set("Retry-After", "60")
		plain(x.w, http.StatusTooManyRequests, "This session replied too often within a minute; send this reply again in a minute.")
		return
	}
	// Whoever answers may well not wait for our answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), peerWithin)
	defer cancel()
	err := s.reply(ctx, x, round, key)
	switch {
	case err == nil, errors.Is(err, action.ErrNotFound), errors.Is(err, action.ErrGone):
		x.w.WriteHeader(http.StatusAccepted)
	default:
		s.cfg.Log.Error("keeping the reply to a question", "session", x.who.ID, "error", err)
		s.unsure(x.w)
	}
}

// reply hands one reply on. One that is too large is no answer; the source is
// told so, because nobody will send another.
func (s *Server) reply(ctx context.Context, x *exchange, round, key string) error {
	r := action.Reply{Result: bytes.Clone(x.result), Problem: bytes.Clone(x.fault)}
	if r.Problem != nil {
		r.Result = nil
	}
	_, err := s.cfg.Gate.Reply(ctx, &x.who, round, map[string]action.Reply{key: r}, false)
	if errors.Is(err, action.ErrTooLarge) || errors.Is(err, action.ErrInvalid) {
		refusal := action.Reply{Problem: (&problem{code: codeInternal, text: "The client's reply cannot be passed on: " + action.Public(err).Message}).raw()}
		_, err = s.cfg.Gate.Reply(ctx, &x.who, round, map[string]action.Reply{key: refusal}, false)
	}
	return err
}
