package connector

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/internal/jsonlex"
	"sallyport/sources"
)

// JSON-RPC error codes.
const (
	codeRejected = -1 // nobody can answer
	codeMethod   = -32601
	codeParams   = -32602
	codeLinks    = -32042 // links must be opened first
)

// questionRefusal says why the server's question is not passed on to the
// caller. Empty: it is.
func (s *Source) questionRefusal(q *action.Question) string {
	kind, _, ok := q.Needs()
	switch {
	case !ok:
		return fmt.Sprintf("the method %.60q is not supported, or its params are ambiguous.", sources.Printable(q.Method, 60))
	case !slices.Contains(s.cfg.MayAsk, kind):
		return fmt.Sprintf("this connector may not ask for %s; an admin can allow it.", kind)
	case kind == action.AskURL && !s.allowedLink(q.Params):
		return "the link that it wants opened is not https."
	}
	return ""
}

// allowedLink reports whether a question's link can be shown to people. Links
// to loopback are only allowed for a server on loopback.
func (s *Source) allowedLink(params json.RawMessage) bool {
	text, _ := unquote(member(params, "url"))
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && guard.Loopback(u) && guard.Loopback(s.url)
}

// handleRequest answers a request of a server with sessions: pings directly,
// questions through the caller, in the background, so that the stream is still
// read.
func (x *exchange) handleRequest(ctx context.Context, m *message, method string) {
	if x.replies.Add(1) > maxReplies {
		return
	}
	if method == "ping" {
		x.sendResponse(ctx, m.id, "result", json.RawMessage(`{}`))
		return
	}
	q := action.Question{Method: method, Params: x.cred.clean(m.params)}
	kind, _, known := q.Needs()
	switch {
	case !known || x.request.caller == nil || x.ses.stateless || !slices.Contains(x.cfg.MayAsk, kind):
		x.sendResponse(ctx, m.id, "error", jsonrpcError(codeMethod, "this client does not do that"))
	case x.questionRefusal(&q) != "":
		x.sendResponse(ctx, m.id, "error", jsonrpcError(codeParams, x.questionRefusal(&q)))
	case x.asking.Add(1) > maxAsking:
		x.asking.Add(-1)
		x.sendResponse(ctx, m.id, "error", jsonrpcError(codeRejected, "too many questions at once"))
	default:
		q.Key = fmt.Sprintf("q%d", x.replies.Load())
		id := slices.Clone(m.id)
		q.Params = slices.Clone(q.Params) // the event's bytes are good for this moment only
		x.running.Go(func() {
			defer x.asking.Add(-1)
			x.askCaller(ctx, id, q)
		})
	}
}

// askCaller asks the caller and sends the answer to the server, or an error if
// the call ended first.
func (x *exchange) askCaller(ctx context.Context, id json.RawMessage, q action.Question) {
	replies, err := x.request.caller.Ask(ctx, []action.Question{q})
	reply, answered := replies[q.Key]
	switch {
	case ctx.Err() != nil:
		x.sendResponse(context.WithoutCancel(ctx), id, "error", jsonrpcError(codeRejected, "the call is over"))
	case err != nil:
		x.sendResponse(ctx, id, "error", jsonrpcError(codeRejected, action.Public(err).Message))
	case answered && len(reply.Problem) > 0:
		x.sendResponse(ctx, id, "error", reply.Problem)
	case answered && len(reply.Result) > 0:
		x.sendResponse(ctx, id, "result", reply.Result)
	default:
		x.sendResponse(ctx, id, "error", jsonrpcError(codeRejected, "the question was left open"))
	}
}

// sendResponse posts the response to a request of the server.
func (x *exchange) sendResponse(ctx context.Context, id json.RawMessage, member string, value json.RawMessage) {
	body := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	body = append(jsonlex.Quote(append(body, ','), member), ':')
	body = append(append(body, value...), '}')
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	x.sendNotification(ctx, body)
}

func jsonrpcError(code int, message string) json.RawMessage {
	b := fmt.Appendf(nil, `{"code":%d,"message":`, code)
	return append(jsonlex.Quote(b, message), '}')
}

// Bounds of the rounds of one request.
const (
	maxRounds = 10 // in which the server asks something before it answers
	maxIdle   = 3  // of them without a question: the server wants a moment
)

// sendAnsweringQuestions sends a request, answers the questions of a server
// without sessions, and sends the request again with the answers, until it is
// complete. A result with questions means that nothing was completed.
func (s *Source) sendAnsweringQuestions(ctx context.Context, cred *credential, r *request) (answer, error) {
	idle := 0
	for round := 0; ; round++ {
		a, err := s.do(ctx, cred, r)
		if err != nil || a.problem != nil || !a.stateless {
			return a, err
		}
		if kind, _ := unquote(member(a.result, "resultType")); kind != "input_required" {
			return a, nil
		}
		if round == maxRounds {
			return a, unansweredError("too_many_questions", "it asked more than %d times.", maxRounds)
		}
		questions, err := s.questions(a.result)
		if err != nil {
			return a, err
		}
		var replies map[string]action.Reply
		if len(questions) > 0 {
			replies, err = s.ask(ctx, r, questions)
		} else if idle++; idle > maxIdle {
			err = unansweredError("no_question", "it asked for input without saying which.")
		} else {
			err = pause(ctx, s.cfg.Backoff)
		}
		if err != nil {
			return a, err
		}
		r.responses = responseMembers(a.raw, questions, replies)
	}
}

// questions reads what a result asks, in its order.
func (s *Source) questions(result json.RawMessage) ([]action.Question, error) {
	requests := member(result, "inputRequests")
	if requests == nil || string(requests) == "null" {
		return nil, nil
	}
	list, ok := sources.Members(requests)
	if !ok || len(list) > maxAsking {
		return nil, unansweredError("too_many_questions", "its questions are not an object, or there are more than %d.", maxAsking)
	}
	questions := make([]action.Question, 0, len(list))
	for _, m := range list {
		request := requests[m.Value:m.End]
		q := action.Question{Key: m.Name, Params: member(request, "params")}
		q.Method, _ = unquote(member(request, "method"))
		if refusal := s.questionRefusal(&q); refusal != "" {
			return nil, unansweredError("not_asked", "%s", refusal)
		}
		questions = append(questions, q)
	}
	return questions, nil
}

// ask puts a round of questions to the caller.
func (s *Source) ask(ctx context.Context, r *request, questions []action.Question) (map[string]action.Reply, error) {
	if r.caller == nil {
		return nil, unansweredError("not_asked", "nobody can answer for this request.")
	}
	replies, err := r.caller.Ask(ctx, questions)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, interrupted(ctx, action.ErrUnavailable)
	case err != nil:
		told := action.Public(err)
		e := unansweredError(told.Code, "%s", told.Message)
		e.Err = err
		return nil, e
	}
	return replies, nil
}

// responseMembers returns the members that answer the questions when the
// request is sent again. The state is returned to the server unchanged. A
// question that the client answered with an error is left open, as the protocol
// requires.
func responseMembers(result json.RawMessage, questions []action.Question, replies map[string]action.Reply) []byte {
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
	if state := member(result, "requestState"); state != nil {
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = append(append(b, `"requestState":`...), state...)
	}
	return b
}

// unansweredError reports a request that ended because a question was not
// answered.
func unansweredError(code, format string, args ...any) *action.Error {
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
