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
}

// maxGates bounds the gate approvals, newest first.
const maxGates = 100

func (p *pageRequest) policyPage() error {
	d := policyData{
		Sources:     p.sources(),
		Automations: p.loadAutomations(),
		Explain:     p.explainPanel(),
		Reviews:     p.reviews(),
		Gates:       load(p, p.gateApprovals, p.org),
		Quotas:      load(p, p.Quotas, p.org).Items,
		Settings:    load(p, p.Policy.Settings, p.org),
		Names:       p.loadNames(),
		Decides:     p.decides(),
	}
	d.Modes = p.modeList(d.Automations)
	d.Table = newCapabilityTable(load2(p, p.Capabilities, p.org, ""), d.Sources, p.Now())
	if d.MoreGates = len(d.Gates) - maxGates; d.MoreGates > 0 {
		d.Gates = d.Gates[:maxGates]
	}
	return p.show("policy", "policy", "Policy", d)
}

func (p *pages) gateApprovals(ctx context.Context, organization string) ([]action.GateApproval, error) {
	return p.Policy.ListGates(ctx, organization, "", "")
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
		if l.matches(&row) {
			matching = append(matching, row)
		}
	}
	l.Matching = len(matching)
	l.page(matching, p.query("after"), q)
	return l
}

// page selects the rows after the one in the URL.
func (l *modeList) page(matching []modeRow, after string, q filters) {
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
}

func (l *modeList) matches(row *modeRow) bool {
	text := strings.ToLower(row.Name + " " + row.Key + " " + row.For)
	return strings.Contains(text, strings.ToLower(l.Search)) && (l.Mode == "" || l.Mode == string(row.Mode)) &&
		(l.Whose == "" || l.Whose == row.Automation || l.Whose == "everybody" && row.Automation == "")
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
		t.column(c, sources)
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
			row.Cells = append(row.Cells, newCell(g, column, list, now))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (t *capabilityTable) has(provider string) bool {
	return slices.ContainsFunc(t.Columns, func(s sourceChoice) bool { return s.ID == provider })
}

// column adds a column for a capability's provider, also one that was removed.
func (t *capabilityTable) column(c api.CapabilityView, sources []sourceChoice) {
	if t.has(c.Provider) {
		return
	}
	i := slices.IndexFunc(sources, func(s sourceChoice) bool { return s.ID == c.Provider })
	if i < 0 {
		t.Columns = append(t.Columns, sourceChoice{Value: c.Provider, ID: c.Provider, Name: c.Name})
		return
	}
	t.Columns = append(t.Columns, sources[i])
}

func newCell(group string, column sourceChoice, list []api.CapabilityView, now time.Time) capabilityCell {
	cell := capabilityCell{Group: group, Provider: column}
	i := slices.IndexFunc(list, func(c api.CapabilityView) bool { return c.Group == group && c.Provider == column.ID })
	if i < 0 {
		return cell
	}
	cell.Has = &list[i]
	cell.Over = list[i].ExpiresAt != nil && !now.Before(*list[i].ExpiresAt)
	raw, _ := json.Marshal(list[i].Capability) // it came from JSON
	cell.JSON = string(raw)
	return cell
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
