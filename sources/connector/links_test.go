package connector_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/sources/connector"
)

// signIn is an error that wants a link opened; nothing of it may be shown but
// as a question.
const signIn = `{"code":-32042,"message":"sign in at https://x.example/","data":{"elicitations":[{"mode":"url","url":"https://x.example/","message":"\u00e9","elicitationId":"1"}]}}`

// wantsOpened has a server answer with the error so often, and then properly.
func wantsOpened(t *testing.T, stateless bool, problem string, times int) *upstream {
	t.Helper()
	u := newUpstream(t, stateless, func(http.ResponseWriter, *http.Request, *post) {})
	handler := u.Config.Handler
	u.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, r := read(t, r)
		handler.ServeHTTP(w, r)
		var p post
		if r.Method != http.MethodPost || !strings.Contains(body, "tools/call") {
			return
		}
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Error(err)
		}
		if len(u.received("tools/call")) <= times {
			fail(w, &p, problem)
			return
		}
		respond(w, &p, `{"content":[]}`)
	})
	return u
}

// TestLinksInErrors are questions: when all are opened the call is sent once
// more, and else it fails without a word of where they lead.
func TestLinksInErrors(t *testing.T) {
	accept := action.Reply{Result: json.RawMessage(`{"action":"accept"}`)}
	for _, test := range []struct {
		name  string
		kinds []action.AskKind
		reply action.Reply
		err   error
		times int
		ok    bool
		sent  int
		want  string // of the message
	}{
		{name: "opened", kinds: action.AskKinds(), reply: accept, times: 1, ok: true, sent: 2},
		{name: "opened, and wanted again", kinds: action.AskKinds(), reply: accept, times: 9, sent: 2, want: "call again"},
		{name: "declined", kinds: action.AskKinds(), reply: action.Reply{Result: json.RawMessage(`{"action":"decline"}`)}, times: 1, sent: 1, want: "not opened"},
		{name: "accepted in other letters", kinds: action.AskKinds(), reply: action.Reply{Result: json.RawMessage(`{"action":"decline","Action":"accept"}`)}, times: 1, sent: 1, want: "not opened"},
		{name: "an error", kinds: action.AskKinds(), reply: action.Reply{Problem: json.RawMessage(`{"code":-1}`)}, times: 1, sent: 1, want: "not opened"},
		{name: "nobody can", kinds: action.AskKinds(), err: action.Errorf(action.ErrForbidden, "not_asked", "Nobody can be asked."), times: 1, sent: 1, want: "Nobody can be asked."},
		{name: "not allowed", kinds: []action.AskKind{action.AskElicitation}, reply: accept, times: 1, sent: 1, want: "an admin can allow it"},
	} {
		for _, era := range eras {
			t.Run(test.name+" "+era.name, func(t *testing.T) {
				u := wantsOpened(t, era.stateless, signIn, test.times)
				var heard []action.Question
				c := answering(test.reply, &heard)
				if ask := c.ask; test.err != nil {
					c.ask = func(ctx context.Context, q []action.Question) (map[string]action.Reply, error) {
						_, _ = ask(ctx, q)
						return nil, test.err
					}
				}
				res, err := open(t, u.URL, mayAsk(test.kinds...)).Call(t.Context(), "tool", nil, c)
				if err != nil || (res.Problem == nil) != test.ok || (res.Body != nil) != test.ok {
					t.Fatalf("got %s, %s, %v", res.Body, res.Problem, err)
				}
				if text := string(res.Problem); contains(text, "x.example") || contains(text, "-32042") || !contains(text, test.want) {
					t.Errorf("it fails with %s", text)
				}
				if n := len(u.received("tools/call")); n != test.sent {
					t.Errorf("the call was sent %d times, want %d", n, test.sent)
				}
				var want []action.Question
				if len(test.kinds) > 1 {
					want = []action.Question{{Key: "link1", Method: "elicitation/create", Params: json.RawMessage(`{"mode":"url","url":"https://x.example/","message":"\u00e9","elicitationId":"1"}`)}}
				}
				if diff := cmp.Diff(want, heard); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// TestLinksThatAreNotShown are in errors that not everyone reads alike, or lead
// nowhere good.
func TestLinksThatAreNotShown(t *testing.T) {
	link := `[{"mode":"url","url":"https://x.example/"}]`
	for _, problem := range []string{
		`{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","url":"javascript:x.example"}]}}`,
		`{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","url":"http://x.example/"}]}}`,
		`{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"form","url":"https://x.example/"}]}}`,
		`{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","Mode":"form","url":"https://x.example/"}]}}`,
		`{"code":-32042.0,"message":"m","data":{"elicitations":[{"mode":"url","url":"javascript:x.example"}]}}`,
		`{"code":-3.2042e4,"message":"m","data":{"Elicitations":` + link + `}}`,
		`{"code":-32042,"message":"m","data":{"elicitations":` + link + `,"Elicitations":[]}}`,
		`{"code":-32042,"message":"m","data":{"elicitations":[],"elicitations":` + link + `}}`,
		`{"code":-32042,"message":"m","data":{"elicitations":` + link + `},"Data":{}}`,
		`{"code":-32042,"Code":1,"message":"m","data":{"elicitations":` + link + `}}`,
		`{"code":-32042,"code":1,"message":"m","data":{"elicitations":` + link + `}}`,
		`{"Code":-32042,"message":"m","data":{"elicitations":` + link + `}}`,
		`{"code":-32042,"message":"https://x.example"}`,
		`{"code":-32042,"message":"m","data":"https://x.example"}`,
		`{"code":-32042,"message":"m","data":{"elicitations":["https://x.example/"]}}`,
		`{"code":-32042,"message":"https://x.example","data":{"elicitations":[]}}`,
		`{"code":-32042,"message":"m","data":{"elicitations":{"url":"https://x.example/"}}}`,
		`{"code":-32042,"message":"m","data":{"elicitations":[` + strings.Repeat(link[1:len(link)-1]+",", 16) + link[1:] + `}}`,
	} {
		u := wantsOpened(t, true, problem, 1)
		var heard []action.Question
		c := answering(action.Reply{Result: json.RawMessage(`{"action":"accept"}`)}, &heard)
		res, err := open(t, u.URL, mayAsk(action.AskKinds()...)).Call(t.Context(), "tool", nil, c)
		if text := string(res.Problem); err != nil || text == "" || contains(text, "x.example") || contains(text, "32042") {
			t.Errorf("%s: got %s, %s, %v", problem, res.Body, text, err)
		}
		if len(heard) > 0 || len(u.received("tools/call")) != 1 {
			t.Errorf("%s: asked %v, sent %d times", problem, heard, len(u.received("tools/call")))
		}
	}
}

// TestNoLinks is an error like any other, and one that nobody waits for.
func TestNoLinks(t *testing.T) {
	problem := `{"code":-32041,"message":"https://x.example/","data":{"code":-32042}}`
	res, err := open(t, wantsOpened(t, true, problem, 1).URL, nil).Call(t.Context(), "tool", nil, nobody())
	if err != nil || string(res.Problem) != problem {
		t.Errorf("got %s, %v", res.Problem, err)
	}
	res, err = open(t, wantsOpened(t, true, signIn, 1).URL, mayAsk(action.AskURL)).Call(t.Context(), "tool", nil, nil)
	if err != nil || res.Problem == nil || contains(string(res.Problem), "x.example") {
		t.Errorf("nobody waits: got %s, %s, %v", res.Body, res.Problem, err)
	}
}

// TestLinksToLoopback lead to the person's own machine, which only a server
// there has any business with.
func TestLinksToLoopback(t *testing.T) {
	var addr atomic.Value
	addr.Store(netip.MustParseAddr("127.0.0.1"))
	elsewhere := func(c *connector.Config) {
		c.Guard = guard.Config{
			Allow:    []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
			Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return resolver(&addr), nil }},
		}
	}
	for _, test := range []struct {
		link, host string
		asked      bool
	}{
		{"http://127.0.0.1:1/", "127.0.0.1", true},
		{"http://127.0.0.1:1/", "far.example", false},
		{"http://localhost/", "far.example", false},
		{"http://far.example/", "127.0.0.1", false},
		{"https://127.0.0.1/", "far.example", true},
	} {
		u, replied := askDuringCall(t, "elicitation/create", `{"mode":"url","url":"`+test.link+`"}`)
		var heard []action.Question
		c := answering(action.Reply{Result: json.RawMessage(`{"action":"decline"}`)}, &heard)
		s := open(t, strings.Replace(u.URL, "127.0.0.1", test.host, 1), func(c *connector.Config) {
			mayAsk(action.AskURL)(c)
			elsewhere(c)
		})
		if _, err := s.Call(t.Context(), "tool", nil, c); err != nil {
			t.Fatal(err)
		}
		if got := <-replied; (got.Error == nil) != test.asked || len(heard) > 0 != test.asked {
			t.Errorf("%s of %s: asked %v, the server was told %s", test.link, test.host, heard, got.raw)
		}
	}
}

// TestQuestionsReadTwoWays are put to nobody, in either era.
func TestQuestionsReadTwoWays(t *testing.T) {
	for _, params := range []string{
		`{"mode":"url","Mode":"form","message":"m","url":"javascript:alert(1)"}`,
		`{"mode":"url","MODE":null,"url":"javascript:alert(1)"}`,
		`{"mode":"url","url":"javascript:alert(1)","tools":1}`,
		`{"mode":"url","url":"https://x.example","Url":"javascript:alert(1)"}`,
		`{"mode":"url","url":"http://127.0.0.1.example/"}`,
	} {
		rounds := newUpstream(t, true, func(w http.ResponseWriter, _ *http.Request, p *post) {
			respond(w, p, `{"resultType":"input_required","requestState":"x","inputRequests":{"q":{"method":"elicitation/create","params":`+params+`}}}`)
		})
		var heard []action.Question
		c := answering(action.Reply{Result: json.RawMessage(`{"action":"decline"}`)}, &heard)
		all := mayAsk(action.AskKinds()...)
		_, err := open(t, rounds.URL, all).Call(t.Context(), "tool", nil, c)
		wantFault(t, err, action.ErrUnavailable, "not_asked")
		session, replied := askDuringCall(t, "elicitation/create", params)
		if _, err := open(t, session.URL, all).Call(t.Context(), "tool", nil, c); err != nil {
			t.Error(err)
		}
		if got := <-replied; got.Error == nil {
			t.Errorf("%s: the server was told %s", params, got.raw)
		}
		if len(heard) > 0 {
			t.Errorf("%s: asked %v", params, heard)
		}
	}
}

// TestResultTypes that are those of results.
func TestResultTypes(t *testing.T) {
	for _, result := range []string{`{"resultType":"c\u006fmplete","content":[]}`, `{"resultType":null,"content":[]}`, `{"content":[],"_meta":{"ResultType":1}}`} {
		u := newUpstream(t, true, func(w http.ResponseWriter, _ *http.Request, p *post) { respond(w, p, result) })
		res, err := open(t, u.URL, nil).Call(t.Context(), "tool", nil, nobody())
		if err != nil || string(res.Body) != result {
			t.Errorf("%s: got %s, %v", result, res.Body, err)
		}
	}
}

// TestResultsReadTwoWays may ask behind our back.
func TestResultsReadTwoWays(t *testing.T) {
	for _, result := range []string{
		`{"resultType":"complete","ResultType":"input_required","content":[],"inputRequests":{}}`,
		`{"resultType":"input_required","resultType":"complete","content":[]}`,
		`{"resulttype":"input_required","content":[]}`,
		`{"resultType":["input_required"],"content":[]}`,
	} {
		u := newUpstream(t, true, func(w http.ResponseWriter, _ *http.Request, p *post) { respond(w, p, result) })
		_, err := open(t, u.URL, nil).Call(t.Context(), "tool", nil, nobody())
		wantFault(t, err, action.ErrOutcomeUnknown, "upstream_protocol")
	}
}
