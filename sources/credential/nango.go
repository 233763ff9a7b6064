package credential

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/sources"
)

const (
	nangoURL = "https://api.nango.dev"
	// nangoLife is how long a token is used before asking again: it can be
	// revoked at Nango meanwhile.
	nangoLife = 5 * time.Minute
	// nangoFlow is the tag that links a connection to the flow that created it.
	nangoFlow = "sallyport_flow"
)

// nangoConnection is a connection at Nango.
type nangoConnection struct {
	Tags        map[string]string `json:"tags"`
	Credentials struct {
		Access    string     `json:"access_token"`
		Key       string     `json:"apiKey"`
		ExpiresAt *time.Time `json:"expires_at"`
	} `json:"credentials"`
}

func (c *nangoConnection) token() string { return cmp.Or(c.Credentials.Access, c.Credentials.Key) }

// nango sends a request to the organization's Nango.
func (t *Tokens) nango(ctx context.Context, app *registration, r *outbound.Request, path string, q url.Values) (*outbound.Response, error) {
	key, err := app.secret(action.AppAPIKey)
	if err != nil {
		return nil, err
	}
	r.Header = http.Header{"Authorization": {"Bearer " + key}}
	if r.Body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return t.send(ctx, "nango:"+app.Organization, nangoBase(app)+path+"?"+q.Encode(), r, key)
}

// nangoBase returns the URL of the organization's Nango.
func nangoBase(app *registration) string {
	return cmp.Or(strings.TrimSuffix(app.BaseURL, "/"), nangoURL)
}

// nangoConnection fetches a connection. Without one it returns Nango's status.
func (t *Tokens) nangoConnection(ctx context.Context, app *registration, id, key string, anew bool) (c *nangoConnection, status int, err error) {
	q := url.Values{"provider_config_key": {key}}
	if anew {
		q.Set("force_refresh", "true")
	}
	a, err := t.nango(ctx, app, &outbound.Request{Method: http.MethodGet, Repeatable: true}, outbound.Path("connections", id), q)
	switch {
	case err != nil:
		return nil, 0, err
	case a.Status == http.StatusNotFound || a.Status == http.StatusFailedDependency:
		return nil, a.Status, nil
	case a.Status != http.StatusOK:
		return nil, 0, nangoError(a)
	}
	c = &nangoConnection{}
	if json.Unmarshal(a.Body, c) != nil || c.token() == "" || strings.ContainsFunc(c.token(), invalidTokenChar) {
		return nil, 0, unavailable(sources.FaultProtocol, nil, "Nango's response has no valid token. Check the connection there.")
	}
	return c, http.StatusOK, nil
}

func nangoError(a *outbound.Response) error {
	switch a.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return unavailable(sources.FaultAuth, nil, "Nango does not accept the gateway's API key (%d). An owner or admin must set it again.", a.Status)
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return unavailable(sources.FaultConfig, nil, "Nango rejected the request (%d). Check the provider names in the Nango registration.", a.Status)
	}
	return unavailable(sources.FaultFailed, nil, "Nango failed (%d). Retry later.", a.Status)
}

// nangoToken requests the current token from Nango. anew: the previous one was
// refused.
func (t *Tokens) nangoToken(ctx context.Context, h *storedIntegration, anew bool) (m cachedToken, err error) {
	app, err := t.registration(ctx, h.in.Organization, string(action.BrokerNango))
	if err != nil {
		return m, err
	}
	c, status, err := t.nangoConnection(ctx, app, h.secrets.Connection, h.secrets.Key, anew)
	switch {
	case err != nil:
		return m, err
	case status == http.StatusFailedDependency:
		return m, t.markUnusable(ctx, h, action.IntegrationExpired, "Nango can no longer renew the access (424). Connect it again.")
	case status == http.StatusNotFound:
		return m, t.markUnusable(ctx, h, action.IntegrationRevoked, "Nango no longer has this connection (404). Connect it again.")
	}
	m.token, m.usableUntil = c.token(), t.Now().Add(nangoLife)
	if end := c.Credentials.ExpiresAt; end != nil && end.Before(m.usableUntil) {
		m.usableUntil = *end
	}
	return m, nil
}

// nangoSession starts a connection at Nango for a flow.
func (t *Tokens) nangoSession(ctx context.Context, app *registration, f *action.IntegrationFlow, key string) (action.ConnectStep, error) {
	var step action.ConnectStep
	body, err := json.Marshal(map[string]any{
		"tags":                 map[string]string{"end_user_id": f.By, "organization_id": f.Organization, nangoFlow: f.StateHash},
		"allowed_integrations": []string{key},
	})
	if err != nil {
		return step, err
	}
	a, err := t.nango(ctx, app, &outbound.Request{Method: http.MethodPost, Body: body}, "/connect/sessions", nil)
	if err != nil {
		return step, err
	}
	if a.Status != http.StatusCreated && a.Status != http.StatusOK {
		return step, nangoError(a)
	}
	var got struct {
		Data struct {
			Token     string    `json:"token"`
			Link      string    `json:"connect_link"`
			ExpiresAt time.Time `json:"expires_at"`
		} `json:"data"`
	}
	if json.Unmarshal(a.Body, &got) != nil || got.Data.Token == "" {
		return step, unavailable(sources.FaultProtocol, nil, "Nango's response has no connect session. Retry later.")
	}
	step.Token, step.ExpiresAt = got.Data.Token, got.Data.ExpiresAt
	if u, err := url.Parse(got.Data.Link); err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" {
		step.URL = got.Data.Link
	}
	return step, nil
}

// brokeredTTL is how long the list of the broker's connections is cached. A
// delivery of a newer connection is retried.
const brokeredTTL = 5 * time.Second

// brokeredConnections caches which integrations the broker holds as which
// connections.
type brokeredConnections struct {
	group  singleflight.Group
	latest atomic.Pointer[connectionList] // nil: never read
}

// connectionList is the list of connections at one Nango. It is immutable.
type connectionList struct {
	operator     string
	readAt       time.Time
	integrations map[connectionKey][]action.Integration
}

// connectionKey identifies a connection at the broker.
type connectionKey struct{ id, key string }

// Brokered returns the integrations, without credentials, that the operator's
// Nango holds as a connection under one of its provider names: they receive its
// deliveries. It includes all organizations that use the operator's Nango with
// its API key; the operator of any other Nango can choose connection names at
// will. A connection that several organizations claim belongs to none, since
// nothing but its ID identifies the owner.
func (t *Tokens) Brokered(ctx context.Context, operator, id, key string) ([]action.Integration, error) {
	all, err := t.connections(ctx, operator)
	if err != nil {
		return nil, err
	}
	list := all.integrations[connectionKey{id, key}]
	for _, in := range list {
		if in.Organization != list[0].Organization {
			return nil, action.NewError("connection_claimed")
		}
	}
	return list, nil
}

// connections returns the cached list, or reads it once for all concurrent
// callers.
func (t *Tokens) connections(ctx context.Context, operator string) (*connectionList, error) {
	b := &t.brokered
	recent := func() *connectionList {
		if last := b.latest.Load(); last != nil && last.operator == operator && t.Now().Sub(last.readAt) <= brokeredTTL {
			return last
		}
		return nil
	}
	if last := recent(); last != nil {
		return last, nil
	}
	reading := b.group.DoChan(operator, func() (any, error) {
		if last := recent(); last != nil { // read meanwhile
			return last, nil
		}
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), t.Timeout) // other callers share the result
		defer stop()
		read, err := t.readConnections(ctx, operator)
		if err == nil {
			b.latest.Store(read)
		}
		return read, err
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case got := <-reading:
		return got.Val.(*connectionList), got.Err
	}
}

// readConnections reads the list. Credentials that cannot be unsealed are
// skipped and logged.
func (t *Tokens) readConnections(ctx context.Context, operator string) (*connectionList, error) {
	all := &connectionList{operator: operator, readAt: t.Now(), integrations: map[connectionKey][]action.Integration{}}
	list, err := t.Store.BrokeredIntegrations(ctx, action.BrokerNango)
	if err != nil {
		return nil, fmt.Errorf("reading which connections the broker keeps: %w", err)
	}
	theirs, err := t.nangoRegistration(ctx, operator)
	if err != nil || theirs == nil {
		return all, err
	}
	shares := map[string]bool{operator: true}
	for _, in := range list {
		same, known := shares[in.Organization]
		if !known {
			app, err := t.nangoRegistration(ctx, in.Organization)
			if err != nil {
				return nil, err
			}
			same = theirs.sameNango(app)
			shares[in.Organization] = same
		}
		if !same {
			continue
		}
		var c secrets
		if err := unseal(t.Vault, integrationRef(in.Organization, in.ID), in.Sealed, &c); err != nil {
			t.Log.Error("could not decrypt the credential of an integration", "integration", in.ID, "error", err)
			continue
		}
		in.Sealed = nil
		at := connectionKey{c.Connection, c.Key}
		all.integrations[at] = append(all.integrations[at], in)
	}
	return all, nil
}

// nangoRegistration returns an organization's registration at Nango. Nil: none,
// or a broken one, which is logged.
func (t *Tokens) nangoRegistration(ctx context.Context, organization string) (*registration, error) {
	app, err := t.Store.ProviderApp(ctx, organization, string(action.BrokerNango))
	if errors.Is(err, action.ErrNotFound) {
		return nil, nil //nolint:nilnil // there is none, which is no error
	}
	if err != nil {
		return nil, fmt.Errorf("reading who uses which Nango: %w", err)
	}
	r, err := t.unsealRegistration(app)
	if err != nil {
		t.Log.Error("could not decrypt a registration at Nango", "organization", organization, "error", err)
		return nil, nil //nolint:nilnil // other organizations are not affected
	}
	return r, nil
}

// sameNango reports whether both use the same Nango with the same key.
func (r *registration) sameNango(other *registration) bool {
	if other == nil || nangoBase(r) != nangoBase(other) {
		return false
	}
	mine, theirs := r.secrets[action.AppAPIKey], other.secrets[action.AppAPIKey]
	return mine != "" && subtle.ConstantTimeCompare([]byte(mine), []byte(theirs)) == 1
}
