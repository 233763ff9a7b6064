package page

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard/render"
	"sallyport/dashboard/view"
)

// connectorData is the data of a connector's page.
type connectorData struct {
	View    api.ConnectorView
	Form    upstreamForm
	Tools   []toolRow     // listed and unchanged
	Fresh   int           // number of them that are not reviewed
	More    int           // number of tools that are not shown
	Reviews []reviewTable // changed or removed tools
	Modes   explained     // profiles, then modes, to set for its tools
	Known   string        // title of the known server that proposes modes; may be empty
	Names   map[string]string
	Decides bool
}

// toolRow is an action of a connector.
type toolRow struct {
	api.ReviewView
	Own   bool // the gateway's own action, not a tool
	Fresh bool // not reviewed
}

const (
	maxTools  = 300          // per page
	firstList = "first list" // reviewer of tools that were accepted without a review; see [action.ToolReview]
)

func (p *pageRequest) connectorsPage() error {
	return p.show("connectors", "connectors", "Connectors", struct {
		Connectors []api.ConnectorView
		Decides    bool
	}{p.ViewConnectors(p.ctx(), p.org, p.loadConnectors()), p.decides()})
}

// newConnectorData is the gallery of known servers, or the form for one.
type newConnectorData struct {
	Presets []api.Preset
	Preset  *api.Preset       // the selected one
	Custom  bool              // another server is selected
	Ways    map[string]string // sign-in methods by variant; "" is the preset itself
	Form    upstreamForm

	Profiles explained
}

// profiles returns the profiles that a form offers, each with its effect.
func profiles(chosen action.Profile) []choice {
	list := choose(string(chosen), "ask", "Ask", "strict", "Strict", "read-only", "Read-only", "trust-hints", "Trust hints")
	for i, says := range []string{
		"Reads are allowed, everything else needs approval.",
		"Reads are allowed, writes need approval, destructive tools are denied.",
		"Reads are allowed, everything else is denied.",
		"Like Ask, but tools that the server declares as not destructive are allowed.",
	} {
		list[i].Says = says
	}
	return list
}

func (p *pageRequest) newConnectorPage() error {
	d := newConnectorData{Presets: p.Presets, Form: p.upstreamForm(action.Connector{Review: action.ReviewTrust}), Profiles: explained{"profile", profiles(action.ProfileAsk)}}
	switch name := p.query("preset"); name {
	case "":
	case "custom":
		d.Custom = true
	default:
		i := slices.IndexFunc(p.Presets, func(known api.Preset) bool { return known.Name == name })
		if i < 0 {
			return action.NewError("no_such_preset")
		}
		d.choose(&p.Presets[i])
	}
	return p.show("connector_new", "connectors", "Add connector", d)
}

// choose fills the form with a preset.
func (d *newConnectorData) choose(known *api.Preset) {
	d.Preset, d.Ways = known, map[string]string{"": formAuth(known.Auth)}
	for _, v := range known.Variants {
		d.Ways[v.Name] = formAuth(v.Auth)
		if len(v.Auth) == 0 {
			d.Ways[v.Name] = d.Ways[""]
		}
	}
	d.Form.defaultValue = defaultValue{known.URL, known.Header, cmp.Or(known.Prefix, "none")}
	for i := range d.Form.Auths {
		d.Form.Auths[i].On = d.Form.Auths[i].Value == d.Ways[""]
	}
}

// formAuth returns the form value of a server's first sign-in method.
func formAuth(ways []string) string {
	switch {
	case len(ways) == 0:
		return "none"
	case ways[0] == "oauth":
		return string(action.OAuthCode)
	}
	return ways[0]
}

// authMethods formats sign-in methods for people.
func authMethods(ways []string) string {
	words := map[string]string{"none": "no authentication", "secret": "API key", "oauth": "OAuth"}
	names := make([]string, len(ways))
	for i, w := range ways {
		names[i] = words[w]
	}
	return strings.Join(names, " or ")
}

func (p *pageRequest) connectorPage() error {
	ctx := p.ctx()
	c, err := p.Connector(ctx, p.org, p.r.PathValue("id"))
	if err != nil {
		return err
	}
	state := p.Connectors.State(ctx, c)
	if c.Enabled && state.FetchedAt.IsZero() && state.Error == "" {
		// It was not queried since the gateway started: its risks are unknown, and
		// nothing can be reviewed.
		state = load(p, p.Connectors.Probe, c)
	}
	d := connectorData{Form: p.upstreamForm(c), View: load2(p, p.ViewTools, c, state), Names: p.loadNames(), Decides: p.decides()}
	d.Modes = explained{"to", append(profiles(cmp.Or(c.Profile, action.ProfileAsk)), choose("", "allow", "All of them: allow", "require_approval", "All of them: require approval", "deny", "All of them: deny")...)}
	if i := slices.IndexFunc(p.Presets, func(known api.Preset) bool { return known.Name == d.View.Recognized }); i >= 0 {
		d.Known = p.Presets[i].Title
	}
	changed := reviewTable{Connector: c, FetchedAt: state.FetchedAt, Error: state.Error}
	for _, v := range p.ViewReviews(ctx, c, load2(p, p.Policy.ListReviews, p.org, c.ID)) {
		if v.State == action.ToolChanged || v.State == action.ToolRemoved {
			changed.add(v)
			continue
		}
		if len(d.Tools) == maxTools {
			d.More++
			continue
		}
		row := toolRow{ReviewView: v, Fresh: v.State == action.ToolNew || v.ReviewedBy == firstList}
		if row.Fresh {
			d.Fresh++
		}
		d.Tools = append(d.Tools, row)
	}
	for _, v := range d.View.Beside { // actions that are not tools
		d.Tools = append(d.Tools, toolRow{ReviewView: api.ReviewView{Tool: v.Name, Risk: v.Risk, Mode: v.Mode}, Own: true})
	}
	if len(changed.Tools) > 0 {
		d.Reviews = []reviewTable{changed}
	}
	return p.show("connector", "connectors", c.Name, d)
}

// callback serves the page that services redirect browsers to after a sign-in.
// It is the same for all parameters, which its script reads: a navigation from
// another site sends no cookie.
func (p *pages) callback(w http.ResponseWriter, r *http.Request) {
	if err := p.render(w, "callback", "layout", layoutData{Page: "callback", Title: "Connecting a service"}); err != nil {
		p.showError(w, r, nil, err)
	}
}

// upstreamForm is the data of a connector's form.
type upstreamForm struct {
	action.Connector
	defaultValue
	OAuth    action.OAuthSettings
	Secrets  []action.Secret // of the organization; the script offers those of the host
	Headers  string          // one per line
	Redirect string          // redirect URL for services
	Auths    []choice
	Asks     []askChoice
	Reviews  []choice
	Risks    []choice
	Versions []choice // of MCP
}

// defaultValue is the defaults of a known server.
type defaultValue struct{ Usual, UsualHeader, UsualPrefix string }

// choice is an option of a form.
type choice struct {
	Value, Text string
	On          bool
	Says        string // explanation that is shown while it is selected
}

// explained is a field of a form whose options each have a sentence.
type explained struct {
	Name    string
	Options []choice
}

// askChoice is a kind of server request, with its options.
type askChoice struct {
	Kind           action.AskKind
	Title, Warning string
	On             bool
}

func (p *pageRequest) upstreamForm(c action.Connector) upstreamForm {
	f := upstreamForm{Connector: c, Secrets: load(p, p.Sources.ListSecrets, p.org), Redirect: p.PublicURL + "/oauth/callback", defaultValue: defaultValue{UsualPrefix: "Bearer "}}
	if c.ID != "" {
		f.UsualPrefix = "none"
	}
	auth := "none"
	if c.Secret != "" {
		auth = "secret"
	}
	if c.OAuth != nil {
		f.OAuth, auth = *c.OAuth, string(c.OAuth.Kind)
	}
	f.Auths = choose(auth, "none", "None", "secret", "Key or token", "authorization_code", "OAuth (a person signs in)", "client_credentials", "OAuth (client credentials)")
	f.Reviews = choose(string(cmp.Or(c.Review, action.ReviewTrust)), "trust", "Trust (the first tool list counts as reviewed)", "strict", "Strict (also flags changed descriptions)", "required", "Required (tools are denied until reviewed)")
	f.Risks = choose(string(cmp.Or(c.DefaultRisk, action.RiskWrite)), "write", "Write", "read", "Read", "danger", "Danger")
	f.Versions = choose(c.PinnedProtocol, "", "Agreed with the server")
	for _, version := range slices.Backward(action.Protocols()) {
		f.Versions = append(f.Versions, choose(c.PinnedProtocol, version, version)...)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		f.Headers += render.Plain(name+": "+c.Headers[name]) + "\n"
	}
	f.Asks = []askChoice{
		{Kind: action.AskElicitation, Title: "Forms", Warning: "The server can show forms in the client of the agent. A malicious server could ask users for passwords."},
		{Kind: action.AskURL, Title: "Links", Warning: "The server can open links in the client. A malicious server could send users to a phishing page."},
		{Kind: action.AskSampling, Title: "Completions", Warning: "The server can use the model of the agent at your cost. Its prompts are not checked."},
		{Kind: action.AskRoots, Title: "Folders", Warning: "The server can read the names of the folders that the agent works in."},
	}
	for i := range f.Asks {
		f.Asks[i].On = slices.Contains(c.MayAsk, f.Asks[i].Kind)
	}
	return f
}

// choose returns options from pairs of value and text.
func choose(on string, pairs ...string) []choice {
	var list []choice
	for pair := range slices.Chunk(pairs, 2) {
		list = append(list, choice{Value: pair[0], Text: pair[1], On: pair[0] == on})
	}
	return list
}

// reviewTable is the unreviewed changes of a connector.
type reviewTable struct {
	Connector action.Connector
	Tools     []api.ReviewView
	More      int // number of tools that are not shown
	FetchedAt time.Time
	Error     string // of the last request to the server
}

// maxReviews bounds the reviews of a connector, so that people can read all
// of them.
const maxReviews = 50

func (p *pageRequest) reviews() (tables []reviewTable) {
	for _, c := range p.loadConnectors() {
		state := p.Connectors.State(p.ctx(), c)
		t := reviewTable{Connector: c, FetchedAt: state.FetchedAt, Error: state.Error}
		for _, r := range load2(p, p.Policy.ListReviews, c.Organization, c.ID) {
			if r.State != action.ToolReviewed {
				t.add(view.ViewReview(r))
			}
		}
		if len(t.Tools) > 0 {
			tables = append(tables, t)
		}
	}
	return tables
}

func (t *reviewTable) add(v api.ReviewView) {
	if len(t.Tools) == maxReviews {
		t.More++
		return
	}
	t.Tools = append(t.Tools, v)
}
