package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

type connectorAdd struct {
	remote
	connectorFields
	connectorRules
	Name string `arg:"" help:"Name of the connector."`
	At   string `arg:"" optional:"" name:"url" help:"Streamable HTTP endpoint; with --preset, only to override it."`
	api.FromPreset
	Slug *string `placeholder:"S" help:"Prefix of the tool names; --slug= for none (default: derived from the name)."`
}

func (c *connectorAdd) Run(ctx context.Context, std *stdio) error {
	switch {
	case c.At == "" && c.Preset == "":
		return wrongUse("where is it? Give its URL after the name, or a known server with --preset; see: %s", c.hint("connector", "presets"))
	case c.Variant != "" && c.Preset == "":
		return wrongUse("--variant goes with --preset")
	}
	if err := c.complete(std, new(action.Connector)); err != nil {
		return err
	}
	if c.At != "" {
		c.Upstream.URL = &c.At
	}
	c.ToolRules = c.rules(nil)
	made := api.NewConnector{Name: c.Name, Slug: c.Slug, FromPreset: c.FromPreset, Upstream: c.Upstream}
	return alterConnector(ctx, &c.remote, std, api.CreateConnector, api.Body[api.NewConnector]{Body: made}, c.nowWhat("is added"))
}

// nowWhat says what to do with a connector that nobody asked yet.
func (r *remote) nowWhat(done string) func(io.Writer, *api.ConnectorView) {
	return func(w io.Writer, c *api.ConnectorView) {
		connectorIs(done)(w, c)
		if hasOAuth(c, action.OAuthCode) {
			said("sign in to its service: " + r.hint("connector", "sign-in", c.Name))(w)
		}
		said("test the connection: " + r.hint("connector", "validate", c.Name))(w)
		said("set the modes of its tools: " + r.hint("connector", "onboard", c.Name))(w)
	}
}

// connectorRules say what is to be thought of a connector's tools.
type connectorRules struct {
	Review   action.ReviewRule      `enum:"trust,strict,required," default:"" placeholder:"RULE" help:"Review rule: trust (the first list counts as reviewed), strict (changed texts are drift too) or required (nothing runs before review) (default: trust)."`
	ToolRisk map[string]action.Risk `field:"tool_risks" mapsep:"none" placeholder:"TOOL=RISK" help:"Risk of one tool, overriding its hints; repeat for more, TOOL= to clear."`
}

// rules are what was given, for the API, which takes all risks together: those
// that stand now stay.
func (r *connectorRules) rules(now map[string]action.Risk) (out api.ToolRules) {
	if r.Review != "" {
		out.Review = &r.Review
	}
	if len(r.ToolRisk) > 0 {
		risks := map[string]action.Risk{}
		maps.Copy(risks, now)
		maps.Copy(risks, r.ToolRisk)
		maps.DeleteFunc(risks, func(_ string, risk action.Risk) bool { return risk == "" })
		out.Risks = &risks
	}
	return out
}

// connectorFields are what add, update and validate have in common.
type connectorFields struct {
	api.Upstream
	SecretStdin bool        `field:"secret_value" env:"-" help:"Read the secret from standard input and save it with the connector."`
	WithHeader  []plainPair `field:"headers" sep:"none" env:"-" placeholder:"'K: V'" help:"Fixed header without a secret; repeat for more, 'K:' to remove."`
	MayAsk      *string     `placeholder:"KINDS" help:"Questions the server may ask: elicitation, url_elicitation, sampling, roots, comma-separated; --may-ask= for none (default: none)."`
	oauthFields
}

// oauthFields say how tokens are had that are sent in a secret's place.
type oauthFields struct {
	OAuth        string   `name:"oauth" field:"oauth,kind" enum:"code,client,none," default:"" env:"-" placeholder:"KIND" help:"Use OAuth tokens instead of a secret: code (a person signs in once), client (client credentials) or none."`
	ClientID     *string  `env:"-" placeholder:"ID" help:"OAuth client registered at the service (default: automatic registration)."`
	ClientSecret *string  `env:"-" placeholder:"KEY" help:"Name of the secret that holds the client secret; see secret set."`
	Scope        []string `field:"scopes" sep:"none" env:"-" placeholder:"S" help:"OAuth scope to request; repeat for more (default: the server's scopes)."`
	Issuer       *string  `env:"-" placeholder:"URL" help:"OAuth authorization server (default: the one the server names)."`
}

// complete puts into what is sent what was given in another form than the API
// takes. Of headers and OAuth that is the whole: what stands now stays.
func (f *connectorFields) complete(std *stdio, now *action.Connector) (err error) {
	if f.MayAsk != nil {
		kinds := []action.AskKind{}
		for _, kind := range strings.FieldsFunc(*f.MayAsk, func(r rune) bool { return r == ',' || r == ' ' }) {
			kinds = append(kinds, action.AskKind(kind))
		}
		f.Upstream.MayAsk = &kinds
	}
	if len(f.WithHeader) > 0 {
		headers := map[string]string{}
		maps.Copy(headers, now.Headers)
		for _, h := range f.WithHeader {
			maps.DeleteFunc(headers, func(name, _ string) bool { return strings.EqualFold(name, h.name) })
			if h.value != "" {
				headers[h.name] = h.value
			}
		}
		f.Headers = &headers
	}
	if f.Upstream.OAuth, err = f.settings(now.OAuth); err != nil || !f.SecretStdin {
		return err
	}
	f.SecretValue, err = readSecret(std, "connector add NAME URL --secret-stdin")
	return err
}

// settings are those of OAuth, which the API takes as a whole; nil: none were
// given.
func (f *oauthFields) settings(now *action.OAuthSettings) (*api.NewOAuth, error) {
	parts := f.ClientID != nil || f.ClientSecret != nil || f.Issuer != nil || len(f.Scope) > 0
	switch {
	case f.OAuth == "none" && parts:
		return nil, wrongUse("--oauth none goes with no other flag of OAuth")
	case f.OAuth == "none":
		return &api.NewOAuth{Kind: "none"}, nil
	case f.OAuth == "" && !parts:
		return nil, nil
	}
	var o api.NewOAuth
	if now != nil {
		o = api.NewOAuth{Kind: string(now.Kind), ClientID: now.ClientID, ClientSecret: now.ClientSecret, Scopes: now.Scopes, Issuer: now.Issuer}
	}
	switch f.OAuth {
	case "code":
		o.Kind = string(action.OAuthCode)
	case "client":
		o.Kind = string(action.OAuthClient)
	}
	if o.Kind == "" {
		return nil, wrongUse("--client-id, --client-secret, --scope and --issuer go with --oauth code or --oauth client")
	}
	if len(f.Scope) > 0 {
		o.Scopes = f.Scope
	}
	for field, given := range map[*string]*string{&o.ClientID: f.ClientID, &o.ClientSecret: f.ClientSecret, &o.Issuer: f.Issuer} {
		if given != nil {
			*field = *given
		}
	}
	return &o, nil
}

// plainPair is a header as it is written: Name: value.
type plainPair struct{ name, value string }

// UnmarshalText reads a flag.
func (p *plainPair) UnmarshalText(text []byte) error {
	name, value, ok := strings.Cut(string(text), ":")
	if p.name, p.value = strings.TrimSpace(name), strings.TrimSpace(value); !ok || p.name == "" {
		return fmt.Errorf("%q is no header; write it as 'Name: value'", text)
	}
	return nil
}

type connectorUpdate struct {
	theConnector
	connectorFields
	connectorRules
	Name *string `name:"rename" field:"name" placeholder:"NAME" help:"New name."`
	At   *string `name:"endpoint" field:"url" placeholder:"URL" help:"New endpoint; its tools need a new review."`
}

// Run changes what is given. Of headers, risks and OAuth the API takes the
// whole, so that what stands is read first.
func (c *connectorUpdate) Run(ctx context.Context, std *stdio) error {
	if c.Name == nil && c.At == nil && c.Review == "" && len(c.ToolRisk) == 0 && reflect.ValueOf(c.connectorFields).IsZero() {
		if c.remote.URL != "" && c.remote.URL != os.Getenv("SALLYPORT_URL") {
			return wrongUse("nothing to change: --url is the gateway's address; the connector's is --endpoint")
		}
		return wrongUse("nothing to change: give one of the flags that connector update --help lists")
	}
	server, err := c.connect()
	if wrong := new(usageError); errors.As(err, wrong) {
		return wrongUse("%w; the connector's is --endpoint", err)
	}
	if err != nil {
		return err
	}
	if c.remote.URL != "" { // which people take for the connector's
		if err := server.isGateway(ctx); err != nil {
			return err
		}
	}
	now, _, err := fetch(ctx, server, api.GetConnector, c.ref())
	if err != nil {
		return err
	}
	if err := c.complete(std, &now.Connector); err != nil {
		return err
	}
	c.Upstream.URL = c.At
	c.ToolRules = c.rules(now.Risks)
	changed := connectorIs("is changed")
	if c.At != nil && *c.At != now.URL {
		changed = c.nowWhat("is changed")
	}
	body := api.ConnectorChange{Name: c.Name, Upstream: c.Upstream}
	return alterConnector(ctx, &c.remote, std, api.UpdateConnector, api.ByRefWith[api.ConnectorChange]{ByRef: c.ref(), Body: body}, changed)
}
