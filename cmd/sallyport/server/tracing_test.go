package server

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"sallyport/action"
	"sallyport/action/gate"
	"sallyport/cmd/sallyport/demo/notebook"
	"sallyport/ingest/event"
)

// collector takes spans as one of OpenTelemetry's does, and keeps the bytes.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	raw   bytes.Buffer
	spans []*otlp.Span
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var got otlp.TracesData // has the fields of ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &got) != nil {
			t.Errorf("the collector got %s %s %q: %v", r.Method, r.URL.Path, body, err)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw.Write(body)
		for name, values := range r.Header {
			c.raw.WriteString(name + strings.Join(values, ","))
		}
		for _, resource := range got.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(func() { c.CloseClientConnections(); c.Close() })
	return c
}

// traced has gateways that start from now on send their spans here.
func (c *collector) traced(t *testing.T) {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
}

// drawn is what there is of a span.
type drawn struct {
	*otlp.Span
	facts map[string]string
}

// said is everything that was sent.
func (c *collector) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.raw.String()
}

// in are the spans of a trace that have come, by name.
func (c *collector) in(traceID string) map[string]drawn {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string]drawn{}
	for _, s := range c.spans {
		if hex.EncodeToString(s.TraceId) != traceID {
			continue
		}
		facts := map[string]string{}
		for _, a := range s.Attributes {
			facts[strings.TrimPrefix(a.Key, "sallyport.")] = a.Value.GetStringValue()
		}
		found[strings.TrimPrefix(s.Name, "sallyport.")] = drawn{s, facts}
	}
	return found
}

// of is the trace of the span of that name and invocation; empty: it did not come.
func (c *collector) of(name, invocation string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		for _, a := range s.Attributes {
			if s.Name == name && a.Key == "sallyport.invocation" && a.Value.GetStringValue() == invocation {
				return hex.EncodeToString(s.TraceId)
			}
		}
	}
	return ""
}

// shows waits for all of the spans of a trace.
func (c *collector) shows(p *premises, traceID string, names ...string) map[string]drawn {
	p.t.Helper()
	var got map[string]drawn
	p.eventually("the spans "+strings.Join(names, ", ")+" of "+traceID, func() bool {
		got = c.in(traceID)
		return !slices.ContainsFunc(names, func(name string) bool { _, ok := got[name]; return !ok })
	})
	if len(got) != len(names) {
		p.t.Errorf("the trace has %d spans, want %q: %v", len(got), names, got)
	}
	return got
}

// within wants a span to be part of another.
func within(t *testing.T, spans map[string]drawn, inner, outer string) {
	t.Helper()
	if got, want := spans[inner].ParentSpanId, spans[outer].SpanId; !bytes.Equal(got, want) {
		t.Errorf("%s is within %x, want %s (%x)", inner, got, outer, want)
	}
}

// says wants facts of a span.
func (s drawn) says(t *testing.T, want map[string]string) {
	t.Helper()
	for key, value := range want {
		if s.facts[key] != value {
			t.Errorf("%s says %s %q, want %q (%v)", s.Name, key, s.facts[key], value, s.facts)
		}
	}
}

// notebookUpstream is a notebook, and what it was told of traces.
type notebookUpstream struct {
	*httptest.Server
	mu     sync.Mutex
	parent []string // of calls, from the headers
	meta   []string // likewise, from _meta
	other  []string // what else of traces was in a header or body
}

func newNotebookUpstream(t *testing.T, note string) *notebookUpstream {
	t.Helper()
	u, next := &notebookUpstream{}, notebook.New(note).Handler()
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		u.hear(r.Header, body)
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { u.CloseClientConnections(); u.Close() })
	return u
}

func (u *notebookUpstream) hear(h http.Header, body []byte) {
	var m struct {
		Method string
		Params struct {
			Meta struct{ Traceparent string } `json:"_meta"`
		}
	}
	_ = json.Unmarshal(body, &m)
	u.mu.Lock()
	defer u.mu.Unlock()
	if m.Method == "tools/call" {
		u.parent = append(u.parent, h.Get("Traceparent"))
		u.meta = append(u.meta, m.Params.Meta.Traceparent)
	}
	for _, word := range []string{"tracestate", "baggage", "canary-state", "canary-bag"} {
		if h.Get(word) != "" || bytes.Contains(body, []byte(word)) {
			u.other = append(u.other, word)
		}
	}
}

// last is what the last call was told, in the header and in _meta.
func (u *notebookUpstream) last() (header, meta string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.parent) == 0 {
		return "", ""
	}
	return u.parent[len(u.parent)-1], u.meta[len(u.meta)-1]
}

// following is an agent's client that is part of a trace.
type following struct {
	*premises
	visitor *visitor
	parent  *string // of the next requests
}

type namingTrace struct {
	parent *string
	next   http.RoundTripper
}

func (n namingTrace) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if *n.parent != "" {
		r.Header.Set("Traceparent", *n.parent)
		r.Header.Set("Tracestate", "vendor=canary-state")
		r.Header.Set("Baggage", "who=canary-bag")
	}
	return n.next.RoundTrip(r)
}

// follower connects an agent whose requests name a trace.
func (p *premises) follower(connections ...string) *following {
	p.t.Helper()
	f := &following{premises: p, parent: new(string), visitor: &visitor{t: p.t}}
	p.must("POST", "/sessions", map[string]any{"connections": connections}, &f.visitor.session)
	transport := &mcp.StreamableClientTransport{
		Endpoint: p.URL + "/mcp", DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: namingTrace{f.parent, carrying{f.visitor.session.Token, overhearing{p.said}}}},
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(p.t.Context(), transport, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = session.Close() })
	f.visitor.ClientSession = session
	return f
}

const (
	traceA, traceB, traceC, traceD = "0af7651916cd43dd8448eb211c80319c", "1af7651916cd43dd8448eb211c80319c", "2af7651916cd43dd8448eb211c80319c", "3af7651916cd43dd8448eb211c80319c"
	clientSpan                     = "b7ad6b7169203331"
)

var traceparentForm = regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-01$`)

// leads wants a traceparent that leads to a span.
func leads(t *testing.T, parent, traceID string, to drawn) {
	t.Helper()
	m := traceparentForm.FindStringSubmatch(parent)
	if m == nil || m[1] != traceID || m[2] != hex.EncodeToString(to.SpanId) {
		t.Errorf("the upstream is told %q, want the span %x of the trace %s", parent, to.SpanId, traceID)
	}
}

// A trace leads from an agent through the gate to a connector and a service, also
// where a person decides in between, and has nothing of what was said in it.
func TestTracesFromAgentToUpstream(t *testing.T) {
	spans := newCollector(t)
	spans.traced(t)
	upstream, linear := newNotebookUpstream(t, "canary-result"), newService(t, likeLinear(linearKey))
	p := serveHouse(t)
	p.must("POST", "/connectors", map[string]any{
		"name": "notebook", "slug": "notebook", "url": upstream.URL, "review": "trust", "header": "X-Key", "secret_value": "canary-secret",
	}, nil)
	p.connectTo(linear, "linear", map[string]any{"kind": "api_key", "secret": linearKey})
	f := p.follower("linear")
	a := f.visitor

	// A read: its parent is the client's span, and the execution is the upstream's.
	*f.parent = "00-" + traceA + "-" + clientSpan + "-01"
	a.answered(a.call("notebook_list", `{}`), false, "canary-result")
	got := spans.shows(p, traceA, "call", "decide", "execute")
	if hex.EncodeToString(got["call"].ParentSpanId) != clientSpan || got["call"].Kind != otlp.Span_SPAN_KIND_SERVER || got["execute"].Kind != otlp.Span_SPAN_KIND_CLIENT {
		t.Errorf("the call is %v, the execution %v", got["call"], got["execute"])
	}
	within(t, got, "decide", "call")
	within(t, got, "execute", "call")
	row := p.ended(a.session.ID, "list")
	got["call"].says(t, map[string]string{
		"organization": org, "session": a.session.ID, "invocation": row.ID, "source": row.Source, "action": "list",
		"mode": "allow", "mode_source": string(row.ModeSource), "status": "completed",
	})
	got["decide"].says(t, map[string]string{"source": row.Source, "action": "list", "mode": "allow"})
	got["execute"].says(t, map[string]string{"invocation": row.ID, "status": "completed"})
	header, meta := upstream.last()
	leads(t, header, traceA, got["execute"])
	leads(t, meta, traceA, got["execute"])

	// A write that a person approves runs within the span of who waits for it. What
	// stands in _meta goes before the header, as MCP has it.
	*f.parent = "00-" + traceA + "-" + clientSpan + "-01"
	done := make(chan error, 1)
	go func() {
		out, err := a.CallTool(t.Context(), &mcp.CallToolParams{
			Meta: mcp.Meta{"traceparent": "00-" + traceB + "-" + clientSpan + "-01", "tracestate": "vendor=canary-state", "baggage": "who=canary-bag"},
			Name: "notebook_add", Arguments: json.RawMessage(`{"text":"canary-param"}`),
		})
		if err == nil && out.IsError {
			err = errors.New(out.Content[0].(*mcp.TextContent).Text)
		}
		done <- err
	}()
	held := p.held()
	p.approve(held.ID)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	got = spans.shows(p, traceB, "call", "decide", "hold", "resume", "recheck", "execute")
	for inner, outer := range map[string]string{"decide": "call", "hold": "call", "resume": "call", "recheck": "resume", "execute": "resume"} {
		within(t, got, inner, outer)
	}
	for _, name := range []string{"call", "hold", "resume", "recheck", "execute"} {
		got[name].says(t, map[string]string{"invocation": held.ID, "mode": "require_approval"})
	}
	got["resume"].says(t, map[string]string{"status": "completed"})
	if hold, run := got["hold"], got["execute"]; hold.EndTimeUnixNano <= hold.StartTimeUnixNano || run.StartTimeUnixNano < hold.StartTimeUnixNano {
		t.Errorf("the hold is %v, the execution %v", hold, run)
	}
	header, meta = upstream.last()
	leads(t, header, traceB, got["execute"])
	leads(t, meta, traceB, got["execute"])

	// A module's requests carry it, too.
	*f.parent = "00-" + traceC + "-" + clientSpan + "-01"
	a.answered(a.call("linear_list_issues", `{"teamId":"ENG"}`), false, `"identifier":"ENG-7"`)
	got = spans.shows(p, traceC, "call", "decide", "execute")
	asked := linear.requests("ListIssues")
	leads(t, asked[len(asked)-1].Header.Get("Traceparent"), traceC, got["execute"])

	// What is refused is told by the gateway's word for it; what is no traceparent is
	// passed over.
	*f.parent = "00-" + traceD + "-" + clientSpan + "-01"
	a.answered(a.call("notebook_add", `{"canary-param":1}`), true)
	got = spans.shows(p, traceD, "call")
	if got["call"].facts["code"] != "invalid_params" || got["call"].Status.GetCode() != otlp.Status_STATUS_CODE_ERROR {
		t.Errorf("the refused call says %v", got["call"])
	}
	for _, bad := range []string{"canary-header", "00-" + strings.Repeat("0", 32) + "-" + clientSpan + "-01", "00-" + traceD + "-" + clientSpan} {
		*f.parent = bad
		a.answered(a.call("notebook_list", `{}`), false, "canary-result")
		if header, _ := upstream.last(); !traceparentForm.MatchString(header) || strings.Contains(header, traceD) {
			t.Errorf("after %q the upstream is told %q", bad, header)
		}
	}

	// The last spans go out when the process ends, and nothing that was said is in
	// any of them.
	p.stop()
	said := spans.said()
	for _, canary := range []string{"canary", linearKey, a.session.Token, p.key, "Login fails", "Buy milk"} {
		if strings.Contains(said, canary) {
			t.Errorf("the collector was told %q", canary)
		}
	}
	if !strings.Contains(said, held.ID) {
		t.Error("the collector was told nothing; the test is of no use")
	}
	if len(upstream.other) > 0 {
		t.Errorf("the upstream was told %q of traces", upstream.other)
	}
}

// A call whose caller was told to come back runs in his trace all the same, and who
// comes back for it is in his own.
func TestTraceOfCallThatIsComeBackFor(t *testing.T) {
	spans := newCollector(t)
	spans.traced(t)
	h := newHouse(t, func(c *gate.Config) {
		tracer, err := newTracing(t.Context(), "here", c.Log)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(tracer.close)
		c.Tracer = tracer.callTracer()
	})
	p := &premises{t: t}
	e := &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	c := h.call("write", `{"text":"canary"}`)
	c.Patience = 0
	out, err := h.gate.Call(withRemoteParent(t.Context(), "00-"+traceA+"-"+clientSpan+"-01"), &c)
	if err != nil || out.Invocation.Status != action.StatusPending {
		t.Fatalf("%+v, %v", out.Invocation, err)
	}
	back := make(chan error, 1)
	go func() {
		_, err := h.gate.Wait(withRemoteParent(context.Background(), "00-"+traceB+"-"+clientSpan+"-01"), &h.session, out.Invocation.ID, action.Waiting{Patience: action.Forever})
		back <- err
	}()
	p.eventually("somebody waits", func() bool { return h.gate.Callers(out.Invocation.ID) > 0 })
	if _, err := h.gate.Approve(t.Context(), action.Verdict{Organization: org, ID: out.Invocation.ID, By: "ada"}); err != nil {
		t.Fatal(err)
	}
	if err := <-back; err != nil {
		t.Fatal(err)
	}
	first := spans.shows(p, traceA, "call", "decide", "resume", "recheck", "execute")
	within(t, first, "resume", "call")
	within(t, first, "execute", "resume")
	first["call"].says(t, map[string]string{"status": "pending"})
	second := spans.shows(p, traceB, "wait", "hold")
	within(t, second, "hold", "wait")
	second["wait"].says(t, map[string]string{"status": "completed", "invocation": out.Invocation.ID})

	// A process that knows nothing of the caller runs it in a trace of its own, which
	// the invocation's id leads to.
	c.Params = json.RawMessage(`{"text":"another"}`)
	if out, err = h.gate.Call(withRemoteParent(t.Context(), "00-"+traceC+"-"+clientSpan+"-01"), &c); err != nil {
		t.Fatal(err)
	}
	h.restart()
	if _, err := h.gate.Approve(t.Context(), action.Verdict{Organization: org, ID: out.Invocation.ID, By: "ada"}); err != nil {
		t.Fatal(err)
	}
	own := ""
	p.eventually("the call resumes", func() bool {
		own = spans.of("sallyport.resume", out.Invocation.ID)
		return own != ""
	})
	third := spans.shows(p, own, "resume", "recheck", "execute")
	if len(third["resume"].ParentSpanId) != 0 || own == traceC {
		t.Errorf("it resumes in the trace %s within %x", own, third["resume"].ParentSpanId)
	}
	within(t, third, "execute", "resume")
	spans.shows(p, traceC, "call", "decide")
}

// Without a collector nothing of traces is read, made or sent on.
func TestNoTracesUnlessAskedFor(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "does-not-turn-it-on")
	upstream, linear := newNotebookUpstream(t, "a note"), newService(t, likeLinear(linearKey))
	p := serveHouse(t)
	if p.tracing != nil || p.gate.Tracer != nil {
		t.Fatal("calls are traced")
	}
	p.must("POST", "/connectors", map[string]any{"name": "notebook", "slug": "notebook", "url": upstream.URL, "review": "trust"}, nil)
	p.connectTo(linear, "linear", map[string]any{"kind": "api_key", "secret": linearKey})
	f := p.follower("linear")
	*f.parent = "00-" + traceA + "-" + clientSpan + "-01"
	f.visitor.answered(f.visitor.call("notebook_list", `{}`), false, "a note")
	f.visitor.answered(f.visitor.call("linear_list_issues", `{"teamId":"ENG"}`), false, "ENG-7")
	if header, meta := upstream.last(); header != "" || meta != "" || len(upstream.parent) != 1 {
		t.Errorf("the connector is told %q and %q", header, meta)
	}
	for _, r := range linear.requests("") {
		if got := r.Header.Get("Traceparent"); got != "" {
			t.Errorf("the service is told %q", got)
		}
	}
}

// A collector that is away holds up no call, and ends are told in time.
func TestCollectorThatIsAway(t *testing.T) {
	silent := newService(t, func(_ http.ResponseWriter, r *asked) { <-r.context.Done() })
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", silent.URL)
	var log tape
	tracer, err := newTracing(t.Context(), "here", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	h := newHouse(t, func(c *gate.Config) { c.Tracer = tracer.callTracer() })
	e := &effects{}
	h.catalog.put(tool("read", action.RiskRead, e.run))
	const calls = 3000 // more than wait for a collector
	for range calls {
		if out, err := h.gate.Call(t.Context(), new(h.call("read", `{}`))); err != nil || out.Invocation.Status != action.StatusCompleted {
			t.Fatalf("%+v, %v", out.Invocation, err)
		}
	}
	ended := make(chan struct{})
	go func() { tracer.close(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(waitAtMost):
		t.Fatal("the end waits for the collector")
	}
	if e.n.Load() != calls {
		t.Errorf("%d effects", e.n.Load())
	}
	if got := log.String(); !strings.Contains(got, "level=WARN") {
		t.Errorf("the log says nothing of it: %s", got)
	}
}

// Deliveries that are taken in and runs that begin are drawn, without what was
// delivered; what strangers send is not.
func TestTracesOfInboundWork(t *testing.T) {
	spans := newCollector(t)
	spans.traced(t)
	p := serveHouse(t)
	_, trigger := p.triage(t)
	body := opened(7, "canary-title")
	if status := p.tells(trigger.URL, "not the secret", "forged", body); status < 400 {
		t.Fatalf("a forged delivery is answered %d", status)
	}
	if status := p.tells(trigger.URL, trigger.Secret, "one", body); status != http.StatusOK {
		t.Fatalf("the delivery is answered %d", status)
	}
	run := p.run(event.RunQueued)
	p.stop()
	spans.mu.Lock()
	defer spans.mu.Unlock()
	var names []string
	for _, s := range spans.spans {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"sallyport.run", "sallyport.webhook"}) {
		t.Errorf("the spans are %q", names)
	}
	for _, want := range []string{run.ID, "/webhooks/direct/{provider}/{trigger}"} {
		if !strings.Contains(spans.raw.String(), want) {
			t.Errorf("no span says %q", want)
		}
	}
	for _, canary := range []string{"canary", trigger.Secret, gitHubToken} {
		if strings.Contains(spans.raw.String(), canary) {
			t.Errorf("the collector was told %q", canary)
		}
	}
}
