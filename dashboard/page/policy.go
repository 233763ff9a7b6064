package page

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard/view"
	"sallyport/ingest/event"
)

// policyData is the data of the policy page.
type policyData struct {
	Modes       modeList
	Explain     explainPanel
	Sources     []sourceChoice
	Automations []event.Automation
	Reviews     []reviewTable
	Table       capabilityTable
	Gates       []action.GateApproval
	MoreGates   int // number of approvals that are not shown
	Quotas      []api.QuotaView
	Settings    action.Settings
	Names       map[string]string
	Decides     bool

	DefaultGroups []choice
	Templates     []choice // of groups
}

// maxGates bounds the gate approvals, newest first.
const maxGates = 100

func (p *pageRequest) policyPage() error {
	d := policyData{
		Sources:     p.sources(),
		Automations: p.loadAutomations(),
		Explain:     p.explainPanel(),
		Reviews:     p.reviews(),
		Gates: load2(p, func(ctx context.Context, group, task string) ([]action.GateApproval, error) {
			return p.Policy.ListGates(ctx, p.org, group, task)
		}, "", ""),
		Quotas:   load(p, p.Quotas, p.org).Items,
		Settings: load(p, p.Policy.Settings, p.org),
		Names:    p.loadNames(),
		Decides:  p.decides(),
	}
	d.Modes = p.modeList(d.Automations)
	d.Table = newCapabilityTable(load2(p, p.Capabilities, p.org, ""), d.Sources, p.Now())
	for _, t := range action.GroupTemplates() {
		d.Templates = append(d.Templates, choice{Value: t.Name, Text: t.Name + ": " + t.About})
	}
	d.DefaultGroups = d.Table.groupChoices(d.Settings.DefaultGroup)
	if d.MoreGates = len(d.Gates) - maxGates; d.MoreGates > 0 {
		d.Gates = d.Gates[:maxGates]
	}
	return p.show("policy", "policy", "Policy", d)
}

// modeRow is a configured mode.
type modeRow struct {
	api.ModeView
	Source, Action string // display names
	For            string // name of the automation; empty for everybody
}

// modeList is a page of configured modes.
type modeList struct {
	Rows                []modeRow
	Search, Mode, Whose string // current filters; Whose is everybody or an automation's ID
	Matching, All       int
	Next                string // URL of the next page; empty if there is none
	Modes, Automations  []choice
	From                int // number of rows before this page
	Searched            bool
}

// modesPerPage is the page size: enough for most organizations, so that search is
// instant.
const modesPerPage = 200

func (p *pageRequest) modeList(automations []event.Automation) modeList {
	q := p.readFilters("q", "mode", "whose")
	l := modeList{Search: q.Get("q"), Mode: q.Get("mode"), Whose: q.Get("whose")}
	l.Modes = choose(l.Mode, "", "any", "allow", "allow", "require_approval", "require approval", "deny", "deny")
	l.Automations = choose(l.Whose, "", "any", "everybody", "everyone")
	names := map[string]string{}
	for _, a := range automations {
		names[a.ID] = a.Name
		l.Automations = append(l.Automations, choice{Value: a.ID, Text: a.Name, On: a.ID == l.Whose})
	}
	all := load(p, p.Modes, p.org)
	l.All, l.Searched = len(all), l.Search+l.Mode+l.Whose != ""
	var matching []modeRow
	for _, v := range all {
		row := modeRow{ModeView: v, For: cmp.Or(names[v.Automation], v.Automation)}
		row.Source, row.Action = splitKey(v.Name)
		text := strings.ToLower(row.Name + " " + row.Key + " " + row.For)
		if strings.Contains(text, strings.ToLower(l.Search)) && (l.Mode == "" || l.Mode == string(row.Mode)) &&
			(l.Whose == "" || l.Whose == row.Automation || l.Whose == "everybody" && row.Automation == "") {
			matching = append(matching, row)
		}
	}
	l.Matching = len(matching)
	after := p.query("after") // the last row of the previous page
	for i, row := range matching {
		if after != "" && after == row.Automation+" "+row.Key {
			l.From = i + 1
		}
	}
	l.Rows = matching[l.From:]
	if len(l.Rows) > modesPerPage {
		l.Rows = l.Rows[:modesPerPage]
		last := l.Rows[modesPerPage-1]
		l.Next = q.With("after", last.Automation+" "+last.Key) + "#modes"
	}
	return l
}

// splitKey splits a key into source and action.
func splitKey(key string) (source, name string) {
	i := strings.LastIndexByte(key, ':')
	if i < 0 {
		return key, ""
	}
	return key[:i], key[i+1:]
}

// capabilityTable is the table of capabilities, with a row per group and a
// column per provider.
type capabilityTable struct {
	Columns []sourceChoice
	Rows    []groupRow
	Gates   []string // gates that a capability requires
	Level   []choice
}

// groupRow is the capabilities of a group.
type groupRow struct {
	Group string
	Cells []capabilityCell
}

// capabilityCell is the capability of a group at a provider.
type capabilityCell struct {
	Group    string
	Provider sourceChoice
	Has      *api.CapabilityView // nil if there is none
	Over     bool                // it expired
	JSON     string              // Has in JSON for the form; empty if there is none
}

// maxEmptyColumns bounds the columns without a capability.
const maxEmptyColumns = 8

func newCapabilityTable(list []api.CapabilityView, sources []sourceChoice, now time.Time) capabilityTable {
	t := capabilityTable{Level: choose("2", "0", "None", "1", "Read", "2", "Read and write", "3", "Production (destructive tools behind a gate)")}
	var groups []string
	for _, c := range list {
		groups = append(groups, c.Group)
		switch i := slices.IndexFunc(sources, func(s sourceChoice) bool { return s.ID == c.Provider }); {
		case t.has(c.Provider):
		case i >= 0:
			t.Columns = append(t.Columns, sources[i])
		default: // it was removed
			t.Columns = append(t.Columns, sourceChoice{Value: c.Provider, ID: c.Provider, Name: c.Name})
		}
		if c.Gate != "" && !slices.Contains(t.Gates, c.Gate) {
			t.Gates = append(t.Gates, c.Gate)
		}
	}
	for _, s := range sources {
		if s.Live && len(t.Columns) < maxEmptyColumns && !t.has(s.ID) {
			t.Columns = append(t.Columns, s)
		}
	}
	slices.SortFunc(t.Columns, func(a, b sourceChoice) int { return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) })
	slices.Sort(groups)
	for _, g := range slices.Compact(groups) {
		row := groupRow{Group: g}
		for _, column := range t.Columns {
			cell := capabilityCell{Group: g, Provider: column}
			if i := slices.IndexFunc(list, func(c api.CapabilityView) bool { return c.Group == g && c.Provider == column.ID }); i >= 0 {
				cell.Has = &list[i]
				cell.Over = list[i].ExpiresAt != nil && !now.Before(*list[i].ExpiresAt)
				raw, _ := json.Marshal(list[i].Capability) // it came from JSON
				cell.JSON = string(raw)
			}
			row.Cells = append(row.Cells, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (t *capabilityTable) has(provider string) bool {
	return slices.ContainsFunc(t.Columns, func(s sourceChoice) bool { return s.ID == provider })
}

// groupChoices returns the groups, and the selected one even if it has no access any more.
func (t *capabilityTable) groupChoices(selected string) (list []choice) {
	for _, r := range t.Rows {
		list = append(list, choice{Value: r.Group, Text: r.Group, On: r.Group == selected})
	}
	if selected != "" && !slices.ContainsFunc(list, func(c choice) bool { return c.On }) {
		list = append(list, choice{Value: selected, Text: selected, On: true})
	}
	return list
}

// Usable reports whether the group has access.
func (t capabilityTable) Usable(group string) bool {
	return slices.ContainsFunc(t.Rows, func(r groupRow) bool {
		return r.Group == group && slices.ContainsFunc(r.Cells, func(c capabilityCell) bool { return c.Has != nil && !c.Over && c.Has.Level > action.LevelNone })
	})
}

// levelBadge returns the colour of a level, which is that of the highest risk
// it permits.
func levelBadge(l action.Level) string {
	switch l {
	case action.LevelRead:
		return "risk-read"
	case action.LevelWrite:
		return "risk-write"
	case action.LevelProduction:
		return "risk-danger"
	case action.LevelNone:
	}
	return ""
}

// windowText returns the window of a rate limit, as it follows "per".
func windowText(seconds int) string {
	span := action.Rate{Seconds: seconds}.Span()
	for _, article := range []string{"a ", "an ", "1 "} {
		span = strings.TrimPrefix(span, article)
	}
	return span
}

// sourceChoice is a source of actions in a form.
type sourceChoice struct {
	Value string // unambiguous name for the API
	ID    string
	Name  string
	Live  bool // its actions are known
}

// sources returns the organization's connectors and the modules, those with
// actions first.
func (p *pageRequest) sources() []sourceChoice {
	live := map[string]bool{}
	for _, a := range load(p, p.Snapshot, plainSession(p.org)).Capabilities {
		live[a.Provider] = true
	}
	var list []sourceChoice
	for _, c := range p.loadConnectors() {
		list = append(list, sourceChoice{Value: c.Source(), ID: c.Source(), Name: cmp.Or(c.Slug, c.Name), Live: live[c.Source()]})
	}
	for _, m := range p.Providers {
		list = append(list, sourceChoice{Value: view.ModulePrefix + m.ID, ID: m.ID, Name: m.ID, Live: live[m.ID]})
	}
	slices.SortStableFunc(list, func(a, b sourceChoice) int {
		if a.Live != b.Live {
			return map[bool]int{true: -1, false: 1}[a.Live]
		}
		return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	return list
}

// plainSession is a session without special properties.
func plainSession(organization string) *action.Session {
	return &action.Session{Organization: organization, Kind: action.Interactive, Type: action.TypeCoding}
}

// sourceActions is the actions of a source with their modes.
type sourceActions struct {
	Source  string
	Actions []action.ActionAbility
}

// policyActions returns the actions of a source, for the script.
func (p *pageRequest) policyActions() error {
	d := sourceActions{Source: p.query("source")}
	if d.Source != "" && d.Source != "*" {
		id, _, err := p.Source(p.ctx(), p.org, d.Source)
		if err != nil {
			return err
		}
		d.Actions = p.actionsOf(id)
	}
	return p.showPart("policy", "actions", d)
}

// actionsOf returns the actions of a source for a plain session.
func (p *pageRequest) actionsOf(source string) []action.ActionAbility {
	for _, a := range load(p, p.Snapshot, plainSession(p.org)).Capabilities {
		if a.Provider == source {
			return a.Actions
		}
	}
	return nil
}

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
	hashes := map[action.Key]string{} // current; a connector that was never listed has none
	for _, c := range all {
		for _, a := range p.Connectors.State(p.ctx(), c).Tools {
			hashes[action.Key{Source: c.Source(), Action: a.Name}] = a.Hash
		}
	}
	for _, g := range list.Items {
		d.Rows = append(d.Rows, p.grantRow(api.GrantView{Grant: g, Name: view.SourceName(g.Source, all)}, hashes))
	}
	return p.show("grants", "grants", "Grants", d)
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
