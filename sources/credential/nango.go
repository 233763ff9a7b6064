package credential

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

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
