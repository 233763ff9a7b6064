// Package webhook receives deliveries over HTTP: it finds the trigger or provider of a
// URL, verifies the signature on the raw bytes, stores the delivery in one row and
// answers. Nothing is stored, counted or parsed before the signature was verified.
package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/ingest"
	"sallyport/ingest/delivery"
	"sallyport/ingest/event"
	"sallyport/ingest/loop"
	"sallyport/ingest/match"
)

// Config configures a Server.
type Config struct {
	Providers []event.Provider // of the modules; [match.Custom] is added
	Rows      ingest.Rows
	Vault     action.Vault
	// Secrets of provider URLs, by the provider's id; that of "nango" is its webhook
	// signing key. Several secrets are valid at once. A provider URL without a secret
	// accepts nothing.
	Secrets map[string][]string
	// Operator is the organization that owns the receipts of provider URLs. Required with
	// Secrets.
	Operator string
	// PerMinute limits the verified deliveries of a trigger's URL, and separately their
	// repeats; provider URLs accept ten times as many. Zero: 6,000; negative: no limit.
	PerMinute int
	// Tolerances override, by provider, how far a signed time may differ from the clock.
	Tolerances map[string]time.Duration
	Pace       *loop.Pace                  // records how long storing takes; may be nil
	Accepted   func()                      // called for each stored delivery; may be nil
	Count      func(what, provider string) // counts answers; may be nil
	NewID      func() string               // ids of receipts, ascending in time (UUIDv7)
	Now        func() time.Time            // nil: time.Now
	Log        *slog.Logger
}

// defaultPerMinute is the default of PerMinute.
const defaultPerMinute = 6000

// Server receives deliveries over HTTP: it verifies and stores them and answers.
// Nothing else happens while the sender waits.
type Server struct {
	Config
	providers       match.Registry
	providerSecrets map[string][][]byte // Secrets
	triggers        *triggerCache
	rates           *rateLimiter
	memory          *memoryBudget
}

// NewServer returns a server. It fails if a required field is missing or a secret
// cannot be used.
func NewServer(c Config) (*Server, error) {
	if c.Rows == nil || c.Vault == nil || c.NewID == nil || c.Log == nil {
		return nil, errors.New("webhook.Config: Rows, Vault, NewID and Log are required")
	}
	if len(c.Secrets) > 0 && c.Operator == "" {
		return nil, errors.New("webhook.Config: Secrets require an Operator, the owner of their deliveries")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Accepted == nil {
		c.Accepted = func() {}
	}
	if c.Count == nil {
		c.Count = func(string, string) {}
	}
	if c.PerMinute == 0 {
		c.PerMinute = defaultPerMinute
	}
	providers, err := match.NewRegistry(c.Providers)
	if err != nil {
		return nil, err
	}
	s := &Server{
		Config: c, providers: providers, providerSecrets: map[string][][]byte{},
		triggers: newTriggerCache(c.Now), rates: &rateLimiter{limit: c.PerMinute}, memory: newMemoryBudget(maxMemory),
	}
	return s, s.loadSecrets()
}

// loadSecrets reads the configured secrets. It rejects secrets that nothing can use,
// which would otherwise show only in refused deliveries.
func (s *Server) loadSecrets() error {
	known := []string{match.NangoProvider}
	for id, p := range s.providers {
		if p.Webhook != nil && p.IdentifiesAccount {
			known = append(known, id)
		}
	}
	slices.Sort(known)
	for id, secrets := range s.Secrets {
		if !slices.Contains(known, id) {
			return fmt.Errorf("webhook secrets: deliveries of %q do not name their account, or do not exist, so they cannot share one secret: create a trigger, which has its own URL and secret; here, use one of %s", id, strings.Join(known, ", "))
		}
		for _, secret := range secrets {
			if strings.TrimSpace(secret) == "" {
				return fmt.Errorf("webhook secrets: the secret of %s is empty, so anyone could sign with it; set the secret of the service", id)
			}
			s.providerSecrets[id] = append(s.providerSecrets[id], []byte(secret))
		}
	}
	return nil
}

// Handler serves all paths under /webhooks/.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, find := range map[string]resolver{
		"direct/{provider}":           s.providerEndpoint,
		"direct/{provider}/{trigger}": s.triggerEndpoint,
		"custom/{trigger}":            s.customEndpoint,
		"automation/{automation}":     s.automationEndpoint(match.CustomProvider),
		"posthog/{automation}":        s.automationEndpoint(posthogProvider),
		"nango":                       s.nangoEndpoint,
		"{rest...}":                   unknownEndpoint,
	} {
		mux.HandleFunc("/webhooks/"+pattern, func(w http.ResponseWriter, r *http.Request) { s.handle(w, r, find) })
	}
	return mux
}

// handle answers one request.
func (s *Server) handle(w http.ResponseWriter, r *http.Request, find resolver) {
	e, err := find(r)
	switch {
	case err != nil:
		s.sendRefusal(w, r, e, err)
	case isRead(r) && e.trigger == nil && len(e.secrets) == 0: // it accepts nothing
		s.sendRefusal(w, r, e, errUnknown)
	case isRead(r):
		respond(w, http.StatusOK, `{"status":"ok"}`)
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", "GET, HEAD, POST")
		s.sendRefusal(w, r, e, errMethod)
	default:
		s.handlePost(w, r, e, find)
	}
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// handlePost receives one delivery.
func (s *Server) handlePost(w http.ResponseWriter, r *http.Request, e endpoint, find resolver) {
	if len(e.secrets) == 0 { // nothing can be verified
		s.sendRefusal(w, r, e, errSignature)
		return
	}
	body, release, err := s.readBody(w, r, e.maxBody())
	defer release()
	if err != nil {
		s.sendRefusal(w, r, e, err)
		return
	}
	d := &event.Delivery{Header: r.Header, Body: body, Config: e.config()}
	challenge, err := s.accept(r, e, d)
	if errors.Is(err, errSignature) && e.trigger != nil && s.triggers.invalidate(e.requestedPath) { // its secret may have been rotated
		if now, lost := find(r); lost == nil {
			challenge, err = s.accept(r, now, d)
		}
	}
	switch {
	case err != nil:
		s.sendRefusal(w, r, e, err)
	case challenge != nil:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		respond(w, http.StatusOK, string(challenge))
	default:
		respond(w, http.StatusOK, `{"received":true}`)
	}
}

// storeTimeout bounds the write of the row, for which the sender waits.
const storeTimeout = 8 * time.Second

// accept verifies and stores a delivery, or returns the answer to a challenge.
// Nothing is read, counted or stored before the verification, so that senders
// without a secret leave no trace.
func (s *Server) accept(r *http.Request, e endpoint, d *event.Delivery) (challenge []byte, err error) {
	if err := s.verify(r.Context(), e, d); err != nil {
		return nil, err
	}
	toll, wait := s.rates.charge(e.path, delivery.BodyHash(s.Vault, d.Body), e.trigger == nil, s.Now())
	if wait > 0 {
		return nil, &refusal{status: http.StatusTooManyRequests, count: "flooded", message: "This URL receives too many deliveries. Send it again later.", retry: wait}
	}
	if ask := e.provider.Webhook.Challenge; ask != nil {
		if err := s.recovering(r.Context(), e, func() { challenge = ask(d) }); err != nil || challenge != nil {
			s.Count("challenged", e.provider.ID)
			return challenge, err
		}
	}
	if e.trigger != nil && !e.trigger.Enabled {
		s.Count("disabled", e.provider.ID)
		return nil, nil
	}
	fresh, err := s.store(r.Context(), e, d)
	if err != nil {
		return nil, err
	}
	s.rates.confirm(toll, fresh)
	s.Count(map[bool]string{true: "received", false: "repeated"}[fresh], e.provider.ID)
	s.Accepted()
	return nil, nil
}

// verify asks the module. The sender gets the same answer for every failure.
func (s *Server) verify(ctx context.Context, e endpoint, d *event.Delivery) error {
	err := event.ErrSignature
	if len(e.secrets) > 0 {
		tolerance, chosen := s.Tolerances[e.provider.ID]
		if !chosen {
			tolerance = e.provider.Webhook.Tolerance
		}
		_ = s.recovering(ctx, e, func() { err = e.provider.Webhook.Verify(d, e.secrets, s.Now(), tolerance) })
	}
	if err == nil {
		return nil
	}
	s.Log.DebugContext(ctx, "a delivery was refused", "provider", e.provider.ID, "endpoint", e.path, "reason", err)
	if errors.Is(err, event.ErrStale) {
		return errStale
	}
	return errSignature
}

// store writes the delivery, also if the sender disconnects meanwhile.
func (s *Server) store(ctx context.Context, e endpoint, d *event.Delivery) (fresh bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	now := s.Now().UTC()
	defer func(began time.Time) { s.Pace.Record(time.Since(began), time.Now()) }(time.Now())
	r := event.Receipt{
		ID: s.NewID(), Organization: e.organization, Endpoint: e.path, Provider: e.provider.ID,
		Key: delivery.Key(s.Vault, e.deliveryID(d), d.Body, now), Size: len(d.Body),
		Status: event.ReceiptQueued, NextAt: now, ReceivedAt: now,
	}
	if e.trigger != nil {
		r.Trigger = e.trigger.ID
	}
	d.Header = delivery.StoredHeaders(d.Header, e.secrets, e.idHeader(d))
	if err = delivery.Seal(s.Vault, &r, d); err == nil {
		fresh, err = s.Rows.Receive(ctx, r)
	}
	if err != nil {
		s.Log.ErrorContext(ctx, "a delivery could not be stored; its sender was asked to retry", "provider", e.provider.ID, "endpoint", e.path, "error", err)
		return false, errStorage
	}
	return fresh, nil
}

// recovering calls a module; a panic rejects the delivery.
func (s *Server) recovering(ctx context.Context, e endpoint, do func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.Log.ErrorContext(ctx, "a module panicked", "provider", e.provider.ID, "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			err = errSignature
		}
	}()
	do()
	return nil
}

// refusal is the answer to a delivery that was not accepted.
type refusal struct {
	status  int
	count   string // name in the metrics
	message string
	retry   time.Duration // zero: no Retry-After
}

func (r *refusal) Error() string { return r.message }

// rejectedText is the same for an unknown URL, an invalid signature and an old one, so
// that it does not help attackers.
const rejectedText = "This delivery is not accepted. Compare the URL, the secret and the signature scheme with those of the trigger; for a signed time, check the clock."

// The refusals.
var (
	errUnknown   = &refusal{status: http.StatusNotFound, count: "unknown", message: rejectedText}
	errSignature = &refusal{status: http.StatusUnauthorized, count: "unsigned", message: rejectedText}
	errStale     = &refusal{status: http.StatusUnauthorized, count: "stale", message: rejectedText}
	errMethod    = &refusal{status: http.StatusMethodNotAllowed, count: "method", message: "Use POST for deliveries; GET reports whether the URL exists."}
	errEncoding  = &refusal{status: http.StatusUnsupportedMediaType, count: "encoded", message: "The body is compressed. Send it without Content-Encoding."}
	errTooLarge  = &refusal{status: http.StatusRequestEntityTooLarge, count: "too_large", message: "The body is too large for this URL. Configure the service to send less."}
	errBroken    = &refusal{status: http.StatusBadRequest, count: "broken", message: "The body is incomplete. Send it again."}
	errSlow      = &refusal{status: http.StatusRequestTimeout, count: "slow", message: "The body took too long. Send it again."}
	errBusy      = &refusal{status: http.StatusServiceUnavailable, count: "busy", message: "Too many deliveries at once. Send it again.", retry: 10 * time.Second}
	errStorage   = &refusal{status: http.StatusServiceUnavailable, count: "unavailable", message: "The delivery could not be stored. Send it again.", retry: 5 * time.Second}
)

// sendRefusal answers with a refusal and counts it.
func (s *Server) sendRefusal(w http.ResponseWriter, r *http.Request, e endpoint, err error) {
	var no *refusal
	if !errors.As(err, &no) {
		s.Log.ErrorContext(r.Context(), "a delivery failed", "endpoint", e.path, "error", err)
		no = errStorage
	}
	provider := ""
	if e.provider != nil {
		provider = e.provider.ID
	}
	s.Count(no.count, provider)
	if no.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(no.retry.Seconds()))))
	}
	setReadDeadline(w, drainTimeout) // net/http reads the rest of the body before the answer
	text, _ := json.Marshal(map[string]string{"error": no.message})
	respond(w, no.status, string(text))
}

func respond(w http.ResponseWriter, status int, body string) {
	h := w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
