package page

import (
	"context"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard/view"
)

// grantsData is the data of the grants page.
type grantsData struct {
	action.Page[action.Grant]
	Rows     []grantRow
	Filters  filters
	Filtered bool
	Scopes   []choice
	Sources  []sourceChoice
	Sessions []sessionChoice
	Pending  int // number of pending grant requests
	Names    map[string]string
	Decides  bool
}

// grantRow is a grant with its state.
type grantRow struct {
	api.GrantView
	State   string // usable, revoked, expired or used up
	Left    int64  // of the call limit, if there is one
	Changed bool   // the tool changed, so the grant covers nothing
}

func (p *pageRequest) grantsPage() error {
	var in api.ListGrantsInput
	q := readQuery(p, &in, "show")
	in.Usable = q.Get("show") != "all"
	if p.err != nil {
		return p.err
	}
	f := view.GrantFilter(p.me, &in)
	list, all, err := p.Grants(p.ctx(), f)
	if err != nil {
		return err
	}
	p.connectors = all
	d := grantsData{
		Page: list, Filters: q, Filtered: f.Session+f.Source+f.Action+string(f.Scope) != "", Decides: p.decides(), Names: p.loadNames(),
		Scopes:   choose(q.Get("scope"), "", "anyone", "session", "one session", "organization", "all sessions"),
		Sources:  p.sources(),
		Sessions: p.sessionChoices("live", f.Session),
		Pending:  load(p, p.Policy.ListGrantRequests, action.RequestFilter{Organization: p.org, Status: action.RequestPending, Limit: 1}).Total,
	}
	hashes := p.currentHashes(p.ctx(), all)
	for _, g := range list.Items {
		d.Rows = append(d.Rows, p.grantRow(api.GrantView{Grant: g, Name: view.SourceName(g.Source, all)}, hashes))
	}
	return p.show("grants", "grants", "Grants", d)
}

// currentHashes returns the current hashes of connectors' actions. Those of a
// connector that was never listed are unknown.
func (p *pages) currentHashes(ctx context.Context, connectors []action.Connector) map[action.Key]string {
	hashes := map[action.Key]string{}
	for _, c := range connectors {
		for _, a := range p.Connectors.State(ctx, c).Tools {
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
	case g.ExpiresAt != nil && !p.Now().Before(*g.ExpiresAt):
		row.State = "expired"
	}
	return row
}
