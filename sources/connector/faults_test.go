package connector_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/connector"
)

func contains(text, secret string) bool { return strings.Contains(text, secret) }

// wantFault checks the kind and code of an error.
func wantFault(t *testing.T, err, kind error, code string) {
	t.Helper()
	var e *action.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an action.Error", err)
	}
	if e.Code != code || !errors.Is(err, kind) {
		t.Errorf("got %s, kind %v, %q; want %s, kind %v", e.Code, e.Kind, e.Message, code, kind)
	}
	if other := map[bool]error{true: action.ErrUnavailable, false: action.ErrOutcomeUnknown}[errors.Is(kind, action.ErrOutcomeUnknown)]; errors.Is(err, other) {
		t.Errorf("%v is of two kinds", err)
	}
}

// TestBrokenAnswers has the call received; whatever comes then, its outcome
// is unknown and it is not sent again.
func TestBrokenAnswers(t *testing.T) {
	huge := strings.Repeat("x", 40<<10)
	result := func(r string) func(http.ResponseWriter, *post) {
		return func(w http.ResponseWriter, p *post) { respond(w, p, r) }
	}
	raw := func(kind, body string) func(http.ResponseWriter, *post) {
		return func(w http.ResponseWriter, p *post) {
			w.Header().Set("Content-Type", kind)
			fmt.Fprint(w, strings.ReplaceAll(body, "ID", string(p.ID)))
		}
	}
	status := func(code int) func(http.ResponseWriter, *post) {
		return func(w http.ResponseWriter, _ *post) { http.Error(w, "x", code) }
	}
	for _, test := range []struct {
		name string
		tell func(http.ResponseWriter, *post)
		code string
	}{
		{"garbage", raw("application/json", `}{`), sources.FaultProtocol},
		{"nothing", raw("application/json", ``), sources.FaultProtocol},
		{"an HTML page", raw("text/html", `<html>`), sources.FaultProtocol},
		{"no content type", raw("", `{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}`), sources.FaultProtocol},
		{"another id", raw("application/json", `{"jsonrpc":"2.0","id":1ID,"result":{"content":[]}}`), sources.FaultProtocol},
		{"the id as text", raw("application/json", `{"jsonrpc":"2.0","id":"ID","result":{"content":[]}}`), sources.FaultProtocol},
		{"a list of messages", raw("application/json", `[{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}]`), sources.FaultProtocol},
		{"result and error", raw("application/json", `{"jsonrpc":"2.0","id":ID,"result":{"content":[]},"error":{"code":1}}`), sources.FaultProtocol},
		{"neither", raw("application/json", `{"jsonrpc":"2.0","id":ID}`), sources.FaultProtocol},
		{"names in another case", raw("application/json", `{"jsonrpc":"2.0","ID":ID,"RESULT":{"content":[]}}`), sources.FaultProtocol},
		{"an error that is text", raw("application/json", `{"jsonrpc":"2.0","id":ID,"error":"no"}`), sources.FaultProtocol},
		{"null", result(`null`), sources.FaultProtocol},
		{"a list as result", result(`[]`), sources.FaultProtocol},
		{"an empty result", result(`{}`), sources.FaultProtocol},
		{"content in another case", result(`{"Content":[]}`), sources.FaultProtocol},
		{"a request for input", result(`{"resultType":"input_required","inputRequests":{},"content":[]}`), sources.FaultProtocol},
		{"too large", result(`{"content":[{"type":"text","text":"` + huge + `"}]}`), sources.FaultTooLarge},
		{"a stream too large", raw("text/event-stream", "data: "+huge), sources.FaultTooLarge},
		{"a stream of comments too large", raw("text/event-stream", strings.Repeat(": x\n\n", 8<<10)), sources.FaultTooLarge},
		{"a stream that ends", raw("text/event-stream", ": hello\n\n"), sources.FaultProtocol},
		{"a stream cut in the middle", raw("text/event-stream", `data: {"jsonrpc":"2.0","id":ID,"result":{"content":[]`), sources.FaultProtocol},
		{"a stream of garbage", raw("text/event-stream", "data: }{\n\ndata: 7\n\ndata: {}\n\n"), sources.FaultProtocol},
		{"a connection cut", func(http.ResponseWriter, *post) { panic(http.ErrAbortHandler) }, sources.FaultProtocol},
		{"a body cut", func(w http.ResponseWriter, _ *post) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"jsonrpc"`)
		}, sources.FaultProtocol},
		{"accepted", status(http.StatusAccepted), sources.FaultProtocol},
		{"no content", func(w http.ResponseWriter, _ *post) { w.WriteHeader(http.StatusNoContent) }, sources.FaultProtocol},
		{"500", status(http.StatusInternalServerError), sources.FaultFailed},
		{"502", status(http.StatusBadGateway), sources.FaultFailed},
		{"504", status(http.StatusGatewayTimeout), sources.FaultFailed},
		{"look elsewhere with GET", func(w http.ResponseWriter, _ *post) {
			w.Header().Set("Location", "/done")
			w.WriteHeader(http.StatusSeeOther)
		}, sources.FaultRefused},
	} {
		t.Run(test.name, func(t *testing.T) {
			u := newUpstream(t, false, func(w http.ResponseWriter, r *http.Request, p *post) {
				if p.Method == "tools/call" {
					test.tell(w, p)
				}
			})
			s := open(t, u.URL, func(c *connector.Config) { c.MaxAnswer = 32 << 10 })
			res, err := s.Call(t.Context(), "tool", nil, nobody())
			wantFault(t, err, action.ErrOutcomeUnknown, test.code)
			if res.Body != nil || res.Problem != nil {
				t.Errorf("got %s, %s beside the error", res.Body, res.Problem)
			}
			if n := len(u.received("tools/call")); n != 1 {
				t.Errorf("the call was sent %d times", n)
			}
		})
	}
}

// TestRefusals has the server say that it did not take the call.
func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		status int
		code   string
	}{
		{http.StatusBadRequest, sources.FaultRefused},
		{http.StatusUnauthorized, sources.FaultAuth},
		{http.StatusForbidden, sources.FaultAuth},
		{http.StatusMethodNotAllowed, sources.FaultTransport},
		{http.StatusNotAcceptable, sources.FaultRefused},
		{http.StatusRequestEntityTooLarge, sources.FaultRefused},
		{http.StatusUnsupportedMediaType, sources.FaultRefused},
		{http.StatusTooManyRequests, sources.FaultRateLimited},
	} {
		t.Run(fmt.Sprint(test.status), func(t *testing.T) {
			u := newUpstream(t, false, func(w http.ResponseWriter, _ *http.Request, p *post) {
				w.Header().Set("Retry-After", "7")
				http.Error(w, "no", test.status)
			})
			s := open(t, u.URL, nil)
			_, err := s.Call(t.Context(), "tool", nil, nobody())
			wantFault(t, err, action.ErrUnavailable, test.code)
			if e := action.Public(err); e.RetryAfter != 7*time.Second {
				t.Errorf("retry after %s", e.RetryAfter)
			}
			if n := len(u.received("tools/call")); n != 1 {
				t.Errorf("the call was sent %d times", n)
			}
			// A doubtful refusal costs the session, so that the next call is
			// not refused for the same reason.
			_, _ = s.Call(t.Context(), "tool", nil, nobody())
			want := 1
			if test.code == sources.FaultRefused {
				want = 2
			}
			if n := len(u.received("initialize")); n != want {
				t.Errorf("%d handshakes, want %d", n, want)
			}
		})
	}
}

// TestForgottenSession has a server that forgets every session at once: the
// call is sent twice, not for ever, and certainly did not run.
func TestForgottenSession(t *testing.T) {
	u := newUpstream(t, false, func(w http.ResponseWriter, _ *http.Request, _ *post) { http.Error(w, "who?", http.StatusNotFound) })
	_, err := open(t, u.URL, nil).Call(t.Context(), "tool", nil, nobody())
	wantFault(t, err, action.ErrUnavailable, sources.FaultRefused)
	if n := len(u.received("tools/call")); n != 2 {
		t.Errorf("the call was sent %d times", n)
	}
}

// TestForgottenSessionBadRequest has a server that says 400 where 404 is due,
// as many do that are built after the TypeScript SDK's examples.
func TestForgottenSessionBadRequest(t *testing.T) {
	executed := 0
	refuse := `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`
	u := newUpstream(t, false, func(w http.ResponseWriter, _ *http.Request, p *post) {
		if refuse != "" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, refuse)
			refuse = ""
			return
		}
		executed++
		respond(w, p, `{"content":[]}`)
	})
	s := open(t, u.URL, nil)
	if _, err := s.Call(t.Context(), "tool", nil, nobody()); err != nil || executed != 1 {
		t.Errorf("%d executions, %v", executed, err)
	}
	// Any other 400 may mean anything.
	refuse = `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: the moon is full"}}`
	_, err := s.Call(t.Context(), "tool", nil, nobody())
	wantFault(t, err, action.ErrUnavailable, sources.FaultRefused)
	if executed != 1 {
		t.Errorf("%d executions", executed)
	}
}

// TestNotReached has servers that no call gets to.
func TestNotReached(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	secure.Config.ErrorLog = nil
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>welcome</html>") }))
	t.Cleanup(page.Close)
	status := func(code int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) }))
		t.Cleanup(s.Close)
		return s.URL
	}
	for _, test := range []struct{ name, url, code string }{
		{"nobody listens", gone.URL, sources.FaultUnreachable},
		{"no such name", "http://nowhere.invalid/mcp", sources.FaultDNS},
		{"a private address", "http://10.0.0.1/mcp", sources.FaultBlocked},
		{"a metadata address", "http://169.254.169.254/mcp", sources.FaultBlocked},
		{"an unknown certificate", secure.URL, sources.FaultTLS},
		{"https where http is spoken", "https" + strings.TrimPrefix(page.URL, "http"), sources.FaultTLS},
		{"a web page", page.URL, sources.FaultTransport},
		{"not found", status(http.StatusNotFound), sources.FaultTransport},
		{"unauthorized", status(http.StatusUnauthorized), sources.FaultAuth},
		{"failing", status(http.StatusServiceUnavailable), sources.FaultFailed},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, test.url, nil)
			_, err := s.Call(t.Context(), "tool", nil, nobody())
			wantFault(t, err, action.ErrUnavailable, test.code)
			_, err = s.List(t.Context())
			wantFault(t, err, action.ErrUnavailable, test.code)
		})
	}
}

// TestSlowServer has the caller's time end before, and after, the call was
// sent.
func TestSlowServer(t *testing.T) {
	release := make(chan struct{})
	u := newUpstream(t, false, func(w http.ResponseWriter, r *http.Request, p *post) {
		if p.Method != "tools/call" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		if p.Params.Name == "stream" {
			stream(w)
			say(w, `{"jsonrpc":"2.0","method":"notifications/message"}`)
		}
		select {
		case <-r.Context().Done():
		case <-release:
		}
	})
	defer close(release)
	s := open(t, u.URL, nil)
	for _, tool := range []string{"silent", "stream"} {
		ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := s.Call(ctx, tool, nil, nobody())
		stop()
		wantFault(t, err, action.ErrOutcomeUnknown, sources.FaultTimeout)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	calls, told := u.received("tools/call"), u.received("notifications/cancelled")
	if len(told) != 2 || string(told[0].Params.RequestID) != string(calls[0].ID) && string(told[0].Params.RequestID) != string(calls[1].ID) {
		t.Errorf("the server was told %+v", told)
	}

	stuck := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}))
	t.Cleanup(stuck.Close)
	s = open(t, stuck.URL, func(c *connector.Config) { c.ConnectTimeout = 200 * time.Millisecond })
	_, err := s.Call(t.Context(), "tool", nil, nobody())
	wantFault(t, err, action.ErrUnavailable, sources.FaultTimeout)
	ctx, stop := context.WithCancelCause(t.Context())
	stop(action.ErrCancelled)
	_, err = s.Call(ctx, "tool", nil, nobody())
	wantFault(t, err, action.ErrUnavailable, "interrupted")
}

// TestEndlessStream has a server that never stops talking: the bound on its
// answer ends it.
func TestEndlessStream(t *testing.T) {
	u := newUpstream(t, false, func(w http.ResponseWriter, r *http.Request, p *post) {
		stream(w)
		for r.Context().Err() == nil {
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n\n", 1)
		}
	})
	s := open(t, u.URL, func(c *connector.Config) { c.MaxAnswer = 1 << 20 })
	_, err := s.Call(t.Context(), "tool", nil, nobody())
	wantFault(t, err, action.ErrOutcomeUnknown, sources.FaultTooLarge)
}

// TestStreamThatGoesOn has a server that keeps its stream open after the
// response: the answer does not wait for its end.
func TestStreamThatGoesOn(t *testing.T) {
	u := newUpstream(t, false, func(w http.ResponseWriter, r *http.Request, p *post) {
		stream(w)
		say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, p.ID))
		<-r.Context().Done()
	})
	if _, err := open(t, u.URL, nil).Call(t.Context(), "tool", nil, nobody()); err != nil {
		t.Fatal(err)
	}
}

// TestRequestsOfTheServer are answered or refused, and do not disturb.
func TestRequestsOfTheServer(t *testing.T) {
	u := newUpstream(t, false, func(w http.ResponseWriter, _ *http.Request, p *post) {
		if p.Method != "tools/call" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		stream(w)
		say(w, `{"jsonrpc":"2.0","id":"p 1","method":"ping"}`)
		say(w, `{"jsonrpc":"2.0","id":77,"method":"elicitation/create","params":{"message":"your password?"}}`)
		say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, p.ID))
	})
	if _, err := open(t, u.URL, nil).Call(t.Context(), "tool", nil, nobody()); err != nil {
		t.Fatal(err)
	}
	answers := u.received("")
	if len(answers) != 2 || string(answers[0].ID) != `"p 1"` || string(answers[0].Result) != `{}` ||
		string(answers[1].ID) != "77" || !strings.Contains(string(answers[1].Error), "-32601") {
		t.Errorf("the server received %+v", answers)
	}
}

// TestResumedStream has a server that closes its stream early and gives the
// rest to whoever asks for it.
func TestResumedStream(t *testing.T) {
	var id atomic.Value
	var resumed atomic.Int64
	u := newUpstream(t, false, func(w http.ResponseWriter, r *http.Request, p *post) {
		stream(w)
		if r.Method == http.MethodPost {
			id.Store(string(p.ID))
			fmt.Fprint(w, "id: e1\nretry: 1\ndata: \n\n")
			return
		}
		if got := r.Header.Get("Last-Event-ID"); got != fmt.Sprintf("e%d", resumed.Add(1)) {
			t.Errorf("resumed after %q", got)
		}
		fmt.Fprintf(w, "id: e%d\nretry: 1\n", resumed.Load()+1)
		if resumed.Load() < 3 {
			say(w, "")
			return
		}
		say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id.Load()))
	})
	if _, err := open(t, u.URL, nil).Call(t.Context(), "tool", nil, nobody()); err != nil {
		t.Fatal(err)
	}
	if n := len(u.received("tools/call")); n != 1 {
		t.Errorf("the call was sent %d times", n)
	}
}

func TestBrokenLists(t *testing.T) {
	for _, test := range []struct{ name, result, code string }{
		{"null", `null`, sources.FaultProtocol},
		{"no tools", `{}`, sources.FaultProtocol},
		{"null tools", `{"tools":null}`, sources.FaultProtocol},
		{"tools in another case", `{"Tools":[]}`, sources.FaultProtocol},
		{"tools that are no list", `{"tools":{}}`, sources.FaultProtocol},
		{"a cursor that is a number", `{"tools":[],"nextCursor":7}`, sources.FaultProtocol},
		{"the same cursor again", `{"tools":[],"nextCursor":"more"}`, sources.FaultProtocol},
		{"too much", `{"tools":["` + strings.Repeat("x", 40<<10) + `"]}`, sources.FaultTooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			u := newUpstream(t, false, func(w http.ResponseWriter, _ *http.Request, p *post) { respond(w, p, test.result) })
			l, err := open(t, u.URL, func(c *connector.Config) { c.MaxAnswer = 32 << 10 }).List(t.Context())
			wantFault(t, err, action.ErrUnavailable, test.code)
			if l.Tools != nil {
				t.Errorf("got %d tools beside the error", len(l.Tools))
			}
			if n := len(u.received("tools/list")); n > 2 {
				t.Errorf("asked for %d pages", n)
			}
		})
	}
}

func TestEndlessLists(t *testing.T) {
	page := func(tools string) *upstream {
		return newUpstream(t, true, func(w http.ResponseWriter, _ *http.Request, p *post) {
			respond(w, p, fmt.Sprintf(`{"tools":[%s],"nextCursor":"after %s"}`, tools, p.ID))
		})
	}
	_, err := open(t, page("").URL, nil).List(t.Context())
	wantFault(t, err, action.ErrUnavailable, sources.FaultProtocol)

	large := page(`"` + strings.Repeat("x", 100<<10) + `"`)
	_, err = open(t, large.URL, func(c *connector.Config) { c.MaxListing = 1 << 20 }).List(t.Context())
	wantFault(t, err, action.ErrUnavailable, sources.FaultTooLarge)

	many := page(strings.TrimSuffix(strings.Repeat(`{"name":"x"},`, 667), ","))
	l, err := open(t, many.URL, nil).List(t.Context())
	if err != nil || len(l.Tools) != 2000 || len(l.Warnings) != 1 {
		t.Errorf("got %d tools, warnings %q, %v", len(l.Tools), l.Warnings, err)
	}
	if n := len(many.received("tools/list")); n != 3 {
		t.Errorf("asked for %d pages", n)
	}
}

// TestCredentialStaysHome has redirects and settings by which a credential
// could get to a host that it was not set for.
func TestCredentialStaysHome(t *testing.T) {
	const secret = "canary-secret-value"
	var stolen atomic.Int64
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stolen.Add(1)
		for _, values := range r.Header {
			if contains(strings.Join(values, ","), secret) {
				t.Error("the thief has the credential")
			}
		}
	}))
	t.Cleanup(thief.Close)
	u := newUpstream(t, true, func(w http.ResponseWriter, r *http.Request, p *post) {
		switch {
		case r.URL.Path == "/again":
			respond(w, p, `{"content":[]}`)
		case p.Params.Name == "here":
			http.Redirect(w, r, "/again", http.StatusTemporaryRedirect)
		case p.Params.Name == "private":
			http.Redirect(w, r, "http://10.0.0.1/", http.StatusTemporaryRedirect)
		default:
			http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
		}
	})
	host := u.Listener.Addr().String()
	with := func(value, host string) *connector.Source {
		return open(t, u.URL, func(c *connector.Config) {
			c.Header = "X-Api-Key"
			c.Secret = func(context.Context) (string, string, error) { return value, host, nil }
		})
	}
	s := with(secret, host)
	for _, tool := range []string{"private", "elsewhere"} {
		_, err := s.Call(t.Context(), tool, nil, nobody())
		wantFault(t, err, action.ErrUnavailable, sources.FaultRefused)
	}
	if _, err := s.Call(t.Context(), "here", nil, nobody()); err != nil {
		t.Errorf("a redirect on the same host: %v", err)
	}
	if n := stolen.Load(); n != 0 {
		t.Errorf("the thief was asked %d times", n)
	}
	sent := len(u.received("tools/call"))
	for name, s := range map[string]*connector.Source{
		"another port": with(secret, "127.0.0.1:1"), "another host": with(secret, "example.com"), "no host": with(secret, ""),
		"a line break": with(secret+"\n", host), "nothing": with("", host), "a header of its own": with("x\r\nHost: y", host),
	} {
		_, err := s.Call(t.Context(), "here", nil, nobody())
		wantFault(t, err, action.ErrUnavailable, sources.FaultCredential)
		if contains(fmt.Sprint(err), secret) {
			t.Errorf("%s: the secret is in %v", name, err)
		}
	}
	if n := len(u.received("tools/call")); n != sent {
		t.Error("calls were sent without a credential")
	}
}

// TestSecretsStayOutOfErrors has them in the URL and a server that is away.
func TestSecretsStayOutOfErrors(t *testing.T) {
	for _, base := range []string{"http://127.0.0.1:1/mcp", "http://10.0.0.1/mcp"} {
		s := open(t, base+"?key=canary-in-url", nil)
		_, err := s.Call(t.Context(), "tool", nil, nobody())
		if err == nil || contains(err.Error(), "canary") {
			t.Errorf("got %v", err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]connector.Config{
		"no id":      {URL: "http://127.0.0.1"},
		"no URL":     {ID: "x"},
		"a file":     {ID: "x", URL: "file:///etc/passwd"},
		"a password": {ID: "x", URL: "http://u:p@example.com"},
	} {
		if _, err := connector.New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestCloseWaits has a call that runs while the source is closed.
func TestCloseWaits(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	u := newUpstream(t, false, func(w http.ResponseWriter, _ *http.Request, p *post) {
		close(arrived)
		<-release
		respond(w, p, `{"content":[]}`)
	})
	s := open(t, u.URL, nil)
	ended := make(chan error, 1)
	go func() {
		_, err := s.Call(context.Background(), "tool", json.RawMessage(`{}`), nobody())
		ended <- err
	}()
	<-arrived
	closed := make(chan struct{})
	go func() { _ = s.Close(); close(closed) }()
	select {
	case <-closed:
		t.Error("Close did not wait")
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	<-closed
	_, err := s.Call(t.Context(), "tool", nil, nobody())
	wantFault(t, err, action.ErrUnavailable, sources.FaultConfig)
}
