package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
)

type integrationProviders struct{ remote }

// providerRow is a service that can be connected.
type providerRow struct {
	ID       string          `json:"id"`
	Title    string          `json:"title"`
	About    string          `json:"about"`
	Needs    []providerNeed  `json:"needs"`
	Settings json.RawMessage `json:"settings_schema"`
	Actions  []struct {
		Name string `json:"name"`
	} `json:"actions"`
}

// providerNeed is a way to connect one.
type providerNeed struct {
	Kind action.IntegrationKind `json:"kind"`
	Hint string                 `json:"hint"`
}

// here tells that a command can do it; otherwise it takes a browser.
func (n providerNeed) here() bool {
	return n.Kind != action.KindOAuth2 && n.Kind != action.KindApp
}

func (c *integrationProviders) Run(ctx context.Context, std *stdio) error {
	return show(ctx, &c.remote, std, integrationsPath+"/providers", nil, func(w io.Writer, providers *list[providerRow]) {
		rows := make([][]string, 0, len(providers.Items))
		for _, p := range providers.Items {
			rows = append(rows, []string{p.ID, p.Title, p.kinds(), strconv.Itoa(len(p.Actions))})
		}
		table(w, []string{"PROVIDER", "SERVICE", "CONNECTED WITH", "ACTIONS"}, rows)
	})
}

func (p *providerRow) kinds() string {
	var kinds []string
	for _, n := range p.Needs {
		kinds = append(kinds, string(n.Kind))
	}
	return strings.Join(kinds, ", ")
}

type integrationConnect struct {
	remote
	Provider string                 `arg:"" help:"The service; see integration providers."`
	Kind     action.IntegrationKind `enum:"api_key,bot_token,oauth2,app_installation,none," default:"" placeholder:"KIND" help:"How: api_key, bot_token, none, or in the browser oauth2 or app_installation (default: the first that needs no browser)."`
	Nango    bool                   `field:"broker" env:"-" help:"Sign in through Nango, which keeps the tokens."`
	connectFields
}

// connectFields are what may be said of a connection here; in the browser the
// page asks for it.
type connectFields struct {
	Name     *string     `placeholder:"NAME" help:"What people here call it (default: made of service and account)."`
	Own      bool        `env:"-" help:"Your own connection, used where an action bears your name."`
	Private  bool        `field:"visibility" env:"-" help:"To be seen and used by you alone."`
	BaseURL  *string     `env:"-" placeholder:"URL" help:"Of the service's API, where it is not the provider's; the credential is sent to its host alone."`
	Settings *jsonObject `env:"-" placeholder:"JSON" help:"Settings of the service as an object."`
	Timeout  *callTime   `field:"timeout_seconds" placeholder:"D" help:"Of one call, from 1s to 2m; 0 for the gateway's (default)."`
}

func (f *connectFields) body() map[string]any {
	body := present(map[string]*string{"name": f.Name, "base_url": f.BaseURL})
	if f.Own {
		body["own"] = true
	}
	if f.Private {
		body["visibility"] = action.VisiblePrivate
	}
	if f.Settings != nil {
		body["settings"] = f.Settings.JSON
	}
	if f.Timeout != nil {
		body["timeout_seconds"] = f.Timeout.seconds
	}
	return body
}

func (c *integrationConnect) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	var providers list[providerRow]
	if _, err := server.read(ctx, integrationsPath+"/providers", nil, &providers); err != nil {
		return err
	}
	i := slices.IndexFunc(providers.Items, func(p providerRow) bool { return p.ID == c.Provider })
	if i < 0 {
		return fmt.Errorf("there is no provider %q; see: %s", c.Provider, c.hint("integration", "providers"))
	}
	need, err := c.need(&providers.Items[i])
	if err != nil {
		return err
	}
	body := c.body()
	if !need.here() {
		if len(body) > 0 {
			return wrongUse("%s is connected in the browser, where the page asks for name, settings and the rest; leave those flags out", c.Provider)
		}
		return c.inBrowser(ctx, std, server, &providers.Items[i], need)
	}
	body["provider"], body["kind"] = c.Provider, need.Kind
	if need.Kind != action.KindNone {
		if body["secret"], err = readSecret(std, "integration connect "+c.Provider); err != nil {
			return err
		}
	}
	status, raw, err := server.ask(ctx, http.MethodPost, integrationsPath, nil, body)
	if err != nil {
		return err
	}
	var made integrationRow
	if err := decode(raw, &made); err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) { made.next(w, &c.remote, status == http.StatusOK) })
}

// need is how the service is to be connected.
func (c *integrationConnect) need(p *providerRow) (providerNeed, error) {
	kind := c.Kind
	if c.Nango {
		if kind != "" && kind != action.KindOAuth2 {
			return providerNeed{}, wrongUse("--nango keeps tokens of kind oauth2; leave --kind out")
		}
		kind = action.KindOAuth2
	}
	i := slices.IndexFunc(p.Needs, func(n providerNeed) bool { return n.Kind == kind || kind == "" && n.here() })
	switch {
	case i >= 0:
		return p.Needs[i], nil
	case kind == "" && len(p.Needs) > 0:
		return p.Needs[0], nil
	}
	return providerNeed{}, wrongUse("%s is not connected with %s; --kind may be: %s", p.Title, kind, p.kinds())
}

// next says what to do with an integration that was just connected, or connected
// again.
func (in *integrationRow) next(w io.Writer, r *remote, again bool) {
	if again {
		said(in.said() + " is renewed, for the account " + in.account() + ", which was connected before; the sessions that see it still do")(w)
		return
	}
	said(in.said() + " is connected, for the account " + in.account())(w)
	if in.User != "" {
		said("it is used in your own sessions, where an action bears your name")(w)
		return
	}
	said("agents see it in sessions that are minted with: " + r.hint("session", "create", "--connect", in.ID))(w)
}

type integrationUpdate struct {
	which
	Name        *string     `placeholder:"NAME" help:"What people here call it."`
	Private     bool        `field:"visibility" env:"-" xor:"visibility" help:"To be seen and used by you alone, who made it."`
	Public      bool        `env:"-" xor:"visibility" help:"To be seen and used by the whole organization."`
	Settings    *jsonObject `env:"-" placeholder:"JSON" help:"Settings of the service as an object, in place of all before."`
	Timeout     *callTime   `field:"timeout_seconds" placeholder:"D" help:"Of one call, from 1s to 2m; 0 for the gateway's."`
	SecretStdin bool        `env:"-" help:"Read another key or token of the same account from standard input."`
}

func (c *integrationUpdate) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	fields := connectFields{Name: c.Name, Private: c.Private, Settings: c.Settings, Timeout: c.Timeout}
	body := fields.body()
	if c.Public {
		body["visibility"] = action.VisibleOrganization
	}
	if len(body) == 0 && !c.SecretStdin {
		return wrongUse("nothing to change: give one of the flags that integration update --help lists")
	}
	path, err := c.path(ctx, server)
	if err != nil {
		return err
	}
	if c.SecretStdin {
		if body["secret"], err = readSecret(std, "integration update REF --secret-stdin"); err != nil {
			return err
		}
	}
	return alter(ctx, &c.remote, std, http.MethodPatch, path, body, func(w io.Writer, in *integrationRow) { in.report(w) })
}

// jsonObject is an object as somebody wrote it.
type jsonObject struct{ JSON json.RawMessage }

// UnmarshalText reads a flag.
func (o *jsonObject) UnmarshalText(text []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil || members == nil {
		return fmt.Errorf("%q is no JSON object; write one such as '{\"repositories\":[\"acme/site\"]}'", text)
	}
	o.JSON = slices.Clone(text)
	return nil
}

// callTime is how long one call may take, in whole seconds.
type callTime struct{ seconds int }

// UnmarshalText reads a flag.
func (t *callTime) UnmarshalText(text []byte) error {
	d, err := span(string(text))
	if err != nil || d < 0 || d > action.MaxTimeout || d%time.Second != 0 {
		return fmt.Errorf("%q is no time for a call; write whole seconds up to 2m, such as 90s, or 0 for the gateway's", text)
	}
	t.seconds = int(d / time.Second)
	return nil
}

// present keeps the fields that were given, also those given as empty.
func present(fields map[string]*string) map[string]any {
	body := make(map[string]any)
	for name, value := range fields {
		if value != nil {
			body[name] = *value
		}
	}
	return body
}
