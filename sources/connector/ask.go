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

// The codes of JSON-RPC with which requests are refused.
const (
	codeRejected = -1 // nobody would answer
	codeMethod   = -32601
	codeParams   = -32602
	codeLinks    = -32042 // links are to be opened first
)

// refuses says why a question is not put to anybody; empty: it is.
func (s *Source) refuses(q *action.Question) string {
	kind, _, ok := q.Needs()
	switch {
	case !ok:
		return fmt.Sprintf("clients are not asked %.60q, or not with params that can be read in two ways.", sources.Printable(q.Method, 60))
	case !slices.Contains(s.cfg.MayAsk, kind):
		return fmt.Sprintf("this connector may not ask for %s; an admin can allow it.", kind)
	case kind == action.AskURL && !s.openable(q.Params):
		return "the link that it wants opened is not https."
	}
	return ""
}

// openable reports whether the link of a question may be shown to people. Of
// their own machines only a server there knows something.
func (s *Source) openable(params json.RawMessage) bool {
	members, _ := sources.Members(params)
	text, _ := unquoted(sources.Lookup(params, members, "url"))
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && guard.Loopback(u) && guard.Loopback(s.url)
}

// reply answers a request of a server with sessions: pings itself, questions
// by the caller, in the background, so that the stream is read on meanwhile.
func (x *exchange) reply(ctx context.Context, m *message, method string) {
	if x.replies.Add(1) > maxReplies {
		return
	}
	if method == "ping" {
		x.respond(ctx, m.id, "result", json.RawMessage(`{}`))
		return
	}
	q := action.Question{Method: method, Params: x.cred.clean(m.params)}
	kind, _, known := q.Needs()
	switch {
	case !known || x.request.caller == nil || x.ses.stateless || !slices.Contains(x.cfg.MayAsk, kind):
		x.respond(ctx, m.id, "error", problem(codeMethod, "this client does not do that"))
	case x.refuses(&q) != "":
		x.respond(ctx, m.id, "error", problem(codeParams, x.refuses(&q)))
	case x.asking.Add(1) > maxAsking:
		x.asking.Add(-1)
		x.respond(ctx, m.id, "error", problem(codeRejected, "too many questions at once"))
	default:
		q.Key = fmt.Sprintf("q%d", x.replies.Load())
		id := slices.Clone(m.id)
		q.Params = slices.Clone(q.Params) // the event's bytes are good for this moment only
		x.work.Go(func() {
			defer x.asking.Add(-1)
			x.put(ctx, id, q)
		})
	}
}

// put asks the caller and tells the server his answer, or that the call was
// over first.
func (x *exchange) put(ctx context.Context, id json.RawMessage, q action.Question) {
	replies, err := x.request.caller.Ask(ctx, []action.Question{q})
	reply, answered := replies[q.Key]
	switch {
	case ctx.Err() != nil:
		x.respond(context.WithoutCancel(ctx), id, "error", problem(codeRejected, "the call is over"))
	case err != nil:
		x.respond(ctx, id, "error", problem(codeRejected, action.Public(err).Message))
	case answered && len(reply.Problem) > 0:
		x.respond(ctx, id, "error", reply.Problem)
	case answered && len(reply.Result) > 0:
		x.respond(ctx, id, "result", reply.Result)
	default:
		x.respond(ctx, id, "error", problem(codeRejected, "the question was left open"))
	}
}

// respond posts the response to a request of the server.
func (x *exchange) respond(ctx context.Context, id json.RawMessage, member string, value json.RawMessage) {
	body := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	body = append(jsonlex.Quote(append(body, ','), member), ':')
	body = append(append(body, value...), '}')
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	x.tell(ctx, body)
}

func problem(code int, message string) json.RawMessage {
	b := fmt.Appendf(nil, `{"code":%d,"message":`, code)
	return append(jsonlex.Quote(b, message), '}')
}
