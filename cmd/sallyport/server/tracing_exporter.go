package server

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"sallyport/cmd/sallyport/command"
)

// The comments on OTLP cite two documents:
//
//   - [OTLP]: OTLP Specification, https://opentelemetry.io/docs/specs/otlp/,
//     chapter OTLP/HTTP
//   - [Exporter]: OpenTelemetry Protocol Exporter,
//     https://opentelemetry.io/docs/specs/otel/protocol/exporter/
//
// Where they leave a choice, this client behaves like OpenTelemetry's Go exporter
// otlptracehttp. That one is not used because it links gRPC, which the program does
// not need.

const (
	contentTypeProtobuf = "application/x-protobuf" // [OTLP], Binary Protobuf Encoding
	contentTypeJSON     = "application/json"       // [OTLP], JSON Protobuf Encoding

	maxRequestSize  = 64 << 20 // bytes of a request before compression; [OTLP], OTLP/HTTP Request, recommends a limit
	maxResponseSize = 4 << 20  // bytes of a response; [OTLP], OTLP/HTTP Response

	// Exponential back-off with jitter ([Exporter], Retry). A batch is dropped after
	// retryTimeout.
	retryInitial = 5 * time.Second
	retryGrowth  = 1.5
	retryMax     = 30 * time.Second
	retryJitter  = 0.5
	retryTimeout = time.Minute
)

// otlpClient sends spans to a collector with OTLP over HTTP. It implements
// [go.opentelemetry.io/otel/exporters/otlp/otlptrace.Client] and is safe for
// concurrent use.
type otlpClient struct {
	http     *http.Client // the timeout applies to each attempt
	url      string
	header   http.Header // of each request
	json     bool        // protobuf otherwise
	gzip     bool
	stopping context.Context // done after Stop
	stop     context.CancelFunc
}

// otlpClient returns a client for the configured collector. The variables must be
// validated by [Environment.Traces].
func (env Environment) otlpClient() (*otlpClient, error) {
	sender, err := env.client()
	if err != nil {
		return nil, err
	}
	target, err := env.tracesURL()
	if err != nil {
		return nil, err
	}
	for _, kind := range []string{"CERTIFICATE", "CLIENT_CERTIFICATE"} {
		if variable, file := env.otlp(kind); file != "" && target.Scheme == "http" {
			return nil, fmt.Errorf("%s has no effect over http. Use an https URL for the collector, or unset it", variable)
		}
	}
	_, list := env.otlp("HEADERS")
	_, protocol := env.otlp("PROTOCOL")
	_, compression := env.otlp("COMPRESSION")
	c := &otlpClient{http: sender, url: target.String(), header: http.Header{}, json: protocol == "http/json", gzip: compression == "gzip"}
	c.stopping, c.stop = context.WithCancel(context.Background())
	// [Exporter], User Agent: it identifies the exporter and can be overridden.
	c.header.Set("User-Agent", "sallyport/"+command.Version())
	configured, _ := parseHeaders(list)
	for name, value := range configured {
		c.header.Set(name, value)
	}
	c.header.Set("Content-Type", contentTypeProtobuf)
	if c.json {
		c.header.Set("Content-Type", contentTypeJSON)
	}
	if c.gzip { // [OTLP], OTLP/HTTP Request
		c.header.Set("Content-Encoding", "gzip")
	}
	return c, nil
}

// Start implements otlptrace.Client. The first upload opens the connection.
func (*otlpClient) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client. It cancels uploads, also between retries.
func (c *otlpClient) Stop(context.Context) error {
	c.stop()
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. It retries transient failures until
// the context ends or a minute has passed.
func (c *otlpClient) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := c.encode(spans)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.stopping, cancel)()
	started, interval := time.Now(), float64(retryInitial)
	for {
		err := c.post(ctx, body)
		var transient transientError
		if !errors.As(err, &transient) {
			return err
		}
		if time.Since(started)+transient.retryAfter > retryTimeout {
			return fmt.Errorf("gave up retrying: %w", err)
		}
		// Retry-After is a minimum: the back-off grows above it.
		backOff := time.Duration(interval * (1 - retryJitter + 2*retryJitter*rand.Float64()))
		interval = min(interval*retryGrowth, float64(retryMax))
		select {
		case <-time.After(max(backOff, transient.retryAfter)):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// encode returns the body of a request, an ExportTraceServiceRequest ([OTLP],
// OTLP/HTTP Request). It is encoded as a TracesData, which has the same fields
// (trace.proto requires it), because the generated package of the request imports gRPC.
func (c *otlpClient) encode(spans []*tracepb.ResourceSpans) (body []byte, err error) {
	request := &tracepb.TracesData{ResourceSpans: spans}
	if c.json {
		hexIDs(spans)
		body, err = protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(request)
	} else {
		body, err = proto.Marshal(request)
	}
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxRequestSize:
		return nil, fmt.Errorf("the spans take %d bytes, more than the %d of a request; lower OTEL_BSP_MAX_EXPORT_BATCH_SIZE", len(body), maxRequestSize)
	case !c.gzip:
		return body, nil
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err = w.Write(body)
	err = errors.Join(err, w.Close()) // writes the end of the stream
	return packed.Bytes(), err
}

// hexIDs replaces each ID by the bytes whose base64 form is the hexadecimal form of
// the ID, because protojson encodes bytes as base64. [OTLP], JSON Protobuf Encoding:
// IDs are hexadecimal and enums are numbers; the rest is protobuf's JSON mapping.
func hexIDs(spans []*tracepb.ResourceSpans) {
	encode := func(id *[]byte) {
		// 16 or 32 hexadecimal digits are valid base64 without padding.
		*id, _ = base64.StdEncoding.DecodeString(fmt.Sprintf("%X", *id))
	}
	for _, resource := range spans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				encode(&span.TraceId)
				encode(&span.SpanId)
				encode(&span.ParentSpanId)
				for _, link := range span.Links {
					encode(&link.TraceId)
					encode(&link.SpanId)
				}
			}
		}
	}
}

// transientError is a failure after which the request is retried, no earlier than the
// collector's Retry-After.
type transientError struct {
	error
	retryAfter time.Duration
}

// post sends a request once.
func (c *otlpClient) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = c.header.Clone()
	resp, err := c.http.Do(req)
	// A timeout is retried. A failed connection is not, although [OTLP], OTLP/HTTP
	// Connection, recommends it: the log reports it at once instead of after a minute.
	if failed := (*url.Error)(nil); errors.As(err, &failed) && failed.Temporary() && ctx.Err() == nil {
		return transientError{error: err}
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	respBody, err := io.ReadAll(http.MaxBytesReader(nil, resp.Body, maxResponseSize))
	if err != nil {
		return fmt.Errorf("read the collector's response: %w", err)
	}
	contentType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode/100 == 2 {
		return partialSuccess(contentType, respBody)
	}
	// [OTLP], Failures: the body is a google.rpc.Status, whose message is field 2. Any
	// other body, such as a proxy's text, is reported unchanged.
	if _, message, err := protoField(respBody, 2); err == nil && contentType == contentTypeProtobuf {
		respBody = message
	}
	err = fmt.Errorf("%s responded %s: %s", c.url, resp.Status, cmp.Or(strings.TrimSpace(string(respBody)), "no message"))
	switch resp.StatusCode { // [OTLP], Retryable Response Codes: no others
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return transientError{err, retryAfter(resp.Header.Get("Retry-After"))}
	}
	return err
}

// retryAfter parses a number of seconds or a date ([OTLP], OTLP/HTTP Throttling; RFC
// 9110, section 10.2.3). Any other value is ignored.
func retryAfter(value string) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(time.Until(date), 0)
	}
	return 0
}

// partialSuccess returns an error when an ExportTraceServiceResponse reports rejected
// spans or a warning. [OTLP], Partial Success: the request is not retried.
func partialSuccess(contentType string, body []byte) error {
	var response struct {
		PartialSuccess struct {
			RejectedSpans json.Number // 64 bits, which protobuf's JSON has as a string
			ErrorMessage  string
		}
	}
	partial := &response.PartialSuccess
	var err error
	switch {
	case len(body) == 0:
	case contentType == contentTypeJSON:
		err = json.Unmarshal(body, &response)
	case contentType == contentTypeProtobuf:
		// partial_success is field 1; in it rejected_spans is 1 and error_message is 2.
		_, inner, err1 := protoField(body, 1)
		rejected, _, err2 := protoField(inner, 1)
		_, message, err3 := protoField(inner, 2)
		err = errors.Join(err1, err2, err3)
		partial.RejectedSpans, partial.ErrorMessage = json.Number(strconv.FormatUint(rejected, 10)), string(message)
	}
	switch rejected := partial.RejectedSpans; {
	case err != nil:
		return fmt.Errorf("decode the collector's response: %w", err)
	case partial.ErrorMessage == "" && (rejected == "" || rejected == "0"):
		return nil
	default:
		return fmt.Errorf("partial success: %s spans rejected: %s", cmp.Or(rejected, "0"), cmp.Or(partial.ErrorMessage, "no message"))
	}
}

// protoField returns the last value of a field of a message in protobuf's wire form,
// as a number or as bytes.
func protoField(message []byte, field protowire.Number) (number uint64, value []byte, err error) {
	for len(message) > 0 {
		tag, wireType, size := protowire.ConsumeTag(message)
		if size < 0 {
			return 0, nil, protowire.ParseError(size)
		}
		message = message[size:]
		if size = protowire.ConsumeFieldValue(tag, wireType, message); size < 0 {
			return 0, nil, protowire.ParseError(size)
		}
		switch {
		case tag == field && wireType == protowire.VarintType:
			number, _ = protowire.ConsumeVarint(message)
		case tag == field && wireType == protowire.BytesType:
			value, _ = protowire.ConsumeBytes(message)
		}
		message = message[size:]
	}
	return number, value, nil
}

// checkEndpoint validates a collector's URL. Its errors do not repeat the URL,
// which may hold a password.
func checkEndpoint(variable, endpoint string) error {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("%s must be the URL of a collector that accepts OTLP over HTTP, such as http://127.0.0.1:4318; unset it to disable tracing", variable)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%s must consist of a scheme, a host and a path; put credentials in OTEL_EXPORTER_OTLP_HEADERS", variable)
	}
	return nil
}

// checkExporter rejects settings that the exporter cannot honor.
func (env Environment) checkExporter() error {
	if variable, protocol := env.otlp("PROTOCOL"); protocol != "" && protocol != "http/protobuf" && protocol != "http/json" {
		return fmt.Errorf("%s must be http/protobuf or http/json; gRPC is not supported (collectors accept HTTP on port 4318)", variable)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		value := env(name)
		if _, ok := parseHeaders(value); value != "" && !ok {
			return fmt.Errorf("%s must be name=value,name=value with percent-encoded values (%%20 is a space)", name)
		}
	}
	for _, kind := range []string{"CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"} {
		variable, file := env.otlp(kind)
		if file == "" {
			continue
		}
		if _, err := os.ReadFile(file); err != nil {
			return fmt.Errorf("%s must name a PEM file: %w", variable, err)
		}
	}
	if variable, value := env.otlp("TIMEOUT"); value != "" {
		if ms, err := strconv.Atoi(value); err != nil || ms <= 0 {
			return fmt.Errorf("%s must be a number of milliseconds above 0", variable)
		}
	}
	return nil
}

// parseHeaders parses name=value,name=value with percent-encoded values ([Exporter],
// Specifying headers via environment variables). It reports whether the list is valid.
func parseHeaders(list string) (headers map[string]string, ok bool) {
	headers = map[string]string{}
	for pair := range strings.SplitSeq(list, ",") {
		name, value, found := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(value)
		if err != nil || !found || name == "" || strings.ContainsFunc(name, notInToken) {
			return nil, false
		}
		headers[name] = strings.TrimSpace(value)
	}
	return headers, true
}

// notInToken reports whether a header name cannot contain r.
func notInToken(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// checkSampler rejects unknown samplers.
func (env Environment) checkSampler() error {
	switch strings.ToLower(strings.TrimSpace(env("OTEL_TRACES_SAMPLER"))) {
	case "", "always_on", "always_off", "parentbased_always_on", "parentbased_always_off":
		return nil
	case "traceidratio", "parentbased_traceidratio":
		arg := strings.TrimSpace(env("OTEL_TRACES_SAMPLER_ARG"))
		if share, err := strconv.ParseFloat(arg, 64); arg != "" && (err != nil || !(share >= 0 && share <= 1)) {
			return fmt.Errorf("OTEL_TRACES_SAMPLER_ARG must be the fraction of traces to sample, from 0 to 1")
		}
		return nil
	}
	return fmt.Errorf("OTEL_TRACES_SAMPLER must be always_on, always_off or traceidratio, optionally with the prefix parentbased_")
}

// tracesURL returns the URL that spans are posted to. [Exporter], Endpoint URLs for
// OTLP/HTTP: the URL for traces is used as it is, with / for an empty path; v1/traces
// is appended to the base URL.
func (env Environment) tracesURL() (*url.URL, error) {
	variable, endpoint := env.otlp("ENDPOINT")
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, checkEndpoint(variable, endpoint)
	}
	target := &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	switch {
	case variable == "OTEL_EXPORTER_OTLP_ENDPOINT":
		target.Path = path.Join("/", u.Path, "v1/traces")
	case u.Path == "":
		target.Path = "/"
	}
	// [Exporter] defines this variable for gRPC only, but otlptracehttp lets it
	// override the scheme, and so does the program.
	if _, insecure := env.otlp("INSECURE"); strings.EqualFold(insecure, "true") {
		target.Scheme = "http"
	} else if insecure != "" {
		target.Scheme = "https"
	}
	return target, nil
}

// collectorTimeout is the specification's default.
const collectorTimeout = 10 * time.Second

// client returns an HTTP client for the collector. It follows no redirect,
// which would send spans and headers elsewhere, and uses no proxy, like all
// outgoing requests of the gateway.
func (env Environment) client() (*http.Client, error) {
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if variable, file := env.otlp("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		settings.RootCAs = x509.NewCertPool()
		if err != nil || !settings.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s must name a PEM file with certificates", variable)
		}
	}
	certificate, file := env.otlp("CLIENT_CERTIFICATE")
	_, key := env.otlp("CLIENT_KEY")
	if (file == "") != (key == "") {
		return nil, errors.New("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY go together: set both or neither")
	}
	if file != "" {
		pair, err := tls.LoadX509KeyPair(file, key)
		if err != nil {
			return nil, fmt.Errorf("%s and its key: %w", certificate, err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	timeout := collectorTimeout
	if _, value := env.otlp("TIMEOUT"); value != "" {
		if ms, err := strconv.Atoi(value); err == nil {
			timeout = time.Duration(ms) * time.Millisecond
		}
	}
	return &http.Client{
		Timeout:       timeout,
		Transport:     &http.Transport{TLSClientConfig: settings, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}
