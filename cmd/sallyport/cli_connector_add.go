package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"reflect"
	"strings"

	"sallyport/action"
)

type connectorAdd struct {
	remote
	connectorFields
	connectorRules
	Name    string  `arg:"" help:"What people call it."`
	At      string  `arg:"" optional:"" name:"url" help:"Its streamable HTTP endpoint; with --preset, only to have another than the preset's."`
	Preset  string  `placeholder:"P" help:"Take endpoint and headers of a known server; see connector presets."`
	Variant string  `placeholder:"V" help:"With --preset: a region of it, or a part such as one that only reads."`
	Slug    *string `placeholder:"S" help:"Prefix of its tools' names; --slug= keeps their names (default: from the name)."`
}

func (c *connectorAdd) Run(ctx context.Context, std *stdio) error {
	switch {
	case c.At == "" && c.Preset == "":
		return wrongUse("where is it? Give its URL after the name, or a known server with --preset; see: %s", c.hint("connector", "presets"))
	case c.Variant != "" && c.Preset == "":
		return wrongUse("--variant goes with --preset")
	}
	server, err := c.connect()
	if err != nil {
		return err
	}
	body, err := c.body(std, nil)
	if err != nil {
		return err
	}
	maps.Copy(body, given{"url": c.At, "preset": c.Preset, "variant": c.Variant, "review": c.Review}.set())
	body["name"] = c.Name
	if c.Slug != nil {
		body["slug"] = *c.Slug
	}
	if len(c.ToolRisk) > 0 {
		body["tool_risks"] = c.ToolRisk
	}
	var made connectorRow
	raw, err := server.change(ctx, http.MethodPost, "/api/v1/connectors", body, &made)
	if err != nil {
		return err
	}
	made.warn(std)
	return c.print(std, raw, func(w io.Writer) { made.next(w, &c.remote, "is added") })
}

// next says what to do with a connector that nobody asked yet.
func (c *connectorRow) next(w io.Writer, r *remote, done string) {
	said(c.said() + " " + done)(w)
	if c.OAuth["kind"] == string(action.OAuthCode) {
		said("sign in at its service with: " + r.hint("connector", "sign-in", c.Name))(w)
	}
	said("see whether it can be reached with: " + r.hint("connector", "validate", c.Name))(w)
	said("say what agents may do with its tools with: " + r.hint("connector", "onboard", c.Name))(w)
}

// connectorRules say what is to be thought of a connector's tools.
type connectorRules struct {
	Review   string            `enum:"trust,strict,required," default:"" placeholder:"RULE" help:"trust (default): what it lists first counts as reviewed; strict: and changed texts are drift; required: nothing runs before its review."`
	ToolRisk map[string]string `mapsep:"none" placeholder:"TOOL=RISK" help:"Risk of one tool, whatever it says of itself; again for more, TOOL= to forget one."`
}

// connectorFields are what add, update and validate have in common.
type connectorFields struct {
	Header      *string     `placeholder:"H" help:"Header for the secret (default: Authorization)."`
	Prefix      *string     `placeholder:"P" help:"What stands before the secret, such as 'Bearer '."`
	Secret      *string     `placeholder:"KEY" help:"Secret that is sent along; see secret set."`
	SecretStdin bool        `env:"-" help:"Read the secret's value from standard input; it is saved together with the connector, under --secret or the slug."`
	WithHeader  []plainPair `sep:"none" env:"-" placeholder:"'K: V'" help:"Header that is sent along as it is and holds no secret; again for more, 'K:' to forget one."`
	MayAsk      *string     `placeholder:"KINDS" help:"What its server may ask of whoever calls: elicitation, url_elicitation, sampling, roots, with commas between; --may-ask= for nothing (default)."`
	PerAgent    *bool       `placeholder:"BOOL" help:"Whether each agent's session has a session of its own at the server: --per-agent=true or =false (default, unless it may ask)."`
	Risk        *string     `placeholder:"RISK" help:"Risk of tools that say nothing of themselves: read, write (default) or danger."`
	Timeout     *callTime   `placeholder:"D" help:"Of one call, from 1s to 2m; 0 for the gateway's (default)."`
	oauthFields
}

// oauthFields say how tokens are had that are sent in a secret's place.
type oauthFields struct {
	OAuth        string   `name:"oauth" enum:"code,client,none," default:"" env:"-" placeholder:"KIND" help:"Send tokens in a secret's place: code (somebody signs in once), client (the gateway signs in by itself) or none."`
	ClientID     *string  `env:"-" placeholder:"ID" help:"With --oauth: a client that was registered at the service by hand (default: the gateway registers itself)."`
	ClientSecret *string  `env:"-" placeholder:"KEY" help:"With --client-id: the key of the secret that is the client's; see secret set."`
	Scope        []string `sep:"none" env:"-" placeholder:"S" help:"With --oauth: a scope to ask for; again for more (default: what the server says)."`
	Issuer       *string  `env:"-" placeholder:"URL" help:"With --oauth: the one authorization server to use (default: the one that the server names)."`
}

// body is what was given, for the API. What stands now is kept where only a
// part of it is given; nil: nothing stands.
func (f *connectorFields) body(std *stdio, now *connectorRow) (map[string]any, error) {
	body := present(map[string]*string{"header": f.Header, "prefix": f.Prefix, "secret": f.Secret, "default_risk": f.Risk})
	if f.PerAgent != nil {
		body["per_agent"] = *f.PerAgent
	}
	if f.Timeout != nil {
		body["timeout_seconds"] = f.Timeout.seconds
	}
	if f.MayAsk != nil {
		body["may_ask"] = strings.FieldsFunc(*f.MayAsk, func(r rune) bool { return r == ',' || r == ' ' })
	}
	if len(f.WithHeader) > 0 {
		headers := map[string]string{}
		if now != nil {
			maps.Copy(headers, now.Headers)
		}
		for _, h := range f.WithHeader {
			maps.DeleteFunc(headers, func(name, _ string) bool { return strings.EqualFold(name, h.name) })
			if h.value != "" {
				headers[h.name] = h.value
			}
		}
		body["headers"] = headers
	}
	if err := f.oauthFields.into(body, now); err != nil {
		return nil, err
	}
	if !f.SecretStdin {
		return body, nil
	}
	value, err := readSecret(std, "connector add NAME URL --secret-stdin")
	body["secret_value"] = value
	return body, err
}

// into puts in the settings of OAuth, which the API takes as a whole.
func (f *oauthFields) into(body map[string]any, now *connectorRow) error {
	parts := present(map[string]*string{"client_id": f.ClientID, "client_secret": f.ClientSecret, "issuer": f.Issuer})
	if len(f.Scope) > 0 {
		parts["scopes"] = f.Scope
	}
	settings := map[string]any{}
	if now != nil && now.OAuth != nil {
		settings = maps.Clone(now.OAuth)
	}
	switch f.OAuth {
	case "none":
		if len(parts) > 0 {
			return wrongUse("--oauth none goes with no other flag of OAuth")
		}
		body["oauth"] = map[string]any{"kind": "none"}
		return nil
	case "code":
		settings["kind"] = action.OAuthCode
	case "client":
		settings["kind"] = action.OAuthClient
	}
	if f.OAuth == "" && len(parts) == 0 {
		return nil
	}
	if settings["kind"] == nil {
		return wrongUse("--client-id, --client-secret, --scope and --issuer go with --oauth code or --oauth client")
	}
	maps.Copy(settings, parts)
	body["oauth"] = settings
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
	remote
	connectorFields
	connectorRules
	Ref  string  `arg:"" name:"name" help:"Name, slug or id of the connector."`
	Name *string `name:"rename" placeholder:"NAME" help:"Its new name."`
	At   *string `name:"endpoint" placeholder:"URL" help:"Its new endpoint; its tools are to be reviewed again then."`
}

// Run changes what is given. Of headers, risks and OAuth the API takes the
// whole, so that what stands is read first.
func (c *connectorUpdate) Run(ctx context.Context, std *stdio) error {
	if c.Name == nil && c.At == nil && c.Review == "" && len(c.ToolRisk) == 0 && reflect.ValueOf(c.connectorFields).IsZero() {
		if c.URL != "" && c.URL != os.Getenv("SALLYPORT_URL") {
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
	if c.URL != "" { // which people take for the connector's
		if err := server.isGateway(ctx); err != nil {
			return err
		}
	}
	var now connectorRow
	if _, err := server.read(ctx, connectorPath(c.Ref), nil, &now); err != nil {
		return err
	}
	body, err := c.body(std, &now)
	if err != nil {
		return err
	}
	maps.Copy(body, present(map[string]*string{"name": c.Name, "url": c.At}))
	maps.Copy(body, given{"review": c.Review}.set())
	if len(c.ToolRisk) > 0 {
		risks := map[string]string{}
		maps.Copy(risks, now.Risks)
		maps.Copy(risks, c.ToolRisk)
		maps.DeleteFunc(risks, func(_, risk string) bool { return risk == "" })
		body["tool_risks"] = risks
	}
	if c.At == nil || *c.At == now.URL {
		return c.act(ctx, std, http.MethodPatch, connectorPath(c.Ref), body, "is changed")
	}
	return alter(ctx, &c.remote, std, http.MethodPatch, connectorPath(c.Ref), body, func(w io.Writer, now *connectorRow) {
		now.warn(std)
		now.next(w, &c.remote, "is changed")
	})
}
