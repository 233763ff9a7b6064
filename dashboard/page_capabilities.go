package dashboard

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
)

// capabilityTable is what groups may do: a row for each group, a column for
// each provider.
type capabilityTable struct {
	Columns []sourceChoice
	Rows    []groupRow
	Gates   []string // that are required somewhere
	Level   []choice
}

// groupRow is what one group may do.
type groupRow struct {
	Group string
	Cells []capabilityCell
}

// capabilityCell is what a group may do at a provider.
type capabilityCell struct {
	Group    string
	Provider sourceChoice
	Has      *api.CapabilityView // nil: nothing
	Over     bool                // it has expired
	JSON     string              // of Has, for the form; empty: nothing
}

// columnsWithout a capability are shown while there is room for them.
const columnsWithout = 8

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
		if s.Live && len(t.Columns) < columnsWithout && !t.has(s.ID) {
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

// column adds the provider of a capability, also one that is gone.
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

// levelBadge is the colour of a level: that of the risk that it reaches.
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

// whileOf returns the window of a rate limit, as it follows "per".
func whileOf(seconds int) string {
	span := action.Rate{Seconds: seconds}.Span()
	for _, article := range []string{"a ", "an ", "1 "} {
		span = strings.TrimPrefix(span, article)
	}
	return span
}
