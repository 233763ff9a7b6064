package dashboard

import (
	"maps"
	"net/http"
	"slices"

	"sallyport/action"
)

// connectorData is all that the page of a connector shows.
type connectorData struct {
	View    ConnectorView
	Form    upstreamForm
	Tools   []toolRow     // that are listed and did not change
	Fresh   int           // of them, those that no person has looked at
	More    int           // that are not shown
	Reviews []reviewTable // those that changed or went
	Names   map[string]string
	Decides bool
}

// toolRow is an action of a connector that people may decide about.
type toolRow struct {
	ReviewView
	Own   bool // it is no tool, but the gateway's own
	Fresh bool // no person has looked at it
}

const (
	toolsShown = 300          // on one page
	firstList  = "first list" // reviewed what nobody was asked about; see [action.ToolReview]
)

func (p *pages) connectorPage(w http.ResponseWriter, r *http.Request, me *Principal) error {
	ctx := r.Context()
	c, err := p.connector(ctx, me.Organization, r.PathValue("id"))
	if err != nil {
		return err
	}
	state := p.Prober.State(ctx, c)
	d := connectorData{Form: p.upstreamForm(c), Decides: me.Role.Decides()}
	if d.View, err = p.viewTools(ctx, c, state); err != nil {
		return err
	}
	if d.Names, err = p.names(ctx, me.Organization); err != nil {
		return err
	}
	list, err := p.Reviews.ListReviews(ctx, me.Organization, c.ID)
	if err != nil {
		return err
	}
	changed := reviewTable{Connector: c, FetchedAt: state.FetchedAt, Error: state.Error}
	for _, v := range p.viewReviews(ctx, c, list) {
		if v.State == action.ToolChanged || v.State == action.ToolRemoved {
			changed.add(v)
		} else {
			d.add(v)
		}
	}
	d.addOwn()
	if len(changed.Tools) > 0 {
		d.Reviews = []reviewTable{changed}
	}
	return p.render(w, "connector", "layout", view{Page: "settings", Title: c.Name, Me: me, Data: d})
}

func (d *connectorData) add(v ReviewView) {
	if len(d.Tools) == toolsShown {
		d.More++
		return
	}
	row := toolRow{ReviewView: v, Fresh: v.State == action.ToolNew || v.ReviewedBy == firstList}
	if row.Fresh {
		d.Fresh++
	}
	d.Tools = append(d.Tools, row)
}

// addOwn adds what is no tool.
func (d *connectorData) addOwn() {
	for _, v := range d.View.Beside {
		d.Tools = append(d.Tools, toolRow{ReviewView: ReviewView{Tool: v.Name, Risk: v.Risk, Mode: v.Mode}, Own: true})
	}
}

// callback is where services lead browsers back to after a sign-in. The page
// is the same whatever the address says; its script takes it from there, as a
// browser that comes from elsewhere brings no cookie.
func (p *pages) callback(w http.ResponseWriter, r *http.Request) {
	if err := p.render(w, "callback", "layout", view{Page: "callback", Title: "Signing in"}); err != nil {
		p.failed(w, r, nil, err)
	}
}

// upstreamForm are the fields of a connector's form, filled.
type upstreamForm struct {
	action.Connector
	OAuth    action.OAuthSettings
	Headers  string // one a line
	Redirect string // where services lead back to
	Auths    []choice
	Asks     []askChoice
	Reviews  []choice
	Risks    []choice
}

// choice is one of several.
type choice struct {
	Value, Text string
	On          bool
}

// askChoice is a kind of question, with what may come of it.
type askChoice struct {
	Kind           action.AskKind
	Title, Warning string
	On             bool
}

func (p *pages) upstreamForm(c action.Connector) upstreamForm {
	f := upstreamForm{Connector: c, Redirect: p.PublicURL + "/oauth/callback"}
	auth := "none"
	if c.Secret != "" {
		auth = "secret"
	}
	if c.OAuth != nil {
		f.OAuth, auth = *c.OAuth, string(c.OAuth.Kind)
	}
	f.Auths = choose(auth, "none", "not at all", "secret", "with a key or token", "authorization_code", "a person signs in there once (OAuth)", "client_credentials", "by itself, with a client's credentials (OAuth)")
	f.Reviews = choose(string(or(c.Review, action.ReviewTrust)), "trust", "the first list counts as reviewed", "strict", "likewise, and a changed text counts as a change", "required", "what nobody reviewed is denied")
	f.Risks = choose(string(or(c.DefaultRisk, action.RiskWrite)), "write", "count as writes", "read", "count as reads", "danger", "count as dangerous")
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		f.Headers += plain(name+": "+c.Headers[name]) + "\n"
	}
	for _, a := range askChoices() {
		a.On = slices.Contains(c.MayAsk, a.Kind)
		f.Asks = append(f.Asks, a)
	}
	return f
}

// choose makes choices of values and their texts.
func choose(on string, pairs ...string) []choice {
	var list []choice
	for pair := range slices.Chunk(pairs, 2) {
		list = append(list, choice{Value: pair[0], Text: pair[1], On: pair[0] == on})
	}
	return list
}

func askChoices() []askChoice {
	return []askChoice{
		{Kind: action.AskElicitation, Title: "Forms", Warning: "It may have the agent's client show a form; a hostile server asks people for passwords with it."},
		{Kind: action.AskURL, Title: "Links", Warning: "It may have the client open a link; a hostile server leads people to a false sign-in page."},
		{Kind: action.AskSampling, Title: "Completions", Warning: "It may have the agent's model write for it; you pay, and what it sends is a prompt that nobody checked."},
		{Kind: action.AskRoots, Title: "Folders", Warning: "It may learn the names of the folders that the agent works in."},
	}
}
