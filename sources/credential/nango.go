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
	// nangoLife is how long one of its tokens is used without asking again: it
	// may be revoked there meanwhile.
	nangoLife = 5 * time.Minute
	// nangoFlow is the tag that ties a connection to the flow that asked for it.
	nangoFlow = "sallyport_flow"
)

// nangoConnection is what Nango says of one.
type nangoConnection struct {
	Tags        map[string]string `json:"tags"`
	Credentials struct {
		Access    string     `json:"access_token"`
		Key       string     `json:"apiKey"`
		ExpiresAt *time.Time `json:"expires_at"`
	} `json:"credentials"`
}

func (c *nangoConnection) token() string {
	if c.Credentials.Access != "" {
		return c.Credentials.Access
	}
	return c.Credentials.Key
}

// nango makes a request to the organization's Nango.
func (t *Tokens) nango(ctx context.Context, app *registration, r *outbound.Request, path string, q url.Values) (*outbound.Response, error) {
	key, err := app.need(action.AppAPIKey)
	if err != nil {
		return nil, err
	}
	r.Header = http.Header{"Authorization": {"Bearer " + key}}
	if r.Body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return t.send(ctx, "nango:"+app.Organization, nangoBase(app)+path+"?"+q.Encode(), r, key)
}

// nangoBase is the URL of the organization's Nango.
func nangoBase(app *registration) string {
	return cmp.Or(strings.TrimSuffix(app.BaseURL, "/"), nangoURL)
}

// nangoKey is the broker's name of a provider.
func nangoKey(app *registration, provider string) string {
	if key := app.Keys[provider]; key != "" {
		return key
	}
	return provider
}

// nangoConnection fetches a connection. The status is Nango's, where it has no
// connection to show.
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
		return nil, 0, nangoRefused(a)
	}
	c = &nangoConnection{}
	if json.Unmarshal(a.Body, c) != nil || c.token() == "" || strings.ContainsFunc(c.token(), notToken) {
		return nil, 0, failing(sources.FaultProtocol, nil, "Nango's answer holds no token that can be used; check the connection there.")
	}
	return c, http.StatusOK, nil
}

func nangoRefused(a *outbound.Response) error {
	switch a.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return failing(sources.FaultAuth, nil, "Nango does not take the gateway's API key (%d); an owner or admin must set it again.", a.Status)
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return failing(sources.FaultConfig, nil, "Nango did not understand the request (%d); check the provider names in the registration of Nango.", a.Status)
	}
	return failing(sources.FaultFailed, nil, "Nango failed (%d); try again later.", a.Status)
}

// brokersToken has Nango give the token that it keeps. anew: the one before was
// refused.
func (t *Tokens) brokersToken(ctx context.Context, h *owned, anew bool) (m minted, err error) {
	app, err := t.registration(ctx, h.in.Organization, string(action.BrokerNango))
	if err != nil {
		return m, err
	}
	c, status, err := t.nangoConnection(ctx, app, h.cred.Connection, h.cred.Key, anew)
	switch {
	case err != nil:
		return m, err
	case status == http.StatusFailedDependency:
		return m, t.bury(ctx, h, action.IntegrationExpired, "Nango cannot renew the access any more (424): reconnect needed.")
	case status == http.StatusNotFound:
		return m, t.bury(ctx, h, action.IntegrationRevoked, "Nango has no such connection any more (404); connect it again.")
	}
	m.token, m.until = c.token(), t.Now().Add(nangoLife)
	if end := c.Credentials.ExpiresAt; end != nil && end.Before(m.until) {
		m.until = *end
	}
	return m, nil
}

// nangoSession has Nango begin a connection for a flow.
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
		return step, nangoRefused(a)
	}
	var got struct {
		Data struct {
			Token     string    `json:"token"`
			Link      string    `json:"connect_link"`
			ExpiresAt time.Time `json:"expires_at"`
		} `json:"data"`
	}
	if json.Unmarshal(a.Body, &got) != nil || got.Data.Token == "" {
		return step, failing(sources.FaultProtocol, nil, "Nango's answer holds no connect session; try again later.")
	}
	step.Token, step.ExpiresAt = got.Data.Token, got.Data.ExpiresAt
	if u, err := url.Parse(got.Data.Link); err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" {
		step.URL = got.Data.Link
	}
	return step, nil
}

// brokeredFor is how long the connections at the broker are taken as they were
// read: a delivery of a new one that comes sooner is tried again.
const brokeredFor = 5 * time.Second

// brokered knows which integrations the broker keeps as which connections.
type brokered struct {
	one  singleflight.Group
	last atomic.Pointer[connections] // nil: they were never read
}

// connections are those at one Nango. They do not change.
type connections struct {
	operator string
	readAt   time.Time
	found    map[connection][]action.Integration
}

// connection is one at the broker, as the broker names it.
type connection struct{ id, key string }

// Brokered returns the integrations that the operator's Nango keeps as a
// connection under one of its names for a provider, without credentials: whose
// event a delivery of it is. They are those of all organizations that use the
// operator's Nango with its API key: at any other, who runs it names connections
// as he likes. A connection that several of them claim is nobody's, since its id
// is all that tells whose it is.
func (t *Tokens) Brokered(ctx context.Context, operator, id, key string) ([]action.Integration, error) {
	all, err := t.connections(ctx, operator)
	if err != nil {
		return nil, err
	}
	list := all.found[connection{id, key}]
	for _, in := range list {
		if in.Organization != list[0].Organization {
			return nil, action.NewError("connection_claimed")
		}
	}
	return list, nil
}

// connections returns those that were read a moment ago, or has them read, for
// all who ask meanwhile at once.
func (t *Tokens) connections(ctx context.Context, operator string) (*connections, error) {
	b := &t.brokered
	recent := func() *connections {
		if last := b.last.Load(); last != nil && last.operator == operator && t.Now().Sub(last.readAt) <= brokeredFor {
			return last
		}
		return nil
	}
	if last := recent(); last != nil {
		return last, nil
	}
	reading := b.one.DoChan(operator, func() (any, error) {
		if last := recent(); last != nil { // they were read in this moment
			return last, nil
		}
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), t.Timeout) // it is for others, too
		defer stop()
		read, err := t.readConnections(ctx, operator)
		if err == nil {
			b.last.Store(read)
		}
		return read, err
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case got := <-reading:
		return got.Val.(*connections), got.Err
	}
}

// readConnections reads them all. What cannot be opened is left out, and told.
func (t *Tokens) readConnections(ctx context.Context, operator string) (*connections, error) {
	all := &connections{operator: operator, readAt: t.Now(), found: map[connection][]action.Integration{}}
	list, err := t.Store.BrokeredIntegrations(ctx, action.BrokerNango)
	if err != nil {
		return nil, fmt.Errorf("reading which connections the broker keeps: %w", err)
	}
	theirs, err := t.nangoOf(ctx, operator)
	if err != nil || theirs == nil {
		return all, err
	}
	shares := map[string]bool{operator: true}
	for _, in := range list {
		same, known := shares[in.Organization]
		if !known {
			app, err := t.nangoOf(ctx, in.Organization)
			if err != nil {
				return nil, err
			}
			same = theirs.sameNango(app)
			shares[in.Organization] = same
		}
		if same {
			t.addConnection(all, in)
		}
	}
	return all, nil
}

func (t *Tokens) addConnection(all *connections, in action.Integration) {
	var c cred
	if err := unseal(t.Vault, integrationRef(in.Organization, in.ID), in.Sealed, &c); err != nil {
		t.Log.Error("opening the credential of an integration", "integration", in.ID, "error", err)
		return
	}
	in.Sealed = nil
	at := connection{c.Connection, c.Key}
	all.found[at] = append(all.found[at], in)
}

// nangoOf returns an organization's registration at Nango; nil: it has none that
// can be used, which is told where it is broken.
func (t *Tokens) nangoOf(ctx context.Context, organization string) (*registration, error) {
	app, err := t.Store.ProviderApp(ctx, organization, string(action.BrokerNango))
	if errors.Is(err, action.ErrNotFound) {
		return nil, nil //nolint:nilnil // there is none, which is no error
	}
	if err != nil {
		return nil, fmt.Errorf("reading who uses which Nango: %w", err)
	}
	r, err := t.opened(app)
	if err != nil {
		t.Log.Error("opening a registration at Nango", "organization", organization, "error", err)
		return nil, nil //nolint:nilnil // nobody else has to do with it
	}
	return r, nil
}

// sameNango reports whether both are used at the same place with the same key.
func (r *registration) sameNango(other *registration) bool {
	if other == nil || nangoBase(r) != nangoBase(other) {
		return false
	}
	mine, theirs := r.secrets[action.AppAPIKey], other.secrets[action.AppAPIKey]
	return mine != "" && subtle.ConstantTimeCompare([]byte(mine), []byte(theirs)) == 1
}
