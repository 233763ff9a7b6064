package dashboard

import (
	"context"
	"net/http"
	"net/url"

	"sallyport/action"
	"sallyport/api"
)

// grantsData is all that the page of grants shows.
type grantsData struct {
	Rows     []grantRow
	Total    int
	Capped   bool
	Filter   action.GrantFilter
	Scopes   []choice
	Usable   string // address of those that cover something
	Every    string // address of all
	Older    string // address; empty: there are none
	Filtered bool
	First    bool
	Sources  []sourceChoice
	Sessions []sessionChoice
	Wishes   int // of agents, that wait
	Names    map[string]string
	Decides  bool
}

// grantRow is one grant, with what has become of it.
type grantRow struct {
	api.GrantView
	State   string // usable, revoked, expired or used up
	Left    int64  // of the budget, when there is one
	Changed bool   // the tool is another now: it covers nothing
}

func (p *pages) grantsPage(w http.ResponseWriter, r *http.Request, me *Principal) error {
	ctx, q := r.Context(), r.URL.Query()
	f := action.GrantFilter{
		Organization: me.Organization, Usable: q.Get("show") != "all", Session: q.Get("session"), Source: q.Get("source"), Action: q.Get("action"),
		Scope: action.GrantScope(q.Get("scope")), Limit: 50, Cursor: q.Get("cursor"),
	}
	if f.Scope != "" && !f.Scope.Valid() {
		return invalid("/scope", "The scope of a grant is session or organization.")
	}
	list, all, err := p.grants(ctx, f)
	if err != nil {
		return err
	}
	d := grantsData{Total: list.Total, Capped: list.Capped, Filter: f, First: f.Cursor == "", Decides: me.Role.Decides()}
	d.Filtered = f.Session+f.Source+f.Action+string(f.Scope) != ""
	d.Scopes = choose(string(f.Scope), "", "whosever", "session", "one session's", "organization", "every session's")
	d.Usable, d.Every = grantsAt(q, "show", ""), grantsAt(q, "show", "all")
	if list.Next != "" {
		d.Older = grantsAt(q, "cursor", list.Next)
	}
	hashes := p.hashes(ctx, all)
	for _, g := range list.Items {
		d.Rows = append(d.Rows, p.grantRow(api.GrantView{Grant: g, Name: sourceName(g.Source, all)}, hashes))
	}
	if err := p.fillGrants(ctx, me, &d, all); err != nil {
		return err
	}
	return p.render(w, "grants", "layout", view{Page: "grants", Title: "Grants", Me: me, Data: d})
}

// fillGrants adds what the forms offer.
func (p *pages) fillGrants(ctx context.Context, me *Principal, d *grantsData, connectors []action.Connector) (err error) {
	if d.Sources, err = p.sources(ctx, me.Organization, connectors); err != nil {
		return err
	}
	sessions, err := p.listSessions(ctx, me, "live", api.Paging{Limit: sessionsOffered})
	if err != nil {
		return err
	}
	d.Sessions = sessionChoices(sessions.Items, d.Filter.Session)
	wishes, err := p.Policy.ListGrantRequests(ctx, action.RequestFilter{Organization: me.Organization, Status: action.RequestPending, Limit: 1})
	if err != nil {
		return err
	}
	d.Wishes = wishes.Total
	d.Names, err = p.names(ctx, me.Organization)
	return err
}

// grantsAt is the address of the same list with another value of one part.
func grantsAt(q url.Values, name, value string) string {
	out := url.Values{}
	for _, n := range []string{"show", "session", "scope", "source", "action"} {
		if v := q.Get(n); v != "" {
			out.Set(n, v)
		}
	}
	if out.Set(name, value); value == "" {
		out.Del(name)
	}
	if len(out) == 0 {
		return "/grants"
	}
	return "/grants?" + out.Encode()
}

// hashes are what connectors' actions are now. Of one that was never asked,
// nothing is known.
func (p *pages) hashes(ctx context.Context, connectors []action.Connector) map[action.Key]string {
	hashes := map[action.Key]string{}
	for _, c := range connectors {
		for _, a := range p.Prober.State(ctx, c).Tools {
			hashes[action.Key{Source: c.Source(), Action: a.Name}] = a.Hash
		}
	}
	return hashes
}

func (p *pages) grantRow(g api.GrantView, hashes map[action.Key]string) grantRow {
	row := grantRow{GrantView: g, State: "usable"}
	now, ok := hashes[action.Key{Source: g.Source, Action: g.Action}]
	row.Changed = ok && g.ToolHash != "" && now != g.ToolHash
	if g.MaxCalls != nil {
		row.Left = max(0, *g.MaxCalls-g.UsedCalls)
	}
	switch {
	case g.RevokedAt != nil:
		row.State = "revoked"
	case g.MaxCalls != nil && row.Left == 0:
		row.State = "used up"
	case g.ExpiresAt != nil && !p.now().Before(*g.ExpiresAt):
		row.State = "expired"
	}
	return row
}
