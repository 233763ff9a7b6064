package ingest

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

// ServerConfig is what a Server is made of.
type ServerConfig struct {
	Providers []event.Provider // what modules declare; [Custom] is added to them
	Rows      Rows
	Vault     action.Vault
	// Secrets of URLs that name only a provider, by the provider's id; that of
	// "nango" is its webhook signing key. Several are good at once. A provider
	// without any takes nothing there.
	Secrets map[string][]string
	// Operator is the organization whose the receipts of such URLs are. Required
	// with Secrets.
	Operator string
	// PerMinute is how many new genuine deliveries the URL of a trigger takes, and
	// as many again that were there before; that of a whole provider takes ten
	// times as many. Zero: 6,000; less: any number.
	PerMinute int
	// Tolerances are how far a signed time may be from ours, by provider, for
	// those where it is not what the service advises.
	Tolerances map[string]time.Duration
	Pace       *Pace                       // is told how long they take; may be nil
	Accepted   func()                      // told of each delivery kept; may be nil
	Count      func(what, provider string) // counts answers; may be nil
	NewID      func() string               // ids of receipts, ascending in time (UUIDv7)
	Now        func() time.Time            // nil: the time
	Log        *slog.Logger
}

// defaultPerMinute is what the URL of a trigger takes unless told otherwise.
const defaultPerMinute = 6000

// Server takes deliveries in over HTTP: it verifies them, keeps them and
// answers. Nothing else happens while the sender waits.
type Server struct {
	ServerConfig
	providers registry
	deploy    map[string][][]byte // Secrets
	locks     *locks
	flood     *flood
	bodies    *bodies
}

// NewServer checks the config.
func NewServer(c ServerConfig) (*Server, error) {
	if c.Rows == nil || c.Vault == nil || c.NewID == nil || c.Log == nil {
		return nil, errors.New("ingest.ServerConfig: Rows, Vault, NewID and Log are required")
	}
	if len(c.Secrets) > 0 && c.Operator == "" {
		return nil, errors.New("ingest.ServerConfig: Secrets need an Operator, whose their deliveries are")
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
	providers, err := newRegistry(c.Providers)
	if err != nil {
		return nil, err
	}
	s := &Server{
		ServerConfig: c, providers: providers, deploy: map[string][][]byte{},
		locks: newLocks(c.Now), flood: &flood{limit: c.PerMinute}, bodies: newBodies(maxBytes),
	}
	return s, s.takeSecrets()
}

// takeSecrets reads the deployment's secrets. One that nothing can use is a
// mistake that would show only when deliveries are refused.
func (s *Server) takeSecrets() error {
	known := []string{nangoProvider}
	for id, p := range s.providers {
		if p.Webhook != nil && p.Accounts {
			known = append(known, id)
		}
	}
	slices.Sort(known)
	for id, secrets := range s.Secrets {
		if !slices.Contains(known, id) {
			return fmt.Errorf("webhook secrets: deliveries of %q do not say whose they are, or there are none, so that no one secret of the deployment can take them: make a trigger, which has a URL and a secret of its own; here, choose of %s", id, strings.Join(known, ", "))
		}
		for _, secret := range secrets {
			if strings.TrimSpace(secret) == "" {
				return fmt.Errorf("webhook secrets: the secret of %s is empty, and anybody could sign with it; set the one that the service signs with", id)
			}
			s.deploy[id] = append(s.deploy[id], []byte(secret))
		}
	}
	return nil
}

// Handler serves everything under /webhooks/.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, find := range map[string]finder{
		"direct/{provider}":           s.direct,
		"direct/{provider}/{trigger}": s.triggers,
		"custom/{trigger}":            s.custom,
		"automation/{automation}":     s.automation(customProvider),
		"posthog/{automation}":        s.automation(posthogProvider),
		"nango":                       s.nango,
		"{rest...}":                   nowhere,
	} {
		mux.HandleFunc("/webhooks/"+pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, find) })
	}
	return mux
}

// serve answers one request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, find finder) {
	e, err := find(r)
	switch {
	case err != nil:
		s.refuse(w, r, e, err)
	case reads(r) && e.trigger == nil && len(e.secrets) == 0: // it takes nothing
		s.refuse(w, r, e, errUnknown)
	case reads(r):
		answer(w, http.StatusOK, `{"status":"ok"}`)
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", "GET, HEAD, POST")
		s.refuse(w, r, e, errMethod)
	default:
		s.post(w, r, e, find)
	}
}

func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// post takes one delivery in.
func (s *Server) post(w http.ResponseWriter, r *http.Request, e endpoint, find finder) {
	if len(e.secrets) == 0 { // nothing could be good enough
		s.refuse(w, r, e, errSignature)
		return
	}
	body, release, err := s.body(w, r, e.maxBody())
	defer release()
	if err != nil {
		s.refuse(w, r, e, err)
		return
	}
	d := &event.Delivery{Header: r.Header, Body: body, Config: e.config()}
	challenge, err := s.take(r, e, d)
	if errors.Is(err, errSignature) && e.trigger != nil && s.locks.renew(e.asked) { // its secret may be new
		if now, lost := find(r); lost == nil {
			challenge, err = s.take(r, now, d)
		}
	}
	switch {
	case err != nil:
		s.refuse(w, r, e, err)
	case challenge != nil:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		answer(w, http.StatusOK, string(challenge))
	default:
		answer(w, http.StatusOK, `{"received":true}`)
	}
}
