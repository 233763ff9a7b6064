package server

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"sallyport/cmd/sallyport/command"
)

// What the variables must not say is refused at the start, by name and without what
// may be secret.
func TestTracingRefusesWhatCannotWork(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	good := "http://127.0.0.1:4318"
	for _, c := range []struct {
		name string
		env  map[string]string
		want string // in the error
	}{
		{"no URL", map[string]string{endpoint: "127.0.0.1:4318"}, endpoint},
		{"no host", map[string]string{endpoint: "http://"}, endpoint},
		{"another scheme", map[string]string{endpoint: "grpc://collector:4317"}, endpoint},
		{"not to be read", map[string]string{endpoint: "http://canary\x7f:1"}, endpoint},
		{"a password", map[string]string{endpoint: "https://me:canary@collector"}, "OTEL_EXPORTER_OTLP_HEADERS"},
		{"of traces", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "collector", endpoint: good}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
		{"exporter", map[string]string{endpoint: good, "OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER"},
		{"protocol", map[string]string{endpoint: good, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{"headers", map[string]string{endpoint: good, "OTEL_EXPORTER_OTLP_HEADERS": "Bearer canary"}, "OTEL_EXPORTER_OTLP_HEADERS"},
		{"headers of traces", map[string]string{endpoint: good, "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "a=b,key:canary=1"}, "OTEL_EXPORTER_OTLP_TRACES_HEADERS"},
		{"certificate", map[string]string{endpoint: good, "OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere/ca.pem"}, "OTEL_EXPORTER_OTLP_CERTIFICATE"},
		{"timeout", map[string]string{endpoint: good, "OTEL_EXPORTER_OTLP_TIMEOUT": "10s"}, "OTEL_EXPORTER_OTLP_TIMEOUT"},
		{"sampler", map[string]string{endpoint: good, "OTEL_TRACES_SAMPLER": "sometimes"}, "OTEL_TRACES_SAMPLER"},
		{"share", map[string]string{endpoint: good, "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "NaN"}, "OTEL_TRACES_SAMPLER_ARG"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := envOf(c.env).Traces()
			if err == nil {
				t.Fatal("it is taken")
			}
			if !strings.Contains(err.Error(), c.want+" ") && !strings.HasSuffix(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("it says %q", err)
			}
		})
	}
	for name, env := range map[string]map[string]string{
		"nothing":  {"OTEL_TRACES_SAMPLER": "sometimes", "OTEL_SERVICE_NAME": "gate"},
		"blank":    {endpoint: " "},
		"disabled": {endpoint: good, "OTEL_SDK_DISABLED": "TRUE"},
		"none":     {endpoint: "nonsense", "OTEL_TRACES_EXPORTER": "none"},
	} {
		if on, err := envOf(env).Traces(); on || err != nil {
			t.Errorf("%s: %v, %v", name, on, err)
		}
	}
	for name, env := range map[string]map[string]string{
		"plain":      {endpoint: good},
		"of traces":  {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://collector.example/otlp"},
		"everything": {endpoint: good, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20x, x-team=gate", "OTEL_EXPORTER_OTLP_TIMEOUT": "5000", "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"},
	} {
		if on, err := envOf(env).Traces(); !on || err != nil {
			t.Errorf("%s: %v, %v", name, on, err)
		}
	}
	// A gateway says it at its start.
	t.Setenv(endpoint, "collector:4318")
	o := Options{Data: t.TempDir(), Listen: "127.0.0.1:0"}
	if g, err := Open(t.Context(), o, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), endpoint) {
		t.Errorf("the gateway opens: %v, %v", g, err)
	}
	t.Setenv(endpoint, "")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", good)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "canary")
	if _, err := newTracing(t.Context(), "here", slog.New(slog.DiscardHandler)); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("attributes that are none: %v", err)
	}
}

func envOf(values map[string]string) Environment {
	return func(name string) string { return values[name] }
}

// spansToSend is a batch with a link, which has IDs of its own.
func spansToSend() []*otlp.ResourceSpans {
	id := func(n byte, size int) []byte { return append(make([]byte, size-2), n, 0xfb) }
	return []*otlp.ResourceSpans{{ScopeSpans: []*otlp.ScopeSpans{{Spans: []*otlp.Span{{
		TraceId: id(1, 16), SpanId: id(2, 8), ParentSpanId: id(3, 8), Name: "sallyport.call", Kind: otlp.Span_SPAN_KIND_SERVER, EndTimeUnixNano: 1 << 60,
		Attributes: []*common.KeyValue{{Key: "sallyport.repeated", Value: &common.AnyValue{Value: &common.AnyValue_BoolValue{}}}},
		Links:      []*otlp.Span_Link{{TraceId: id(4, 16), SpanId: id(5, 8)}},
	}}}}}}
}

// The same batch in OTLP's JSON: hexadecimal IDs, numbers for enums, strings for 64 bits.
const spansInJSON = `{"resourceSpans":[{"scopeSpans":[{"spans":[{
	"traceId":"000000000000000000000000000001FB","spanId":"00000000000002FB","parentSpanId":"00000000000003FB",
	"name":"sallyport.call","kind":2,"endTimeUnixNano":"1152921504606846976",
	"attributes":[{"key":"sallyport.repeated","value":{"boolValue":false}}],
	"links":[{"traceId":"000000000000000000000000000004FB","spanId":"00000000000005FB"}]}]}]}]}`

// posted is a request that a collector got.
type posted struct {
	method, path string
	header       http.Header
	body         []byte // not compressed
	at           time.Time
}

// answers is a collector that keeps requests, and answers them in turn, the last
// answer for ever.
type answers struct {
	t    *testing.T
	got  []posted
	with []http.HandlerFunc
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			a.t.Errorf("the body is not gzip: %v", err)
			return
		}
		body = unzipped
	}
	all, err := io.ReadAll(body)
	if err != nil {
		a.t.Errorf("the body: %v", err)
	}
	a.got = append(a.got, posted{r.Method, r.URL.Path, r.Header, all, time.Now()})
	if len(a.with) > 0 {
		a.with[min(len(a.got), len(a.with))-1](w, r)
	}
}

// RoundTrip implements http.RoundTripper, for synctest, which has no network.
func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

func statusOnly(status int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
	}
}

func respond(status int, form, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", form)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func otlpClientOf(t *testing.T, env map[string]string) *otlpClient {
	t.Helper()
	if on, err := envOf(env).Traces(); !on || err != nil {
		t.Fatalf("the environment is refused: %v", err)
	}
	c, err := envOf(env).otlpClient()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOTLPRequests(t *testing.T) {
	t.Parallel()
	const all, traces = "OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"
	for _, c := range []struct {
		name       string
		path, base string // of the URL for traces and of the base URL; - is absent
		env        map[string]string
		want       string // path
		header     map[string]string
	}{
		{name: "plain", path: "-", want: "/v1/traces", header: map[string]string{"Content-Type": "application/x-protobuf", "User-Agent": "sallyport/" + command.Version(), "Content-Encoding": "", "Authorization": ""}},
		{name: "base URL with a path", path: "-", base: "/otlp/", want: "/otlp/v1/traces"},
		{name: "URL for traces", path: "/in/", base: "/otlp", want: "/in/"},
		{name: "URL for traces without a path", path: "", base: "/otlp", want: "/"},
		{name: "gzip", path: "-", env: map[string]string{all + "COMPRESSION": "gzip"}, want: "/v1/traces", header: map[string]string{"Content-Encoding": "gzip"}},
		{name: "gzip of traces", path: "-", env: map[string]string{all + "COMPRESSION": "gzip", traces + "COMPRESSION": "none"}, want: "/v1/traces", header: map[string]string{"Content-Encoding": ""}},
		{name: "JSON", path: "-", env: map[string]string{all + "PROTOCOL": "http/json"}, want: "/v1/traces", header: map[string]string{"Content-Type": "application/json"}},
		{name: "JSON and gzip", path: "-", env: map[string]string{traces + "PROTOCOL": "http/json", all + "COMPRESSION": "gzip"}, want: "/v1/traces", header: map[string]string{"Content-Type": "application/json", "Content-Encoding": "gzip"}},
		{
			name: "headers", path: "-", env: map[string]string{all + "HEADERS": "authorization=Bearer%20x%2Cy , x-team = gate,content-type=text/plain,user-agent=mine"}, want: "/v1/traces",
			header: map[string]string{"Authorization": "Bearer x,y", "X-Team": "gate", "Content-Type": "application/x-protobuf", "User-Agent": "mine"},
		},
		{name: "headers of traces", path: "-", env: map[string]string{all + "HEADERS": "a=b,c=d", traces + "HEADERS": "a=e"}, want: "/v1/traces", header: map[string]string{"A": "e", "C": ""}},
		{name: "scheme", path: "-", env: map[string]string{all + "INSECURE": "true"}, want: "/v1/traces"},
	} {
		t.Run(c.name, func(t *testing.T) {
			collector := &answers{t: t}
			server := httptest.NewServer(collector)
			defer server.Close()
			env := map[string]string{all + "ENDPOINT": server.URL + c.base}
			if c.path != "-" {
				env[traces+"ENDPOINT"] = server.URL + c.path
			}
			if c.env[all+"INSECURE"] == "true" {
				env[all+"ENDPOINT"] = strings.Replace(server.URL, "http:", "https:", 1)
			}
			for name, value := range c.env {
				env[name] = value
			}
			client := otlpClientOf(t, env)
			if err := client.UploadTraces(t.Context(), spansToSend()); err != nil {
				t.Fatal(err)
			}
			if len(collector.got) != 1 {
				t.Fatalf("%d requests", len(collector.got))
			}
			got := collector.got[0]
			if got.method != http.MethodPost || got.path != c.want {
				t.Errorf("it is sent by %s to %s, want %s", got.method, got.path, c.want)
			}
			for name, want := range c.header {
				if value := got.header.Get(name); value != want {
					t.Errorf("%s is %q, want %q", name, value, want)
				}
			}
			checkBody(t, got)
		})
	}
}

// checkBody wants a request to hold the spans to send, in the form that it names.
func checkBody(t *testing.T, got posted) {
	t.Helper()
	if got.header.Get("Content-Type") == "application/json" {
		var is, want any
		if err := json.Unmarshal(got.body, &is); err != nil {
			t.Fatal(err)
		}
		_ = json.Unmarshal([]byte(spansInJSON), &want)
		if diff := cmp.Diff(want, is); diff != "" {
			t.Error(diff)
		}
		return
	}
	var is otlp.TracesData
	if err := proto.Unmarshal(got.body, &is); err != nil {
		t.Fatal(err)
	}
	if want := (&otlp.TracesData{ResourceSpans: spansToSend()}); !proto.Equal(&is, want) {
		t.Errorf("the body is %v, want %v", &is, want)
	}
}

// Over plain HTTP a certificate protects nothing.
func TestOTLPRefusesCertificatesWithoutTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_EXPORTER_OTLP_CERTIFICATE": file}
	if _, err := envOf(env).otlpClient(); err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_CERTIFICATE") {
		t.Errorf("over http: %v", err)
	}
	env["OTEL_EXPORTER_OTLP_ENDPOINT"] = server.URL
	err := otlpClientOf(t, env).UploadTraces(t.Context(), spansToSend())
	if err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("over https: %v", err)
	}
}

// inBubble is a client of a collector without a network.
func inBubble(t *testing.T, with ...http.HandlerFunc) (*otlpClient, *answers) {
	t.Helper()
	collector := &answers{t: t, with: with}
	client := otlpClientOf(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"})
	client.http.Transport = collector
	return client, collector
}

func TestOTLPRetries(t *testing.T) {
	const second = time.Second
	date := func(after time.Duration) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			statusOnly(429, "Retry-After", time.Now().Add(after).UTC().Format(http.TimeFormat))(w, r)
		}
	}
	for _, c := range []struct {
		name     string
		with     []http.HandlerFunc
		min, max []time.Duration // of the waits
		want     string          // in the error; empty: there is none
	}{
		{
			name: "back-off", with: []http.HandlerFunc{statusOnly(429), statusOnly(502), statusOnly(503), statusOnly(504), statusOnly(200)},
			min: []time.Duration{2500 * time.Millisecond, 3750 * time.Millisecond, 5625 * time.Millisecond, 8437 * time.Millisecond},
			max: []time.Duration{7500 * time.Millisecond, 11250 * time.Millisecond, 16875 * time.Millisecond, 25313 * time.Millisecond},
		},
		{name: "seconds", with: []http.HandlerFunc{statusOnly(503, "Retry-After", "20"), statusOnly(200)}, min: []time.Duration{20 * second}, max: []time.Duration{20 * second}},
		{name: "fewer seconds than the back-off", with: []http.HandlerFunc{statusOnly(503, "Retry-After", "1"), statusOnly(200)}, min: []time.Duration{2500 * time.Millisecond}, max: []time.Duration{7500 * time.Millisecond}},
		{name: "date", with: []http.HandlerFunc{date(30 * second), statusOnly(200)}, min: []time.Duration{29 * second}, max: []time.Duration{30 * second}},
		{name: "date that has passed", with: []http.HandlerFunc{date(-time.Hour), statusOnly(200)}, min: []time.Duration{2500 * time.Millisecond}, max: []time.Duration{7500 * time.Millisecond}},
		{name: "neither", with: []http.HandlerFunc{statusOnly(503, "Retry-After", "-20"), statusOnly(200)}, min: []time.Duration{2500 * time.Millisecond}, max: []time.Duration{7500 * time.Millisecond}},
		{name: "too long", with: []http.HandlerFunc{statusOnly(429, "Retry-After", "61")}, want: "gave up"},
		{name: "far too long", with: []http.HandlerFunc{statusOnly(429, "Retry-After", "99999999999999999999")}, want: "gave up"},
		{name: "two that together are too long", with: []http.HandlerFunc{statusOnly(429, "Retry-After", "31")}, min: []time.Duration{31 * second}, max: []time.Duration{31 * second}, want: "gave up"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, collector := inBubble(t, c.with...)
				err := client.UploadTraces(t.Context(), spansToSend())
				if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("the error is %v, want %q", err, c.want)
				}
				if len(collector.got) != len(c.min)+1 {
					t.Fatalf("%d requests, want %d", len(collector.got), len(c.min)+1)
				}
				checkBody(t, collector.got[0])
				for i := range c.min {
					checkBody(t, collector.got[i+1])
					if wait := collector.got[i+1].at.Sub(collector.got[i].at); wait < c.min[i] || wait > c.max[i] {
						t.Errorf("wait %d is %s, want %s to %s", i, wait, c.min[i], c.max[i])
					}
				}
			})
		})
	}
}

// A batch is given up after a minute, when its time is over, and when the gateway
// stops.
func TestOTLPGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, collector := inBubble(t, respond(503, "text/plain", "busy"))
		began := time.Now()
		err := client.UploadTraces(t.Context(), spansToSend())
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "busy") || took < retryTimeout || took > retryTimeout+45*time.Second {
			t.Errorf("after %s: %v", took, err)
		}
		if n := len(collector.got); n < 4 {
			t.Errorf("%d requests", n)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		began = time.Now()
		err = client.UploadTraces(ctx, spansToSend())
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "busy") || took != 9*time.Second {
			t.Errorf("with a deadline, after %s: %v", took, err)
		}

		began = time.Now()
		go func() {
			time.Sleep(time.Second)
			_ = client.Stop(context.Background())
		}()
		err = client.UploadTraces(t.Context(), spansToSend())
		if took := time.Since(began); err == nil || took != time.Second {
			t.Errorf("stopped, after %s: %v", took, err)
		}
	})
}

// What retrying cannot change is reported at once, with the collector's reason.
func TestOTLPFailures(t *testing.T) {
	t.Parallel()
	status := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 3) // google.rpc.Status: code, message, details
	status = protowire.AppendString(protowire.AppendTag(status, 2, protowire.BytesType), "no such tenant")
	status = protowire.AppendString(protowire.AppendTag(status, 3, protowire.BytesType), "details")
	const binary = "application/x-protobuf"
	for _, c := range []struct {
		name string
		with http.HandlerFunc
		want string // in the error; empty: there is none
	}{
		{"status in protobuf", respond(400, binary, string(status)), "400 Bad Request: no such tenant"},
		{"status in JSON", respond(400, "application/json", `{"code":3,"message":"no such tenant"}`), "no such tenant"},
		{"text", respond(401, "text/plain", " no such key\n"), "401 Unauthorized: no such key"},
		{"no text", statusOnly(408), "408 Request Timeout: no message"},
		{"no text, protobuf", statusOnly(404, "Content-Type", binary), "404 Not Found: no message"},
		{"broken status", respond(413, binary, "\x12\x7fshort"), "413 Request Entity Too Large"},
		{"fault", statusOnly(500), "500"},
		{"not implemented", statusOnly(501), "501"},
		{"redirect", statusOnly(307, "Location", "http://elsewhere/v1/traces"), "307"},
		{"long answer", respond(200, binary, strings.Repeat("x", maxResponseSize+1)), "too large"},
		{"long failure", respond(503, binary, strings.Repeat("x", maxResponseSize+1)), "too large"},
		{"accepted", statusOnly(202), ""},
		{"success in protobuf", respond(200, binary, ""), ""},
		{"success in JSON", respond(200, "application/json", `{}`), ""},
		{"success in JSON, partial success empty", respond(200, "application/json", `{"partialSuccess":{"rejectedSpans":"0","new":1},"new":true}`), ""},
		{"success in text", respond(200, "text/plain", "OK"), ""},
		{"partial success", respond(200, binary, partly(3, "too old")), "3 spans rejected: too old"},
		{"partial success without a reason", respond(200, binary, partly(3, "")), "3 spans rejected: no message"},
		{"warning", respond(200, binary, partly(0, "use gzip")), "0 spans rejected: use gzip"},
		{"partial success, empty", respond(200, binary, partly(0, "")), ""},
		{"partial success in JSON", respond(200, "application/json; charset=utf-8", `{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}`), "3 spans rejected: too old"},
		{"partial success in JSON, a number", respond(200, "application/json", `{"partialSuccess":{"rejectedSpans":3}}`), "3 spans rejected"},
		{"warning in JSON", respond(200, "application/json", `{"partialSuccess":{"errorMessage":"use gzip"}}`), "0 spans rejected: use gzip"},
		{"broken protobuf", respond(200, binary, "\x0a\x7f"), "decode"},
		{"broken protobuf inside", respond(200, binary, "\x0a\x02\x12\x7f"), "decode"},
		{"broken JSON", respond(200, "application/json", `{`), "decode"},
	} {
		t.Run(c.name, func(t *testing.T) {
			collector := &answers{t: t, with: []http.HandlerFunc{c.with}}
			server := httptest.NewServer(collector)
			defer server.Close()
			client := otlpClientOf(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL})
			err := client.UploadTraces(t.Context(), spansToSend())
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
			if len(collector.got) != 1 {
				t.Errorf("%d requests", len(collector.got))
			}
		})
	}
}

// partly is an ExportTraceServiceResponse with a partial success.
func partly(rejected uint64, message string) string {
	var inner []byte
	if rejected > 0 {
		inner = protowire.AppendVarint(protowire.AppendTag(inner, 1, protowire.VarintType), rejected)
	}
	if message != "" {
		inner = protowire.AppendString(protowire.AppendTag(inner, 2, protowire.BytesType), message)
	}
	return string(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), inner))
}

// The timeout bounds each attempt, and is retried. A collector that cannot be reached
// is reported at once.
func TestOTLPTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, collector := inBubble(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, statusOnly(200))
		began := time.Now()
		if err := client.UploadTraces(t.Context(), spansToSend()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); len(collector.got) != 2 || took < collectorTimeout+2500*time.Millisecond || took > collectorTimeout+7500*time.Millisecond {
			t.Errorf("%d requests in %s", len(collector.got), took)
		}
	})
	stuck := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stuck }))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // of which the wait before a retry is left
	defer cancel()
	err := otlpClientOf(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_EXPORTER_OTLP_TIMEOUT": "50"}).UploadTraces(ctx, spansToSend())
	if err == nil || !strings.Contains(err.Error(), "Client.Timeout exceeded") {
		t.Errorf("a collector that does not respond: %v", err)
	}
	close(stuck)
	server.Close()
	began := time.Now()
	if err := otlpClientOf(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL}).UploadTraces(t.Context(), spansToSend()); err == nil || time.Since(began) > retryInitial/2 {
		t.Errorf("a collector that is down, after %s: %v", time.Since(began), err)
	}
}

func FuzzOTLPResponse(f *testing.F) {
	f.Add(true, []byte(partly(3, "too old")))
	f.Add(false, []byte(`{"partialSuccess":{"rejectedSpans":"3"}}`))
	f.Fuzz(func(t *testing.T, binary bool, body []byte) {
		if !binary {
			_ = partialSuccess(contentTypeJSON, body)
			return
		}
		_ = partialSuccess(contentTypeProtobuf, body)
		// A message that the library parses, all of its fields unknown, parses here.
		if err := proto.Unmarshal(body, &otlp.Status{}); err == nil {
			if _, _, err := protoField(body, 15); err != nil {
				t.Errorf("%q is a message: %v", body, err)
			}
		}
	})
}
