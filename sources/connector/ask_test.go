package connector_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/connector"
)

func mayAsk(kinds ...action.AskKind) func(*connector.Config) {
	return func(c *connector.Config) { c.MayAsk = kinds }
}

// answering is a caller who replies the same to every question.
func answering(reply action.Reply, heard *[]action.Question) *caller {
	return &caller{session: "s1", can: action.AskFeatures(action.AskKinds()), ask: func(_ context.Context, questions []action.Question) (map[string]action.Reply, error) {
		*heard = append(*heard, questions...)
		replies := map[string]action.Reply{}
		for _, q := range questions {
			replies[q.Key] = reply
		}
		return replies, nil
	}}
}

const question = `{"message":"\u00e9?", "z":9007199254740993,"a":{"new":1E+2},"requestedSchema":{"type":"object"}}`

// askDuringCall has a server with sessions that asks on the stream of a call,
// tells progress while it waits, and answers when it has the reply.
func askDuringCall(t *testing.T, method, params string) (u *upstream, replied chan post) {
	t.Helper()
	replied = make(chan post, 10)
	u = newUpstream(t, false, func(w http.ResponseWriter, r *http.Request, p *post) {
		switch {
		case r.Method == http.MethodGet:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case p.Method == "":
			w.WriteHeader(http.StatusAccepted)
			replied <- *p
		default:
			stream(w)
			say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":"ask 1","method":%q,"params":%s}`, method, params))
			say(w, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, p.Params.Meta.Token))
			select {
			case answer := <-replied:
				replied <- answer
			case <-r.Context().Done():
				return
			}
			say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"contents":[],"messages":[]}}`, p.ID))
		}
	})
	return u, replied
}

// TestQuestions has a server with sessions ask, and get the reply as the
// client gave it.
func TestQuestions(t *testing.T) {
	for name, reply := range map[string]action.Reply{
		"result": {Result: json.RawMessage(`{"action":"accept", "content":{"n":9007199254740993,"a":1}}`)},
		"error":  {Problem: json.RawMessage(`{"code":-1, "message":"no","data":9007199254740993}`)},
	} {
		for _, method := range []string{"tools/call", "resources/read", "prompts/get"} {
			t.Run(name+" "+method, func(t *testing.T) {
				u, replied := askDuringCall(t, "elicitation/create", question)
				var heard []action.Question
				told := make(chan struct{})
				c := answering(reply, &heard)
				ask := c.ask
				c.progress = func(json.RawMessage) { close(told) }
				c.ask = func(ctx context.Context, q []action.Question) (map[string]action.Reply, error) {
					<-told // the stream is read on while the caller thinks
					return ask(ctx, q)
				}
				s := open(t, u.URL, mayAsk(action.AskElicitation))
				var err error
				if method == "tools/call" {
					_, err = s.Call(t.Context(), "tool", nil, c)
				} else {
					_, err = s.Do(t.Context(), method, json.RawMessage(`{"uri":"x:y","name":"p"}`), c)
				}
				if err != nil {
					t.Fatal(err)
				}
				if len(heard) != 1 || string(heard[0].Params) != question || heard[0].Method != "elicitation/create" || heard[0].Key == "" {
					t.Errorf("the caller was asked %+v", heard)
				}
				got := <-replied
				if string(got.ID) != `"ask 1"` || string(got.Result) != string(reply.Result) || string(got.Error) != string(reply.Problem) {
					t.Errorf("the server was told %s", got.raw)
				}
			})
		}
	}
}

// TestRefusedQuestions are answered with an error, and the call goes on.
func TestRefusedQuestions(t *testing.T) {
	var asked atomic.Int64
	yes := func(context.Context, []action.Question) (map[string]action.Reply, error) {
		asked.Add(1)
		return map[string]action.Reply{}, nil
	}
	no := func(context.Context, []action.Question) (map[string]action.Reply, error) {
		return nil, fmt.Errorf("a secret: %w", action.Errorf(action.ErrForbidden, "not_asked", "Nobody can be asked."))
	}
	all := mayAsk(action.AskKinds()...)
	for _, test := range []struct {
		name, method, params string
		change               func(*connector.Config)
		caller               action.Caller
		want                 string
	}{
		{"no kind is allowed", "elicitation/create", question, nil, &caller{ask: yes}, `{"code":-32601,"message":"this client does not do that"}`},
		{"another kind is allowed", "sampling/createMessage", `{}`, mayAsk(action.AskElicitation), &caller{ask: yes}, `{"code":-32601,"message":"this client does not do that"}`},
		{"a link, where forms are allowed", "elicitation/create", `{"mode":"url","url":"https://x.example"}`, mayAsk(action.AskElicitation), &caller{ask: yes}, `-32601`},
		{"no such method", "tools/call", `{}`, all, &caller{ask: yes}, `-32601`},
		{"nobody", "roots/list", `{}`, all, nil, `-32601`},
		{"a script", "elicitation/create", `{"mode":"url","url":"javascript:alert(1)"}`, all, &caller{ask: yes}, `-32602`},
		{"a file", "elicitation/create", `{"mode":"url","url":"file:///etc/passwd"}`, all, &caller{ask: yes}, `-32602`},
		{"no encryption", "elicitation/create", `{"mode":"url","url":"http://x.example/"}`, all, &caller{ask: yes}, `-32602`},
		{"a password", "elicitation/create", `{"mode":"url","url":"https://u:p@x.example/"}`, all, &caller{ask: yes}, `-32602`},
		{"no link", "elicitation/create", `{"mode":"url"}`, all, &caller{ask: yes}, `-32602`},
		{"nobody can be asked", "roots/list", `{}`, all, &caller{ask: no}, `{"code":-1,"message":"Nobody can be asked."}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			u, replied := askDuringCall(t, test.method, test.params)
			if _, err := open(t, u.URL, test.change).Call(t.Context(), "tool", nil, test.caller); err != nil {
				t.Fatal(err)
			}
			if got := <-replied; !strings.Contains(string(got.Error), test.want) || got.Result != nil {
				t.Errorf("the server was told %s", got.raw)
			}
		})
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the caller was asked %d times", n)
	}
	u, replied := askDuringCall(t, "elicitation/create", `{"mode":"url","url":"http://127.0.0.1:1/"}`)
	if _, err := open(t, u.URL, all).Call(t.Context(), "tool", nil, &caller{ask: yes}); err != nil || asked.Load() != 1 {
		t.Errorf("a link to loopback: asked %d times, %v", asked.Load(), err)
	}
	if got := <-replied; !strings.Contains(string(got.Error), "-1") {
		t.Errorf("a question left open: the server was told %s", got.raw)
	}
}

// TestQuestionFlood has a server that asks without end: few are open at once,
// and the others are refused.
func TestQuestionFlood(t *testing.T) {
	const flood = 100
	var refused atomic.Int64
	over := make(chan struct{})
	u := newUpstream(t, false, func(w http.ResponseWriter, r *http.Request, p *post) {
		switch {
		case r.Method == http.MethodGet:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case p.Method == "":
			w.WriteHeader(http.StatusAccepted)
			if refused.Add(1) == flood-16 {
				close(over)
			}
		case p.Method == "tools/call":
			stream(w)
			for i := range flood {
				say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, i))
			}
			<-over
			say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, p.ID))
		}
	})
	var asked, left atomic.Int64
	s := open(t, u.URL, mayAsk(action.AskRoots))
	_, err := s.Call(t.Context(), "tool", nil, &caller{ask: func(ctx context.Context, _ []action.Question) (map[string]action.Reply, error) {
		asked.Add(1)
		<-ctx.Done() // the call's end is the question's
		left.Add(1)
		return nil, ctx.Err()
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if asked.Load() != 16 || left.Load() != 16 || refused.Load() != flood {
		t.Errorf("asked %d, left %d, refused %d", asked.Load(), left.Load(), refused.Load())
	}
}

// TestCutDuringQuestion has the stream end while the caller is asked.
func TestCutDuringQuestion(t *testing.T) {
	asking := make(chan struct{})
	u := newUpstream(t, false, func(w http.ResponseWriter, r *http.Request, p *post) {
		if p.Method != "tools/call" {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		stream(w)
		say(w, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
		<-asking
		panic(http.ErrAbortHandler)
	})
	_, err := open(t, u.URL, mayAsk(action.AskRoots)).Call(t.Context(), "tool", nil, &caller{ask: func(ctx context.Context, _ []action.Question) (map[string]action.Reply, error) {
		close(asking)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	wantFault(t, err, action.ErrOutcomeUnknown, sources.FaultProtocol)
	if n := len(u.received("tools/call")); n != 1 {
		t.Errorf("the call was sent %d times", n)
	}
}

// TestRounds has a server without sessions that asks twice, and hears the
// replies and its state as they were.
func TestRounds(t *testing.T) {
	state := `"s\u00e9\/1"`
	u := newUpstream(t, true, func(w http.ResponseWriter, _ *http.Request, p *post) {
		switch {
		case strings.Contains(p.raw, `"second"`):
			respond(w, p, `{"resultType":"complete","content":[]}`)
		case strings.Contains(p.raw, `"inputResponses"`):
			respond(w, p, `{"resultType":"input_required","requestState":"second","inputRequests":{"only":{"method":"roots/list"}}}`)
		default:
			respond(w, p, `{"resultType":"input_required","requestState":`+state+`,"inputRequests":{ "z":{"method":"elicitation/create","params":`+question+`},"a":{"method":"sampling/createMessage","params":{"maxTokens":1.0}}}}`)
		}
	})
	var heard []action.Question
	reply := `{"action":"accept", "content":{"n":9007199254740993}}`
	c := answering(action.Reply{Result: json.RawMessage(reply)}, &heard)
	ask := c.ask
	c.ask = func(ctx context.Context, q []action.Question) (map[string]action.Reply, error) {
		replies, err := ask(ctx, q)
		if len(q) > 1 {
			replies["a"] = action.Reply{Problem: json.RawMessage(`{"code":-1}`)}
		}
		return replies, err
	}
	c.can = action.ClientElicitsForm | action.ClientSamples | action.ClientListsRoots | action.ClientElicitsURL
	res, err := open(t, u.URL, mayAsk(action.AskElicitation, action.AskSampling, action.AskRoots)).Call(t.Context(), "tool", json.RawMessage(`{"x":1.0}`), c)
	if err != nil || string(res.Body) != `{"resultType":"complete","content":[]}` {
		t.Fatalf("got %s, %v", res.Body, err)
	}
	want := []action.Question{
		{Key: "z", Method: "elicitation/create", Params: json.RawMessage(question)},
		{Key: "a", Method: "sampling/createMessage", Params: json.RawMessage(`{"maxTokens":1.0}`)},
		{Key: "only", Method: "roots/list"},
	}
	if diff := cmp.Diff(want, heard); diff != "" {
		t.Error(diff)
	}
	sent := u.received("tools/call")
	if len(sent) != 3 || string(sent[0].ID) == string(sent[1].ID) {
		t.Fatalf("the server received %+v", sent)
	}
	args := `"params":{"name":"tool","arguments":{"x":1.0},`
	for i, part := range []string{args + `"_meta"`, args + `"inputResponses":{"z":` + reply + `},"requestState":` + state + `,"_meta"`, args + `"inputResponses":{"only":` + reply + `},"requestState":"second","_meta"`} {
		if !strings.Contains(sent[i].raw, part) {
			t.Errorf("sent %s, want %s", sent[i].raw, part)
		}
		if !strings.Contains(sent[i].raw, `clientCapabilities":{"elicitation":{"form":{}},"sampling":{},"roots":{}}`) {
			t.Errorf("sent other capabilities: %s", sent[i].raw)
		}
	}
}

// TestUnansweredRounds end the call; nothing was completed.
func TestUnansweredRounds(t *testing.T) {
	elicit := `{"q":{"method":"elicitation/create","params":{"message":"?"}}}`
	link := `{"q":{"method":"elicitation/create","params":{"mode":"url","url":"http://x.example"}}}`
	for _, test := range []struct {
		name, requests string
		err            error
		code           string
		sent           int
	}{
		{"for ever", elicit, nil, "too_many_questions", 11},
		{"refused", elicit, action.Errorf(action.ErrForbidden, "not_asked", "Nobody can be asked."), "not_asked", 1},
		{"too much", elicit, action.Errorf(action.ErrTooMany, "too_many_questions", "Too often."), "too_many_questions", 1},
		{"unknown", elicit, errors.New("canary"), "internal", 1},
		{"a kind that is not allowed", `{"q":{"method":"roots/list"}}`, nil, "not_asked", 1},
		{"a link that is not encrypted", link, nil, "not_asked", 1},
		{"a method that is none", `{"q":{"method":"tools/call"}}`, nil, "not_asked", 1},
		{"no question", `{"q":7}`, nil, "not_asked", 1},
		{"a list", `[]`, nil, "too_many_questions", 1},
		{"nothing, again and again", `{}`, nil, "no_question", 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			u := newUpstream(t, true, func(w http.ResponseWriter, _ *http.Request, p *post) {
				respond(w, p, `{"resultType":"input_required","requestState":"x","inputRequests":`+test.requests+`}`)
			})
			s := open(t, u.URL, func(c *connector.Config) {
				c.MayAsk, c.Backoff = []action.AskKind{action.AskElicitation, action.AskURL}, 1
			})
			_, err := s.Call(t.Context(), "tool", nil, &caller{ask: func(context.Context, []action.Question) (map[string]action.Reply, error) {
				return map[string]action.Reply{"q": {Result: json.RawMessage(`{}`)}}, test.err
			}})
			wantFault(t, err, action.ErrUnavailable, test.code)
			if contains(action.Public(err).Message, "canary") {
				t.Errorf("it says %q", action.Public(err).Message)
			}
			if n := len(u.received("tools/call")); n != test.sent {
				t.Errorf("the call was sent %d times", n)
			}
		})
	}
}

// TestCapabilities of a session are what may be asked, whatever its callers
// offer: others may use it who offer more, and questions find out.
func TestCapabilities(t *testing.T) {
	u, _ := askDuringCall(t, "ping", `{}`)
	s := open(t, u.URL, mayAsk(action.AskSampling, action.AskURL))
	for i, can := range []action.ClientFeatures{0, action.ClientSamples | action.ClientElicitsForm, action.AskFeatures(action.AskKinds())} {
		if _, err := s.Call(t.Context(), "tool", nil, &caller{session: fmt.Sprint(i / 2), can: can}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, p := range u.received("initialize") {
		got = append(got, string(p.Params.Capabilities))
	}
	all := `{"sampling":{"context":{},"tools":{}},"elicitation":{"url":{}}}`
	if diff := cmp.Diff([]string{all, all, all}, got); diff != "" {
		t.Error(diff)
	}
}
