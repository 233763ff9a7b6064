// Package llm passes requests to models on to their providers. A session reaches them
// under /llm/{provider}/ with its own token; the gateway adds the key of the provider,
// checks which models the session may use and how much of them, and counts what it used.
//
// Requests and responses pass as they are, in little memory; an alias changes the name
// of the model alone. Neither prompts nor answers are kept.
package llm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"sallyport/action"
)

// Ledger keeps requests and what they used.
type Ledger interface {
	// BeginModelRequest writes the row of a request before it is sent.
	BeginModelRequest(ctx context.Context, r *action.ModelRequest) error
	// EndModelRequest completes the row, which may not have been begun.
	EndModelRequest(ctx context.Context, r *action.ModelRequest) error
	// ModelSpent returns the tokens and the cost, in millionths of a US dollar, that
	// count for a limit.
	ModelSpent(ctx context.Context, s *action.Session, l *action.ModelLimit, now time.Time) (tokens, cost int64, err error)
}

// Config configures a [Door]. All fields are required.
type Config struct {
	// Authenticate returns the session of a token.
	Authenticate func(ctx context.Context, token string) (*action.Session, error)
	// Settings returns the settings of an organization.
	Settings func(ctx context.Context, organization string) (action.ModelSettings, error)
	// Secret returns a stored secret, and the host that may receive it.
	Secret func(ctx context.Context, organization, key string) (value, host string, err error)
	Ledger Ledger
	// Take counts a request, and returns how long to wait if there were too many.
	Take func(ctx context.Context, l action.Limit) time.Duration
	// Client returns a client for the host of a URL. It neither follows redirects nor
	// decompresses.
	Client func(u *url.URL) *http.Client
	// Refused counts a request that has no row, because its model is not known. The name
	// is the path of the request.
	Refused func(s *action.Session, kind action.RefusalKind, source, name string)
	// Ended observes requests, with the time to the first byte of the response.
	Ended func(r *action.ModelRequest, firstByte time.Duration)
	NewID func() string
	Now   func() time.Time
	Log   *slog.Logger
}

// Door is an HTTP handler for /llm/.
type Door struct {
	Config
	refusals refusals

	mu       sync.Mutex
	clients  map[string]*http.Client
	draining bool
	inFlight sync.WaitGroup
}

// New returns a door.
func New(c Config) *Door { return &Door{Config: c, clients: map[string]*http.Client{}} }

// Drain refuses new requests and waits until those in flight have ended.
func (d *Door) Drain(ctx context.Context) error {
	d.mu.Lock()
	d.draining = true
	d.mu.Unlock()
	done := make(chan struct{})
	go func() { d.inFlight.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for requests to models: %w", ctx.Err())
	}
}

// Close closes unused connections.
func (d *Door) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.clients {
		c.CloseIdleConnections()
	}
}

// enter counts a request in, unless the gateway shuts down.
func (d *Door) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.draining {
		d.inFlight.Add(1)
	}
	return !d.draining
}

// exchange is one request with what is known of it.
type exchange struct {
	w       http.ResponseWriter
	r       *http.Request
	dialect action.ModelDialect // of errors, until the provider is known

	session  *action.Session
	settings action.ModelSettings
	provider *action.ModelProvider
	op       operation
	body     *request // nil for requests that name no model
	row      action.ModelRequest
	answered bool // the response has begun
	first    time.Time
}

// ServeHTTP implements http.Handler.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{w: w, r: r}
	if !d.enter() {
		writeError(w, action.DialectOpenAI, http.StatusServiceUnavailable, "shutting_down", "The gateway is shutting down. Try again in a moment.", time.Second)
		return
	}
	defer d.inFlight.Done()
	err := d.serve(r.Context(), x)
	if x.body != nil {
		x.body.ended()
	}
	if err != nil && !x.answered {
		x.row.Status, x.row.Code = d.refuse(x, err)
	}
	if x.row.Model != "" {
		d.end(x)
	} else if kind, ok := refusalOf(err); ok && x.session != nil {
		d.Refused(x.session, kind, "", strings.TrimPrefix(r.URL.Path, "/"))
	}
}

// refusalOf returns why a request is refused before its model is known.
func refusalOf(err error) (kind action.RefusalKind, ok bool) {
	if e := (*action.Error)(nil); errors.As(err, &e) && e.Code == "model_path" {
		return action.RefusedUnknown, true // forbidden, so that agents do not repeat it
	}
	return action.RefusalOf(err)
}

// serve answers a request, or returns why it is refused.
func (d *Door) serve(ctx context.Context, x *exchange) (err error) {
	if err := d.open(ctx, x); err != nil {
		return err
	}
	if err := d.readModel(x); err != nil {
		return err
	}
	if !x.op.generates && !x.op.counts {
		return d.pass(ctx, x)
	}
	model := x.provider.Name + "/" + x.row.Model
	if err := d.admit(ctx, x, model); err != nil {
		return err
	}
	if x.op.generates {
		if err := d.Ledger.BeginModelRequest(ctx, &x.row); err != nil {
			return err
		}
	}
	return d.pass(ctx, x)
}

// open finds the session, the provider and the operation.
func (d *Door) open(ctx context.Context, x *exchange) (err error) {
	token, guess := bearer(x.r.Header)
	x.dialect = guess
	if token == "" {
		return action.NewError("model_token")
	}
	if x.session, err = d.Authenticate(ctx, token); err != nil {
		return err
	}
	if err := x.session.Accepts(d.Now()); err != nil {
		return err
	}
	if x.settings, err = d.Settings(ctx, x.session.Organization); err != nil {
		return err
	}
	name, path, _ := strings.Cut(strings.TrimPrefix(x.r.URL.EscapedPath(), "/llm/"), "/")
	if x.provider = x.settings.Provider(name); x.provider == nil {
		return action.NewError("model_provider_not_found", name)
	}
	x.dialect = x.provider.Dialect
	var ok bool
	if x.op, ok = operationOf(x.dialect, x.r.Method, "/"+path); !ok {
		return action.NewError("model_path", x.r.Method, "/"+path)
	}
	return nil
}

// readModel finds the model of a request and what an alias makes of it.
func (d *Door) readModel(x *exchange) error {
	if !x.op.generates && !x.op.counts {
		return nil
	}
	if x.r.Header.Get("Content-Encoding") != "" {
		return action.NewError("model_encoding")
	}
	body := http.MaxBytesReader(x.w, x.r.Body, maxBody)
	requested, err := x.op.model, error(nil)
	if requested == "" {
		if x.body, err = readModel(body, http.NewResponseController(x.w)); err != nil {
			return err
		}
		requested = x.body.model
	} else {
		x.body = &request{body: body, controller: http.NewResponseController(x.w), json: newPicker(func(string, []byte) error { return nil })}
		if requested, err = url.PathUnescape(requested); err != nil || strings.ContainsAny(requested, "/?#:") {
			return action.NewError("model_missing")
		}
	}
	x.row = action.ModelRequest{
		ID: d.NewID(), Organization: x.session.Organization, Session: x.session.ID, Automation: x.session.Automation, Group: x.session.Group,
		Provider: x.provider.Name, Model: requested, CreatedAt: d.Now(),
	}
	alias, ok := x.settings.Aliases[requested]
	if !ok {
		return nil
	}
	name, model, _ := strings.Cut(alias, "/")
	to := x.settings.Provider(name)
	if to == nil || to.Dialect != x.dialect {
		return action.NewError("model_alias", requested, alias, x.provider.Name)
	}
	x.provider, x.row.Provider, x.row.Model, x.row.Requested = to, to.Name, model, requested
	if x.op.model != "" {
		x.op.path = x.op.withModel(url.PathEscape(model))
	} else if grown := x.body.replaceModel(model); x.r.ContentLength >= 0 { // negative: unknown
		x.r.ContentLength += grown
	}
	return nil
}

// admit checks the limits of the session, the cheapest first.
func (d *Door) admit(ctx context.Context, x *exchange, model string) error {
	now := d.Now()
	if until := d.refusals.final(x.refusalKey(), now); !until.IsZero() {
		return refusedOften(x.provider.Name, until, now)
	}
	var limits []*action.ModelLimit
	for i := range x.settings.Limits {
		if l := &x.settings.Limits[i]; l.Applies(x.session) {
			if !l.Allows(model) {
				return action.NewError("model_not_allowed", model, l.Scope, strings.Join(l.Models, ", "))
			}
			limits = append(limits, l)
		}
	}
	if b := &x.session.Budget; b.MaxTokens > 0 || b.MaxCost > 0 {
		limits = append(limits, &action.ModelLimit{Scope: "this session", Per: action.EachSession, Tokens: b.MaxTokens, USD: float64(b.MaxCost) / 1e6})
	}
	if !x.op.generates {
		limits = nil // counting tokens costs nothing
	}
	for _, l := range limits {
		if err := d.checkBudget(ctx, x, l, model, now); err != nil {
			return err
		}
	}
	for _, l := range limits {
		if l.Rate == 0 {
			continue
		}
		key := "models/" + x.session.Organization + "/" + l.Scope
		if l.Per == action.EachSession {
			key += "/" + x.session.ID
		}
		if wait := d.Take(ctx, action.Limit{Key: key, What: "requests to models", Rate: action.Rate{Calls: l.Rate, Seconds: 60}}); wait > 0 {
			e := action.NewError("model_rate", l.Rate, l.Scope)
			e.RetryAfter = wait
			return e
		}
	}
	return nil
}

func (d *Door) checkBudget(ctx context.Context, x *exchange, l *action.ModelLimit, model string, now time.Time) error {
	if l.Tokens == 0 && l.USD == 0 {
		return nil
	}
	if _, priced := x.settings.Price(model); l.USD > 0 && !priced {
		return action.NewError("model_price_unknown", model)
	}
	tokens, cost, err := d.Ledger.ModelSpent(ctx, x.session, l, now)
	switch {
	case err != nil:
		return err
	case l.Tokens > 0 && tokens >= l.Tokens:
		return action.NewError("model_budget", l.Scope, fmt.Sprintf("%d tokens", l.Tokens), l.Per)
	case l.USD > 0 && float64(cost) >= l.USD*1e6:
		return action.NewError("model_budget", l.Scope, fmt.Sprintf("$%.2f", l.USD), l.Per)
	}
	return nil
}

func refusedOften(provider string, until, now time.Time) *action.Error {
	return action.NewError("model_refused_often", provider, maxRefusals, until.Sub(now).Round(time.Second))
}

func (x *exchange) refusalKey() string { return x.session.ID + "/" + x.provider.Name }

// pass sends the request to the provider, and its response to the client.
func (d *Door) pass(ctx context.Context, x *exchange) error {
	resp, err := d.send(ctx, x)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end, or given up
	x.first = d.Now()
	wait := retryAfter(resp.Header, x.first)
	final := d.refusals.note(x.refusalKey(), resp.StatusCode, wait, x.first)
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		return action.NewError("model_key_refused", x.provider.Name, x.provider.Secret)
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return action.NewError("model_redirect", x.provider.Name)
	case !final.IsZero():
		return refusedOften(x.provider.Name, final, x.first)
	}
	h := x.w.Header()
	for name, values := range resp.Header {
		if !hiddenHeader(name) {
			h[name] = values
		}
	}
	limitWait(h, wait)
	m := newMeter(x.dialect, resp.Header.Get("Content-Type"))
	x.answered, x.row.Status = true, resp.StatusCode
	x.w.WriteHeader(resp.StatusCode)
	err = stream(x.w, resp.Body, m)
	if err != nil {
		x.row.Code = "model_interrupted"
	}
	if resp.StatusCode < 300 && x.op.generates {
		x.row.ModelTokens, x.row.Estimated = m.result(x.body.ended())
	}
	return err
}

// send sends the request to the provider.
func (d *Door) send(ctx context.Context, x *exchange) (*http.Response, error) {
	key, host, err := d.Secret(ctx, x.session.Organization, x.provider.Secret)
	if err != nil {
		return nil, err
	}
	to, err := url.Parse(strings.TrimSuffix(x.provider.URL, "/") + x.op.path)
	if err != nil {
		return nil, action.NewError("model_path", x.r.Method, x.op.path).WithCause(err)
	}
	if !action.SameHost(host, x.provider.URL) {
		return nil, action.NewError("model_secret_host", x.provider.Secret, to.Host)
	}
	query := x.r.URL.Query()
	query.Del("key") // Google's key; ours is in a header
	to.RawQuery = query.Encode()
	var body io.Reader
	if x.body != nil {
		body = x.body
	}
	out, err := http.NewRequestWithContext(ctx, x.r.Method, to.String(), body)
	if err != nil {
		return nil, action.NewError("model_path", x.r.Method, x.op.path).WithCause(err)
	}
	if x.body != nil {
		out.ContentLength = x.r.ContentLength
	}
	for name, values := range x.r.Header {
		if passedHeader(name) {
			out.Header[name] = values
		}
	}
	out.Header.Set("Accept-Encoding", "identity") // what is counted must be readable
	setKey(out.Header, x.dialect, key)
	resp, err := d.client(to).Do(out)
	if err != nil {
		var known *action.Error
		if x.body != nil && errors.As(x.body.failed(), &known) {
			return nil, known
		}
		var large *http.MaxBytesError
		switch {
		case errors.As(err, &large):
			return nil, action.NewError("model_request_too_large", maxBody>>20)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		return nil, action.NewError("model_unreachable", x.provider.Name).WithCause(err)
	}
	return resp, nil
}

func (d *Door) client(to *url.URL) *http.Client {
	d.mu.Lock()
	defer d.mu.Unlock()
	host := to.Scheme + "://" + to.Host
	c := d.clients[host]
	if c == nil {
		c = d.Client(&url.URL{Scheme: to.Scheme, Host: to.Host})
		d.clients[host] = c
	}
	return c
}

// stream copies a response as it arrives, and counts it.
func stream(w http.ResponseWriter, from io.Reader, m *meter) error {
	c, buf := http.NewResponseController(w), make([]byte, chunk)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			_, _ = m.Write(buf[:n])                          // what cannot be read is not counted
			_ = c.SetWriteDeadline(time.Now().Add(patience)) // not every connection has deadlines
			if _, failed := w.Write(buf[:n]); failed != nil {
				return fmt.Errorf("sending the response of a model: %w", failed)
			}
			if failed := c.Flush(); failed != nil {
				return fmt.Errorf("sending the response of a model: %w", failed)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the response of a model: %w", err)
		}
	}
}

// end completes the row of a request, and reports it.
func (d *Door) end(x *exchange) {
	if !x.op.generates {
		return
	}
	now := d.Now()
	r := &x.row
	r.EndedAt = &now
	if p, ok := x.settings.Price(r.Provider + "/" + r.Model); ok {
		r.Cost, r.Priced = p.Cost(r.ModelTokens), true
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(x.r.Context()), 10*time.Second)
	defer stop()
	if err := d.Ledger.EndModelRequest(ctx, r); err != nil {
		d.Log.ErrorContext(ctx, "the use of a model could not be recorded", "session", r.Session, "model", r.Model, "tokens", r.Sum(), "error", err)
	}
	var first time.Duration
	if !x.first.IsZero() {
		first = x.first.Sub(r.CreatedAt)
	}
	d.Ended(r, first)
}

// refuse answers with an error, and returns what is recorded of it.
func (d *Door) refuse(x *exchange, err error) (status int, code string) {
	var e *action.Error
	if errors.Is(err, context.Canceled) && x.r.Context().Err() != nil {
		return 0, "model_interrupted" // the client is gone
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		err = action.NewError("model_request_too_large", maxBody>>20)
	}
	if !errors.As(err, &e) {
		d.Log.ErrorContext(x.r.Context(), "a request to a model failed", "error", err)
		e = action.NewError("model_failed")
	}
	if e.Err != nil {
		d.Log.WarnContext(x.r.Context(), "a request to a model failed", "provider", x.row.Provider, "model", x.row.Model, "error", e.Err)
	}
	status = statusOf(e)
	var wait time.Duration
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		wait = max(e.RetryAfter, time.Second)
	}
	writeError(x.w, x.dialect, status, e.Code, e.Message, wait)
	return status, e.Code
}

// statusOf returns the status of an error. What stays until a person changes something
// is 403, which agents do not repeat.
func statusOf(e *action.Error) int {
	switch {
	case errors.Is(e.Kind, action.ErrUnauthenticated):
		return http.StatusUnauthorized
	case e.Code == "model_path":
		return http.StatusNotFound
	case errors.Is(e.Kind, action.ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(e.Kind, action.ErrTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(e.Kind, action.ErrTooMany):
		return http.StatusTooManyRequests
	case e.Code == "model_unreachable" || e.Code == "model_redirect":
		return http.StatusBadGateway
	case errors.Is(e.Kind, action.ErrUnavailable):
		return http.StatusServiceUnavailable
	}
	return http.StatusForbidden
}
