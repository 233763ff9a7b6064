package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/ingest/delivery"
	"sallyport/ingest/event"
	"sallyport/ingest/match"
)

// posthogProvider has URLs with the id of an automation, which is known before a trigger
// exists.
const posthogProvider = "posthog"

// lookupTimeout bounds the lookup of a trigger.
const lookupTimeout = 5 * time.Second

// endpoint is a URL that accepts deliveries, with what verifies them.
type endpoint struct {
	path          string // after /webhooks/; canonical for a trigger
	provider      *event.Provider
	requestedPath string // as in the request
	organization  string
	trigger       *event.Trigger // nil for a provider URL
	secrets       [][]byte
}

// resolver returns the endpoint of a request, or a refusal.
type resolver func(r *http.Request) (endpoint, error)

func unknownEndpoint(*http.Request) (endpoint, error) { return endpoint{}, errUnknown }

// providerEndpoint finds a provider URL.
func (s *Server) providerEndpoint(r *http.Request) (endpoint, error) {
	id := r.PathValue("provider")
	p := s.providers[id]
	if p == nil || p.Webhook == nil || id == match.CustomProvider {
		return endpoint{}, errUnknown
	}
	return endpoint{path: "direct/" + id, provider: p, organization: s.Operator, secrets: s.providerSecrets[id]}, nil
}

// nangoEndpoint finds the URL of all deliveries through Nango.
func (s *Server) nangoEndpoint(*http.Request) (endpoint, error) {
	p := &event.Provider{ID: match.NangoProvider, Webhook: &event.Webhook{Verify: delivery.VerifyNango}}
	return endpoint{path: "nango", provider: p, organization: s.Operator, secrets: s.providerSecrets[match.NangoProvider]}, nil
}

// triggerEndpoint finds the URL of a trigger. Strings that are not ids of triggers
// are not looked up.
func (s *Server) triggerEndpoint(r *http.Request) (endpoint, error) {
	provider, id := r.PathValue("provider"), r.PathValue("trigger")
	if !isTrigger(id) {
		return endpoint{}, errUnknown
	}
	return s.lookUpEndpoint(r, "direct/"+provider+"/"+id, provider, id, func(ctx context.Context) (event.TriggerSecrets, error) {
		return s.Rows.TriggerSecrets(ctx, id)
	})
}

// customEndpoint finds the URL of a trigger for custom webhooks.
func (s *Server) customEndpoint(r *http.Request) (endpoint, error) {
	id := r.PathValue("trigger")
	if !isTrigger(id) {
		return endpoint{}, errUnknown
	}
	return s.lookUpEndpoint(r, "custom/"+id, match.CustomProvider, id, func(ctx context.Context) (event.TriggerSecrets, error) {
		return s.Rows.TriggerSecrets(ctx, id)
	})
}

func isTrigger(id string) bool { return len(id) == 36 && uuid.Validate(id) == nil }

// automationEndpoint finds the URL of the only trigger of a provider in an
// automation.
func (s *Server) automationEndpoint(provider string) resolver {
	prefix := "automation/"
	if provider == posthogProvider {
		prefix = "posthog/"
	}
	return func(r *http.Request) (endpoint, error) {
		id := r.PathValue("automation")
		return s.lookUpEndpoint(r, prefix+id, provider, id, func(ctx context.Context) (event.TriggerSecrets, error) {
			return s.Rows.WebhookTriggerSecrets(ctx, id, provider)
		})
	}
}

// lookUpEndpoint finds the trigger of a URL with an id.
func (s *Server) lookUpEndpoint(r *http.Request, path, provider, id string, look func(context.Context) (event.TriggerSecrets, error)) (endpoint, error) {
	p := s.providers[provider]
	if p == nil || p.Webhook == nil || len(id) > match.MaxID || !utf8.ValidString(id) || strings.ContainsRune(id, 0) {
		return endpoint{}, errUnknown
	}
	k, err := s.triggers.get(path, func() (*cachedTrigger, error) { return s.loadTrigger(r.Context(), look) })
	switch {
	case errors.Is(err, action.ErrNotFound):
		return endpoint{}, errUnknown
	case err != nil:
		s.Log.ErrorContext(r.Context(), "a trigger could not be read", "provider", provider, "error", err)
		return endpoint{path: path, provider: p}, errStorage
	case k.trigger.Provider != provider || k.trigger.Kind != event.Webhooks:
		return endpoint{}, errUnknown
	}
	// Deliveries to all URLs of a trigger are counted and stored under one path, so
	// that a delivery captured at one URL counts as a repeat at another.
	canonical := "direct/" + k.trigger.Provider + "/" + k.trigger.ID
	if k.trigger.Provider == match.CustomProvider {
		canonical = "custom/" + k.trigger.ID
	}
	return endpoint{path: canonical, requestedPath: path, provider: p, organization: k.trigger.Organization, trigger: &k.trigger, secrets: k.secrets}, nil
}

// loadTrigger reads a trigger and opens its secrets. Other requests wait for it, so
// it does not end with this one.
func (s *Server) loadTrigger(ctx context.Context, look func(context.Context) (event.TriggerSecrets, error)) (*cachedTrigger, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
	defer cancel()
	lock, err := look(ctx)
	if err != nil {
		return nil, err
	}
	k := &cachedTrigger{trigger: lock.Trigger}
	for _, secret := range lock.Secrets {
		plain, openErr := s.Vault.Open(action.Ref{Organization: lock.Trigger.Organization, Table: "signing_secrets", Row: secret.ID, Column: "sealed"}, secret.Sealed)
		if openErr != nil { // another secret may work
			s.Log.ErrorContext(ctx, "a secret of a trigger could not be decrypted", "trigger", lock.Trigger.ID, "secret", secret.ID, "error", openErr)
			err = openErr
			continue
		}
		if len(plain) > 0 { // anybody can sign with an empty secret
			k.secrets = append(k.secrets, plain)
		}
	}
	if len(k.secrets) == 0 && err != nil {
		return nil, err
	}
	return k, nil
}

// config is the trigger's config; nil for a provider URL.
func (e *endpoint) config() json.RawMessage {
	if e.trigger == nil {
		return nil
	}
	return e.trigger.Config
}

func (e *endpoint) maxBody() int64 {
	if n := e.provider.Webhook.MaxBody; n > 0 {
		return n
	}
	return defaultMaxBody
}

// idHeader is the header with the delivery's id; empty if there is none. The config
// of a custom webhook names it.
func (e *endpoint) idHeader(d *event.Delivery) string {
	if e.provider.ID == match.CustomProvider {
		return match.CustomIDHeader(d.Config)
	}
	return e.provider.Webhook.IDHeader
}

// deliveryID is the id that the sender repeats when it retries, or empty.
func (e *endpoint) deliveryID(d *event.Delivery) string {
	name := e.idHeader(d)
	if name == "" {
		return ""
	}
	id, _ := event.Header(d.Header, name)
	return id
}

const (
	// cacheTTL is how long a trigger and its secrets are cached. Rotated secrets and
	// disabled triggers take effect after that.
	cacheTTL = time.Second
	// maxCacheEntries bounds the cache, including entries for unknown URLs.
	maxCacheEntries = 4096
	// maxUnknownLookups bounds concurrent lookups of uncached URLs, so that a flood of
	// random ids does not delay known ones.
	maxUnknownLookups = 4
)

// cachedTrigger is a trigger with its opened secrets.
type cachedTrigger struct {
	trigger event.Trigger
	secrets [][]byte
}

// triggerCache caches lookups of URLs, also of unknown ones. Of concurrent requests
// for one URL, one does the lookup.
type triggerCache struct {
	now     func() time.Time
	slots   chan struct{} // for concurrent lookups of uncached URLs
	mu      sync.Mutex
	entries map[string]*cacheEntry
}

type cacheEntry struct {
	loadedAt time.Time
	existed  bool // the trigger existed at the previous lookup
	reloaded bool // this entry is an early reload
	stale    bool // an early reload is due
	once     sync.Once
	trigger  *cachedTrigger
	err      error
	exists   atomic.Bool
}

func newTriggerCache(now func() time.Time) *triggerCache {
	return &triggerCache{now: now, slots: make(chan struct{}, maxUnknownLookups), entries: map[string]*cacheEntry{}}
}

// get returns the trigger of a path, or the error of the lookup.
func (l *triggerCache) get(path string, look func() (*cachedTrigger, error)) (*cachedTrigger, error) {
	found := l.entry(path)
	found.once.Do(func() {
		found.err = errors.New("the lookup of a trigger was interrupted")
		if found.trigger, found.err = l.load(found, look); found.err == nil {
			found.exists.Store(true)
		} else if !errors.Is(found.err, action.ErrNotFound) {
			l.forget(path, found) // the next request tries again
		}
	})
	return found.trigger, found.err
}

// load does the lookup, within the limit for uncached URLs.
func (l *triggerCache) load(e *cacheEntry, look func() (*cachedTrigger, error)) (*cachedTrigger, error) {
	if e.existed {
		return look()
	}
	select {
	case l.slots <- struct{}{}:
	case <-time.After(lookupTimeout):
		return nil, errors.New("too many concurrent lookups of unknown URLs")
	}
	defer func() { <-l.slots }()
	return look()
}

// entry returns the entry of a path, or a new one that is to be loaded.
func (l *triggerCache) entry(path string) *cacheEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, old := l.now(), l.entries[path]
	if old != nil {
		if age := now.Sub(old.loadedAt); age >= 0 && age < cacheTTL && !old.stale {
			return old
		}
	}
	if old == nil && len(l.entries) >= maxCacheEntries {
		l.evict()
	}
	found := &cacheEntry{loadedAt: now, existed: old != nil && old.exists.Load(), reloaded: old != nil && now.Sub(old.loadedAt) < cacheTTL}
	l.entries[path] = found
	return found
}

// invalidate requests an early reload after a failed verification; false if that was
// just done.
func (l *triggerCache) invalidate(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.entries[path]
	if old == nil || old.reloaded {
		return old == nil
	}
	old.stale = true
	return true
}

// evict makes room, first by removing unknown URLs.
func (l *triggerCache) evict() {
	for path, e := range l.entries {
		if !e.existed && !e.exists.Load() {
			delete(l.entries, path)
		}
	}
	if len(l.entries) >= maxCacheEntries {
		clear(l.entries)
	}
}

func (l *triggerCache) forget(path string, found *cacheEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries[path] == found {
		delete(l.entries, path)
	}
}
