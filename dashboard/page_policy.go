package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

// policyData is all that the page of policy shows.
type policyData struct {
	Modes       modeList
	Explain     explainPanel
	Sources     []sourceChoice
	Automations []automationChoice
	Reviews     []reviewTable
	Table       capabilityTable
	Gates       []action.GateApproval
	MoreGates   int // that are not shown
	Quotas      []api.QuotaView
	Settings    action.Settings
	Names       map[string]string
	Decides     bool
}

// gatesShown of all approvals, newest first.
const gatesShown = 100

func (p *pages) policyPage(w http.ResponseWriter, r *http.Request, me *Principal) error {
	ctx, q := r.Context(), r.URL.Query()
	d := policyData{Decides: me.Role.Decides()}
	connectors, err := p.Sources.ListConnectors(ctx, me.Organization)
	if err != nil {
		return err
	}
	if d.Sources, err = p.sources(ctx, me.Organization, connectors); err != nil {
		return err
	}
	if d.Automations, err = p.automationChoices(ctx, me.Organization); err != nil {
		return err
	}
	if d.Modes, err = p.modeList(ctx, me.Organization, q, d.Automations); err != nil {
		return err
	}
	if d.Explain, err = p.explainPanel(ctx, me, q); err != nil {
		return err
	}
	if d.Reviews, err = p.reviews(ctx, connectors); err != nil {
		return err
	}
	if err := p.ceilings(ctx, me.Organization, &d); err != nil {
		return err
	}
	quotas, err := p.quotas(ctx, me.Organization)
	if err != nil {
		return err
	}
	d.Quotas = quotas.Items
	if d.Settings, err = p.Policy.Settings(ctx, me.Organization); err != nil {
		return err
	}
	if d.Names, err = p.names(ctx, me.Organization); err != nil {
		return err
	}
	return p.render(w, "policy", "layout", view{Page: "policy", Title: "Policy", Me: me, Data: d})
}

// ceilings adds what groups may do.
func (p *pages) ceilings(ctx context.Context, organization string, d *policyData) error {
	capabilities, err := p.capabilities(ctx, organization, "")
	if err != nil {
		return err
	}
	d.Table = newCapabilityTable(capabilities, d.Sources, p.now())
	if d.Gates, err = p.Policy.ListGates(ctx, organization, "", ""); err != nil {
		return err
	}
	if d.MoreGates = len(d.Gates) - gatesShown; d.MoreGates > 0 {
		d.Gates = d.Gates[:gatesShown]
	}
	return nil
}

// modeRow is one mode that somebody set.
type modeRow struct {
	api.ModeView
	Source, Action string // as people write them
	For            string // the automation's name; empty: everybody
}

// modeList is as much of them as one page shows.
type modeList struct {
	Rows                []modeRow
	Search, Mode, Whose string // what is looked for; Whose is everybody, or an automation's id
	Matching, All       int
	Next                string // address of those after these; empty: there are none
	Modes, Automations  []choice
	From                int // of how many before these
	Searched            bool
}

// modesShown on one page: enough for most organizations, so that the search is
// instant.
const modesShown = 200

func (p *pages) modeList(ctx context.Context, organization string, q url.Values, automations []automationChoice) (modeList, error) {
	l := modeList{Search: q.Get("q"), Mode: q.Get("mode"), Whose: q.Get("whose")}
	l.Modes = choose(l.Mode, "", "any mode", "allow", "allow", "require_approval", "require approval", "deny", "deny")
	l.Automations = choose(l.Whose, "", "everybody and automations", "everybody", "everybody")
	names := map[string]string{}
	for _, a := range automations {
		names[a.ID] = a.Name
		l.Automations = append(l.Automations, choice{Value: a.ID, Text: a.Name, On: a.ID == l.Whose})
	}
	all, err := p.modes(ctx, organization)
	if err != nil {
		return l, err
	}
	l.All, l.Searched = len(all), l.Search+l.Mode+l.Whose != ""
	var matching []modeRow
	for _, v := range all {
		row := modeRow{ModeView: v, For: or(names[v.Automation], v.Automation)}
		row.Source, row.Action = cutKey(v.Name)
		if l.matches(&row) {
			matching = append(matching, row)
		}
	}
	l.Matching = len(matching)
	l.page(matching, q)
	return l, nil
}

// page takes the rows after the one that the address names.
func (l *modeList) page(matching []modeRow, q url.Values) {
	for i, row := range matching {
		if after := q.Get("after"); after != "" && after == row.Automation+" "+row.Key {
			l.From = i + 1
		}
	}
	l.Rows = matching[l.From:]
	if len(l.Rows) <= modesShown {
		return
	}
	l.Rows = l.Rows[:modesShown]
	last := l.Rows[modesShown-1]
	next := url.Values{"after": {last.Automation + " " + last.Key}}
	for name, value := range map[string]string{"q": l.Search, "mode": l.Mode, "whose": l.Whose} {
		if value != "" {
			next.Set(name, value)
		}
	}
	l.Next = "/policy?" + next.Encode() + "#modes"
}

func (l *modeList) matches(row *modeRow) bool {
	text := strings.ToLower(row.Name + " " + row.Key + " " + row.For)
	return strings.Contains(text, strings.ToLower(l.Search)) && (l.Mode == "" || l.Mode == string(row.Mode)) &&
		(l.Whose == "" || l.Whose == row.Automation || l.Whose == "everybody" && row.Automation == "")
}

// cutKey splits a key where its action begins.
func cutKey(key string) (source, name string) {
	i := strings.LastIndexByte(key, ':')
	if i < 0 {
		return key, ""
	}
	return key[:i], key[i+1:]
}
