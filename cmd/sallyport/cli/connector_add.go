package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
)

type connectorAdd struct {
	clientFlags
	connectorFields
	connectorRules
	Name string `arg:"" help:"Name of the connector."`
	At   string `arg:"" optional:"" name:"url" help:"Streamable HTTP endpoint; with --preset, only to override it."`
	api.FromPreset
	Slug    *string        `placeholder:"S" help:"Prefix of the tool names; --slug= for none (default: derived from the name)."`
	Profile action.Profile `enum:"ask,strict,read-only,trust-hints" default:"ask" env:"-" placeholder:"P" help:"Modes of its tools: ask (reads are allowed, the rest asks), strict (destructive tools are denied), read-only (only reads) or trust-hints (tools declared as not destructive are allowed too) (default: ask)."`
}

func (c *connectorAdd) Run(ctx context.Context, std *command.Streams) error {
	switch {
	case c.At == "" && c.Preset == "":
		return command.UsageErrorf("pass the URL after the name, or a known server with --preset; see: %s", c.hint("connector", "presets"))
	case c.Variant != "" && c.Preset == "":
		return command.UsageErrorf("--variant needs --preset")
	}
	if err := c.fill(std, new(action.Connector)); err != nil {
		return err
	}
	if c.At != "" {
		c.Upstream.URL = &c.At
	}
	c.ToolRules = c.rules(nil)
	body := api.NewConnector{Name: c.Name, Slug: c.Slug, Profile: c.Profile, FromPreset: c.FromPreset, Upstream: c.Upstream}
	return changeConnector(ctx, &c.clientFlags, std, api.CreateConnector, api.Body[api.NewConnector]{Body: body}, func(w io.Writer, v *api.ConnectorView) {
		connectorMessage("is added")(w, v)
		c.showModes(ctx, w, v)
		c.showSteps(w, v)
	})
}

// showModes lists the tools of the new connector and says which modes they have.
// Before a sign-in they cannot be listed.
func (c *connectorAdd) showModes(ctx context.Context, w io.Writer, added *api.ConnectorView) {
	if hasOAuth(added, action.OAuthCode) {
		return
	}
	server, err := c.connect()
	if err != nil {
		return
	}
	v, _, err := Fetch(ctx, server, api.ValidateConnector, byConnector(added.ID))
	switch {
	case err != nil:
		printLine(w, "could not list its tools: "+err.Error())
	case v.Error != "":
		printLine(w, "could not list its tools: "+connectorError(v))
	case v.Modes != nil:
		printLine(w, v.Modes.String())
		showProposal(w, &c.clientFlags, v)
		showWarnings(w, v)
		showSharedState(w, &c.clientFlags, v)
	}
}

// connectorRules are the flags for reviews and risks of tools.
type connectorRules struct {
	Review   action.ReviewRule      `enum:"trust,strict,required," default:"" placeholder:"RULE" help:"Review rule: trust (the first list counts as reviewed), strict (changed texts are drift too) or required (nothing runs before review) (default: trust)."`
	ToolRisk map[string]action.Risk `field:"tool_risks" mapsep:"none" placeholder:"TOOL=RISK" help:"Risk of one tool, overriding its hints; repeat for more, TOOL= to clear."`
}

// rules returns the flags for the API. The API replaces all risks at once, so
// the result includes the current ones.
func (r *connectorRules) rules(current map[string]action.Risk) (out api.ToolRules) {
	if r.Review != "" {
		out.Review = &r.Review
	}
	if len(r.ToolRisk) > 0 {
		risks := map[string]action.Risk{}
		maps.Copy(risks, current)
		maps.Copy(risks, r.ToolRisk)
		maps.DeleteFunc(risks, func(_ string, risk action.Risk) bool { return risk == "" })
		out.Risks = &risks
	}
	return out
}

// connectorFields are the flags that add, update and validate share.
type connectorFields struct {
	api.Upstream
	SecretStdin bool         `field:"secret_value" env:"-" help:"Read the secret from standard input and save it with the connector."`
	WithHeader  []headerFlag `field:"headers" sep:"none" env:"-" placeholder:"'K: V'" help:"Fixed header without a secret; repeat for more, 'K:' to remove."`
	MayAsk      *string      `placeholder:"KINDS" help:"Questions the server may ask: elicitation, url_elicitation, sampling, roots, comma-separated; --may-ask= for none (default: none)."`
	oauthFields
}

// oauthFields are the OAuth flags.
type oauthFields struct {
	OAuth        string   `name:"oauth" field:"oauth,kind" enum:"code,client,none," default:"" env:"-" placeholder:"KIND" help:"Use OAuth tokens instead of a secret: code (a person signs in once), client (client credentials) or none."`
	ClientID     *string  `env:"-" placeholder:"ID" help:"OAuth client registered at the service (default: automatic registration)."`
	ClientSecret *string  `env:"-" placeholder:"KEY" help:"Name of the secret that holds the client secret; see secret set."`
	Scope        []string `field:"scopes" sep:"none" env:"-" placeholder:"S" help:"OAuth scope to request; repeat for more (default: the server's scopes)."`
	Issuer       *string  `env:"-" placeholder:"URL" help:"OAuth authorization server (default: the one the server names)."`
}

// fill converts flags into API fields. The API replaces headers and OAuth
// settings as a whole, so the result includes the current ones.
func (f *connectorFields) fill(std *command.Streams, current *action.Connector) (err error) {
	if f.MayAsk != nil {
		kinds := []action.AskKind{}
		for _, kind := range strings.FieldsFunc(*f.MayAsk, func(r rune) bool { return r == ',' || r == ' ' }) {
			kinds = append(kinds, action.AskKind(kind))
		}
		f.Upstream.MayAsk = &kinds
	}
	if len(f.WithHeader) > 0 {
		headers := map[string]string{}
		maps.Copy(headers, current.Headers)
		for _, h := range f.WithHeader {
			maps.DeleteFunc(headers, func(name, _ string) bool { return strings.EqualFold(name, h.name) })
			if h.value != "" {
				headers[h.name] = h.value
			}
		}
		f.Headers = &headers
	}
	if f.Upstream.OAuth, err = f.oauthSettings(current.OAuth); err != nil || !f.SecretStdin {
		return err
	}
	f.SecretValue, err = readSecret(std, "connector add NAME URL --secret-stdin")
	return err
}

// oauthSettings returns the complete OAuth settings for the API, or nil if no
// flag is set.
func (f *oauthFields) oauthSettings(current *action.OAuthSettings) (*api.NewOAuth, error) {
	details := f.ClientID != nil || f.ClientSecret != nil || f.Issuer != nil || len(f.Scope) > 0
	switch {
	case f.OAuth == "none" && details:
		return nil, command.UsageErrorf("--oauth none cannot be combined with other OAuth flags")
	case f.OAuth == "none":
		return &api.NewOAuth{Kind: "none"}, nil
	case f.OAuth == "" && !details:
		return nil, nil
	}
	var o api.NewOAuth
	if current != nil {
		o = api.NewOAuth{Kind: string(current.Kind), ClientID: current.ClientID, ClientSecret: current.ClientSecret, Scopes: current.Scopes, Issuer: current.Issuer}
	}
	switch f.OAuth {
	case "code":
		o.Kind = string(action.OAuthCode)
	case "client":
		o.Kind = string(action.OAuthClient)
	}
	if o.Kind == "" {
		return nil, command.UsageErrorf("--client-id, --client-secret, --scope and --issuer need --oauth code or --oauth client")
	}
	if len(f.Scope) > 0 {
		o.Scopes = f.Scope
	}
	for field, value := range map[*string]*string{&o.ClientID: f.ClientID, &o.ClientSecret: f.ClientSecret, &o.Issuer: f.Issuer} {
		if value != nil {
			*field = *value
		}
	}
	return &o, nil
}

// headerFlag is a header in the form "Name: value".
type headerFlag struct{ name, value string }

// UnmarshalText parses a flag.
func (p *headerFlag) UnmarshalText(text []byte) error {
	name, value, ok := strings.Cut(string(text), ":")
	if p.name, p.value = strings.TrimSpace(name), strings.TrimSpace(value); !ok || p.name == "" {
		return fmt.Errorf("%q is not a header; write it as 'Name: value'", text)
	}
	return nil
}

type connectorUpdate struct {
	connectorRef
	connectorFields
	connectorRules
	Name *string `name:"rename" field:"name" placeholder:"NAME" help:"New name."`
	At   *string `name:"endpoint" field:"url" placeholder:"URL" help:"New endpoint; its tools need a new review."`
}

// Run changes the fields that are set. It reads the connector first because the
// API replaces headers, risks and OAuth settings as a whole.
func (c *connectorUpdate) Run(ctx context.Context, std *command.Streams) error {
	if c.Name == nil && c.At == nil && c.Review == "" && len(c.ToolRisk) == 0 && reflect.ValueOf(c.connectorFields).IsZero() {
		if c.clientFlags.URL != "" && c.clientFlags.URL != os.Getenv("SALLYPORT_URL") {
			return command.UsageErrorf("nothing to change: --url is the URL of the gateway, --endpoint that of the connector")
		}
		return command.UsageErrorf("nothing to change: pass one of the flags that connector update --help lists")
	}
	server, err := c.connect()
	if wrong := new(command.UsageError); errors.As(err, wrong) {
		return command.UsageErrorf("%w; the URL of the connector is --endpoint", err)
	}
	if err != nil {
		return err
	}
	if c.clientFlags.URL != "" { // users mistake it for the connector's URL
		if err := server.checkGateway(ctx); err != nil {
			return err
		}
	}
	current, _, err := Fetch(ctx, server, api.GetConnector, c.ref())
	if err != nil {
		return err
	}
	if err := c.fill(std, &current.Connector); err != nil {
		return err
	}
	c.Upstream.URL = c.At
	c.ToolRules = c.rules(current.Risks)
	changed := connectorMessage("is changed")
	if c.At != nil && *c.At != current.URL {
		changed = func(w io.Writer, v *api.ConnectorView) {
			connectorMessage("is changed")(w, v)
			c.showSteps(w, v)
		}
	}
	body := api.ConnectorChange{Name: c.Name, Upstream: c.Upstream}
	return changeConnector(ctx, &c.clientFlags, std, api.UpdateConnector, api.ByRefWith[api.ConnectorChange]{ByRef: c.ref(), Body: body}, changed)
}

type connectorProfile struct {
	connectorRef
	Profile action.Profile `arg:"" optional:"" enum:"ask,strict,read-only,trust-hints," default:"" help:"Profile to apply: ask, strict, read-only or trust-hints."`
	Mode    action.Mode    `enum:"allow,require_approval,deny," default:"" env:"-" placeholder:"MODE" help:"Set this mode instead of a profile: allow, require_approval (or ask) or deny."`
	Preset  string         `env:"-" placeholder:"P" help:"Known server whose proposed modes ask and trust-hints prefer to hints (default: that of the connector)."`
	Tool    []string       `field:"tools" sep:"none" env:"-" placeholder:"T" help:"Only this tool, or those that match a pattern such as 'API-*'; repeat for more."`
	Denied  bool           `field:"only_denied" env:"-" help:"Only tools that are denied now."`
}

func (*connectorProfile) route() api.Operation { return api.SetProfile.Operation }

// Run sets the modes, or without a profile and mode shows what the tools have.
func (c *connectorProfile) Run(ctx context.Context, std *command.Streams) error {
	if c.Profile == "" && c.Mode == "" {
		if c.Preset != "" || len(c.Tool) > 0 || c.Denied {
			return command.UsageErrorf("pass a profile, or a mode with --mode")
		}
		return perform(ctx, &c.clientFlags, std, api.GetConnector, c.ref(), c.show)
	}
	body := api.ProfileChange{Profile: c.Profile, Mode: c.Mode, Preset: c.Preset, Tools: c.Tool, OnlyDenied: c.Denied}
	return perform(ctx, &c.clientFlags, std, api.SetProfile, api.ByRefWith[api.ProfileChange]{ByRef: c.ref(), Body: body}, c.show)
}

func (c *connectorProfile) show(w io.Writer, v *api.ConnectorView) {
	printLine(w, fmt.Sprintf("connector %s (profile %s): %s", v.Name, cmp.Or(string(v.Profile), "none"), modesText(v)))
	showProposal(w, &c.clientFlags, v)
}

// modesText describes the modes of the connector's tools.
func modesText(v *api.ConnectorView) string {
	if v.Modes == nil {
		return "its tools are not listed yet"
	}
	return v.Modes.String()
}

// showProposal says which preset has modes for the tools of the connector.
func showProposal(w io.Writer, r *clientFlags, v *api.ConnectorView) {
	if v.Recognized != "" && v.ID != "" {
		printLine(w, fmt.Sprintf("the tools match the preset %s, which proposes modes; apply them: %s", v.Recognized, r.hint("connector", "profile", v.Name, "ask", "--preset", v.Recognized)))
	}
}

type connectorOnboard struct {
	connectorRef
	Mode     map[string]action.Mode `mapsep:"none" env:"-" placeholder:"TOOL=MODE" help:"Mode of a tool, or of those that match a pattern such as 'get_*': allow, require_approval (or ask) or deny; repeat for more. A name takes precedence over patterns, a longer pattern over shorter ones. resources/read and prompts/get count as tools."`
	AllReads action.Mode            `enum:"allow,require_approval,deny," default:"" env:"-" placeholder:"MODE" help:"Mode of all read-only tools that no --mode covers."`
	Digest   string                 `env:"-" placeholder:"D" help:"Digest printed below the tool list; required to set modes, and marks the tools as reviewed."`
}

// Run shows the tools. With the digest of that list it sets modes and marks the
// tools as reviewed. It rejects a list that has changed since.
func (c *connectorOnboard) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	all, removed, raw, err := c.listTools(ctx, server)
	if err != nil {
		return err
	}
	if err := c.checkModes(all); err != nil {
		return err
	}
	shown := digest(all)
	if c.Digest == "" {
		if err := c.print(std, raw, func(w io.Writer) { c.show(w, all, removed) }); err != nil {
			return err
		}
		if len(c.Mode) > 0 || c.AllReads != "" {
			return command.UsageErrorf("nothing was changed: confirm the list above with --digest %s", shown)
		}
		return nil
	}
	if c.Digest != shown {
		return fmt.Errorf("the tools of %s changed since the list with digest %s, so nothing was changed; list them again: %s",
			command.Printable(c.Ref), command.Printable(c.Digest), command.Printable(c.hint("connector", "onboard", c.Ref)))
	}
	in := api.ByRefWith[api.Onboarding]{ByRef: c.ref(), Body: api.Onboarding{Tools: c.onboardedTools(all)}}
	return perform(ctx, &c.clientFlags, std, api.OnboardTools, in, func(w io.Writer, _ *api.List[api.ReviewView]) {
		printLine(w, fmt.Sprintf("set the modes of %s of %s and marked the tools as reviewed", command.Plural(len(all), "action"), c.Ref))
		c.showRemoved(w, removed)
	})
}

// listTools fetches the current tools of the server, and the actions for
// resources and prompts, which need no review. removed are tools that the
// server no longer lists.
func (c *connectorOnboard) listTools(ctx context.Context, server *Client) (all, removed []api.ReviewView, raw json.RawMessage, err error) {
	known, raw, err := Fetch(ctx, server, api.ListTools, api.ListToolsInput{ByRef: c.ref(), Fresh: true})
	if err != nil {
		return nil, nil, nil, err
	}
	if known.Error != "" {
		return nil, nil, nil, fmt.Errorf("%s cannot list its tools: %s; see: %s", command.Printable(c.Ref), withoutPeriod(known.Error), command.Printable(c.hint("connector", "validate", c.Ref)))
	}
	connector, _, err := Fetch(ctx, server, api.GetConnector, c.ref())
	if err != nil {
		return nil, nil, nil, err
	}
	for _, r := range known.Items {
		if r.Current == nil {
			removed = append(removed, r)
		} else {
			all = append(all, r)
		}
	}
	for _, b := range connector.Beside {
		all = append(all, api.ReviewView{Tool: b.Name, Risk: b.Risk, Mode: b.Mode})
	}
	return all, removed, raw, nil
}

// checkModes rejects unknown tools and modes.
func (c *connectorOnboard) checkModes(all []api.ReviewView) error {
	for tool, mode := range c.Mode {
		if !slices.ContainsFunc(all, func(r api.ReviewView) bool { return action.MatchTool(tool, r.Tool) }) {
			return fmt.Errorf("%s lists no tool %q; it lists: %s", command.Printable(c.Ref), command.Printable(tool), command.Printable(strings.Join(toolNames(all), ", ")))
		}
		if !mode.Valid() {
			return command.UsageErrorf("--mode %s=%s: a mode must be allow, require_approval or deny", command.Printable(tool), command.Printable(string(mode)))
		}
	}
	return nil
}

// showRemoved lists the removed tools. They cannot run; connector review
// removes their reviews.
func (c *connectorOnboard) showRemoved(w io.Writer, removed []api.ReviewView) {
	if len(removed) > 0 {
		printLine(w, fmt.Sprintf("no longer listed: %s; remove their reviews: %s",
			strings.Join(toolNames(removed), ", "), c.hint("connector", "review", c.Ref)))
	}
}

// show lists the tools with their current and new modes.
func (c *connectorOnboard) show(w io.Writer, all, removed []api.ReviewView) {
	printTable(w, "TOOL RISK MODE REVIEW NEW_MODE DESCRIPTION", all, func(r *api.ReviewView) []string {
		return []string{r.Tool, string(r.Risk), string(r.Mode), string(r.State), string(c.mode(r)), descriptionLine(r)}
	})
	c.showRemoved(w, removed)
	printLine(w, "full definitions: "+c.hint("connector", "review", c.Ref))
	printLine(w, "set modes (or --mode TOOL=MODE for a single tool): "+c.hint("connector", "onboard", c.Ref, "--digest", digest(all), "--all-reads", "allow"))
}

// mode returns the requested mode, or "" to leave it unchanged.
func (c *connectorOnboard) mode(r *api.ReviewView) action.Mode {
	if mode, ok := c.Mode[r.Tool]; ok {
		return mode
	}
	best := ""
	for _, pattern := range slices.Sorted(maps.Keys(c.Mode)) {
		if len(pattern) > len(best) && action.MatchTool(pattern, r.Tool) {
			best = pattern
		}
	}
	if best != "" || r.Risk != action.RiskRead {
		return c.Mode[best]
	}
	return c.AllReads
}

// descriptionLine returns the beginning of a tool's description.
func descriptionLine(r *api.ReviewView) string {
	var said struct {
		Description string `json:"description"`
	}
	if r.Current == nil || json.Unmarshal(r.Current.Definition, &said) != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(said.Description), "\n")
	if text := []rune(line); len(text) > 80 {
		line = string(text[:80]) + "…"
	}
	return line
}

// onboardedTools returns the tools, as shown, with their modes.
func (c *connectorOnboard) onboardedTools(all []api.ReviewView) []api.OnboardedTool {
	tools := make([]api.OnboardedTool, len(all))
	for i := range all {
		tools[i] = api.OnboardedTool{SeenTool: seenTool(&all[i]), Mode: c.mode(&all[i])}
	}
	return tools
}
