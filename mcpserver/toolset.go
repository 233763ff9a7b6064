package mcpserver

import (
	"sort"

	"sallyport/action"
)

// toolset is a tool list, encoded once for everyone who sees the same. It does
// not change after it was made.
type toolset struct {
	version string
	tools   map[string]tool
	sources map[string]string // what people call them, by id
	// watchable are the sources of whose resources a session may be told.
	watchable map[string]bool
	pages
}

// tool is what a call needs to know of a listed tool.
type tool struct {
	own     ownTool // one of ours; nil for an action
	source  string
	action  string
	mode    action.Mode // of a call with any params
	strict  bool        // results must follow a schema
	headers []paramHeader
}

// newToolset encodes a list. Our own tools win every clash of names.
func newToolset(list []action.Available, own []ownDefinition, version string) *toolset {
	t := &toolset{version: version, tools: make(map[string]tool, len(list)+len(own)), sources: map[string]string{}, watchable: map[string]bool{}}
	definitions := make(map[string][]byte, len(list)+len(own))
	for i := range list {
		a := list[i].Action
		if a != nil && a.Name == action.ActionRead && list[i].Decision.Mode == action.ModeAllow {
			t.watchable[a.Source] = true
		}
		if a == nil || a.Tool == "" || len(a.Definition) == 0 {
			continue
		}
		t.tools[a.Tool] = tool{
			source: a.Source, action: a.Name, mode: list[i].Decision.Mode,
			strict:  len(a.OutputSchema) > 0,
			headers: paramHeaders(a.InputSchema),
		}
		definitions[a.Tool] = a.Definition
		t.sources[a.Source] = a.SourceName
	}
	for _, o := range own {
		t.tools[o.name] = tool{own: o.run}
		definitions[o.name] = []byte(o.definition)
	}
	t.pages = newPages(definitions)
	return t
}

// nearest returns up to three names that a caller who wrote name may have
// meant.
func (t *toolset) nearest(name string) []string {
	type near struct {
		name     string
		distance int
	}
	if len(name) > 128 {
		return nil
	}
	limit := max(2, len(name)/2)
	var found []near
	for _, n := range t.names {
		if d := distance(name, n, limit); d <= limit {
			found = append(found, near{n, d})
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].distance < found[j].distance })
	var names []string
	for _, f := range found[:min(3, len(found))] {
		names = append(names, f.name)
	}
	return names
}

// distance is the number of letters to change between a and b, or more than
// limit.
func distance(a, b string, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
