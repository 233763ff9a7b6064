package server

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
	"sallyport/action/gate"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
	"sallyport/internal/token"
)

// premises is a whole gateway that is served, seen from outside: by the people
// who use its API and by agents, who bring a client of MCP.
type premises struct {
	*Gateway
	t    *testing.T
	log  *tape
	said *tape // all that it ever answered
	http *http.Client
	key  string // of the person who speaks
	stop func() // ends it; again is nothing
}

// tape keeps what is written to it.
type tape struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (r *tape) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Write(p)
}

func (r *tape) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.String()
}

// overhearing keeps what is answered to requests, as it is read.
type overhearing struct{ *tape }

// RoundTrip sends a request.
func (o overhearing) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	for name, values := range response.Header {
		fmt.Fprintln(o, name, values)
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.TeeReader(response.Body, o), response.Body}
	return response, nil
}

// serveHouse serves a gateway from an empty folder, or from the rows that change names.
func serveHouse(t *testing.T, change ...func(*Options)) *premises {
	t.Helper()
	o := Options{Listen: "127.0.0.1:0", Data: t.TempDir(), LocalAdmin: true, LogLevel: "debug"}
	o.Intervals = intervals{
		Timing: gate.Timing{
			HoldEvery: 100 * time.Millisecond, SweepEvery: 100 * time.Millisecond, PollEvery: 50 * time.Millisecond,
			ClaimGrace: 20 * time.Millisecond, ClaimGraceBlind: 500 * time.Millisecond,
		},
		SealEvery: 100 * time.Millisecond,
	}
	for _, f := range change {
		f(&o)
	}
	prepareRows(t, &o)
	p := &premises{t: t, log: &tape{}, said: &tape{}}
	p.http = &http.Client{Transport: overhearing{p.said}}
	g, _, err := startGateway(t.Context(), o, &command.Streams{In: strings.NewReader(""), Out: io.Discard, Err: p.log}, (*Gateway).openInbound)
	if err != nil {
		t.Fatal(err)
	}
	p.Gateway = g
	e, err := command.ReadEndpoint(o.Data)
	if err != nil {
		t.Fatal(err)
	}
	p.key = e.APIKey
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	p.stop = sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("the gateway's log:\n%s", p.log)
		}
	})
	return p
}

// as is the gateway as another person sees it, who is new and of the role.
func (p *premises) as(name string, role action.Role) *premises {
	p.t.Helper()
	var user action.User
	p.must("POST", "/users", map[string]any{"name": name, "role": role}, &user)
	id, key, hash := token.NewAPIKey()
	row := action.APIKey{ID: id, Organization: user.Organization, Name: name, User: user.ID, Role: role, CreatedAt: p.DB.Now()}
	if err := p.DB.CreateAPIKey(p.t.Context(), row, hex.EncodeToString(hash)); err != nil {
		p.t.Fatal(err)
	}
	other := *p
	other.key = key
	return &other
}

// do asks the API.
func (p *premises) do(method, path string, body any) (status int, answer []byte) {
	p.t.Helper()
	var in io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			p.t.Fatal(err)
		}
		in = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(p.t.Context(), method, p.URL+"/api/v1"+path, in)
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+p.key)
	if in != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := p.http.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	if answer, err = io.ReadAll(response.Body); err != nil {
		p.t.Fatal(err)
	}
	return response.StatusCode, answer
}

// must asks what has to be done, and reads the answer into out.
func (p *premises) must(method, path string, body, out any) {
	p.t.Helper()
	status, answer := p.do(method, path, body)
	if status >= 300 {
		p.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(answer, out); err != nil {
		p.t.Fatalf("%s %s: %v in %s", method, path, err, answer)
	}
}

// refused asks what has to be refused so.
func (p *premises) refused(status int, code, method, path string, body any) (detail string) {
	p.t.Helper()
	got, answer := p.do(method, path, body)
	var why api.Problem
	if err := json.Unmarshal(answer, &why); err != nil || got != status || why.Code != code {
		p.t.Errorf("%s %s: %d %s, want %d %s", method, path, got, answer, status, code)
	}
	return why.Detail
}

// connectTo connects a service with a credential.
func (p *premises) connectTo(at *service, provider string, more map[string]any) api.IntegrationView {
	p.t.Helper()
	body := map[string]any{"provider": provider, "base_url": at.URL}
	for name, value := range more {
		body[name] = value
	}
	var made api.IntegrationView
	p.must("POST", "/integrations", body, &made)
	return made
}

// integration is one as the person sees it now.
func (p *premises) integration(id string) api.IntegrationView {
	p.t.Helper()
	var in api.IntegrationView
	p.must("GET", "/integrations/"+id, nil, &in)
	return in
}

// tenant is a client of MCP with a session that is bound so.
type visitor struct {
	t *testing.T
	*mcp.ClientSession
	session testSession
}

func (p *premises) agent(connections ...string) *visitor {
	p.t.Helper()
	body := map[string]any{}
	if connections != nil {
		body["connections"] = connections
	}
	return p.attend(p.newSession(body))
}

// attend connects as the agent of a session.
func (p *premises) attend(s testSession) *visitor {
	p.t.Helper()
	transport := &mcp.StreamableClientTransport{
		Endpoint: p.URL + "/mcp", DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: carrying{s.Token, overhearing{p.said}}},
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(p.t.Context(), transport, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = session.Close() })
	return &visitor{p.t, session, s}
}

// carrying adds a token to requests.
type carrying struct {
	token string
	next  http.RoundTripper
}

// RoundTrip sends a request.
func (c carrying) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+c.token)
	return c.next.RoundTrip(r)
}

// tools are those of the service that the agent is offered.
func (a *visitor) tools(provider string) (names []string) {
	a.t.Helper()
	for t, err := range a.Tools(a.t.Context(), nil) {
		if err != nil {
			a.t.Fatal(err)
		}
		if strings.HasPrefix(t.Name, provider+"_") {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	return names
}

// spokenTo is what an agent was answered.
type spokenTo struct {
	text    string
	isError bool
	err     error
}

// call begins a call.
func (a *visitor) call(tool, args string) <-chan spokenTo {
	done := make(chan spokenTo, 1)
	go func() {
		out, err := a.CallTool(a.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
		got := spokenTo{err: err}
		if err == nil {
			for _, c := range out.Content {
				if t, ok := c.(*mcp.TextContent); ok {
					got.text += t.Text
				}
			}
			got.isError = out.IsError
		}
		done <- got
	}()
	return done
}

// answered waits for an answer that holds all of the texts.
func (a *visitor) answered(done <-chan spokenTo, isError bool, texts ...string) string {
	a.t.Helper()
	select {
	case got := <-done:
		if got.err != nil || got.isError != isError {
			a.t.Fatalf("the agent was answered %q (error: %v, %v)", got.text, got.isError, got.err)
		}
		for _, text := range texts {
			if !strings.Contains(got.text, text) {
				a.t.Errorf("the agent was answered %q, want %q in it", got.text, text)
			}
		}
		return got.text
	case <-time.After(waitAtMost):
		a.t.Fatal("the agent was never answered")
		return ""
	}
}

// held waits for a call that waits for a person.
func (p *premises) held() action.Invocation {
	p.t.Helper()
	var list api.List[action.Invocation]
	p.eventually("a held call", func() bool {
		p.must("GET", "/invocations?status=pending", nil, &list)
		return len(list.Items) > 0
	})
	return list.Items[0]
}

// ended is the newest call in the session of that name.
func (p *premises) ended(session, act string) action.Invocation {
	p.t.Helper()
	var page api.List[action.Invocation]
	p.must("GET", "/invocations?limit=100&session="+url.QueryEscape(session), nil, &page)
	for _, inv := range page.Items {
		if inv.Action == act && inv.Session == session {
			return inv
		}
	}
	p.t.Fatalf("there is no call of %s", act)
	return action.Invocation{}
}

func (p *premises) approve(id string) {
	p.t.Helper()
	p.must("POST", "/invocations/"+id+"/approve", map[string]any{}, nil)
}

func (p *premises) eventually(what string, f func() bool) {
	p.t.Helper()
	if !comes(f) {
		p.t.Fatalf("never came: %s", what)
	}
}

// service answers like one, and keeps what it was asked.
type service struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []asked
	answer func(w http.ResponseWriter, r *asked)
}

// asked is one request.
type asked struct {
	Method, Path, Query string
	Header              http.Header
	Body                string
	context             context.Context
}

func newService(t *testing.T, answer func(w http.ResponseWriter, r *asked)) *service {
	t.Helper()
	s := &service{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a := asked{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header, string(body), r.Context()}
		s.mu.Lock()
		s.asked = append(s.asked, a)
		answer := s.answer
		s.mu.Unlock()
		answer(w, &a)
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

// answers has the service answer so from now on, and forget what it was asked.
func (s *service) answers(answer func(w http.ResponseWriter, r *asked)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.asked = answer, nil
}

// requests are those whose body, path or query holds the text.
func (s *service) requests(text string) (found []asked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asked {
		if strings.Contains(a.Path+"?"+a.Query+"\n"+a.Body, text) {
			found = append(found, a)
		}
	}
	return found
}

// reply answers with JSON.
func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// testSession is a created session, as the API and the command print it.
type testSession struct {
	ID    string `json:"session_id"`
	Token string `json:"token"`
	MCP   string `json:"mcp_url"`
}
