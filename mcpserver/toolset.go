package mcpserver

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sort"
	"sync"

	"sallyport/action"
	"sallyport/internal/rank"
	"sallyport/internal/suggest"
	"sallyport/mcpserver/wire"
)

// toolset is a tool list, encoded once for all sessions that see the same.
// Immutable.
type toolset struct {
	version string
	tools   map[string]tool
	sources map[string]string // display names by id
	// subscribable are the sources whose resources a session may subscribe to.
	subscribable map[string]bool
	pages        // what is listed
	// announcedVersion is the version whose changes are announced. In search mode it is
	// a digest of what is listed, because other changes are invisible to clients.
	announcedVersion string

	all         []action.Available // from the Gate; read only
	definitions map[string][]byte  // of all tools, listed or not
	searched    []action.Available // the tools that a search covers
	indexed     sync.Once
	ranks       *rank.Index
	hits        []hit // in the order of searched
	truncated   bool  // some definitions were indexed in part
}

// tool is what a call needs to know about a listed tool.
type tool struct {
	builtin builtinFunc // nil for an action
	source  string
	action  string
	mode    action.Mode // of a call with any params
	strict  bool        // results must follow a schema
	headers []wire.ParamHeader
	index   int // index in toolset.all
}

// newToolset encodes a list. Built-in tools win name clashes. In search mode only
// they and platform tools are listed, and all others are searchable.
func newToolset(list []action.Available, own []builtinTool, version string, search, done bool) *toolset {
	t := &toolset{
		version: version, tools: make(map[string]tool, len(list)+len(own)), sources: map[string]string{}, subscribable: map[string]bool{},
		all: list, definitions: make(map[string][]byte, len(list)+len(own)),
	}
	listed := make(map[string][]byte, len(list)+len(own))
	for i := range list {
		a := list[i].Action
		if a != nil && a.Name == action.ActionRead && list[i].Decision.Mode == action.ModeAllow {
			t.subscribable[a.Source] = true
		}
		if a == nil || a.Tool == "" || len(a.Definition) == 0 {
			continue
		}
		t.tools[a.Tool] = tool{
			source: a.Source, action: a.Name, mode: list[i].Decision.Mode,
			strict:  len(a.OutputSchema) > 0,
			headers: wire.ParamHeaders(a.InputSchema), index: i,
		}
		t.definitions[a.Tool] = a.Definition
		if !search || a.Source == action.Platform {
			listed[a.Tool] = a.Definition
		}
		t.sources[a.Source] = a.SourceName
	}
	for _, o := range own {
		t.tools[o.name] = tool{builtin: o.run}
		t.definitions[o.name] = []byte(o.definition)
		if delete(listed, o.name); o.listed(search, done) {
			listed[o.name] = []byte(o.definition)
		}
	}
	for i := range list {
		a := list[i].Action
		if a == nil || a.Source == action.Platform {
			continue
		}
		if one := t.tools[a.Tool]; one.builtin == nil && one.source == a.Source && one.action == a.Name && a.Tool != "" {
			t.searched = append(t.searched, list[i])
		}
	}
	t.pages = newPages(listed)
	if t.announcedVersion = version; search {
		t.announcedVersion = fmt.Sprintf("%x", sha256.Sum256(t.joined))
	}
	return t
}

// A list above these limits costs the model more than it helps.
const (
	longList  = 100
	longBytes = 50 << 10
)

// long reports whether the session should rather use search mode.
func (t *toolset) long() bool { return len(t.names) > longList || len(t.joined) > longBytes }

// suggestions returns a sentence with tool names similar to name.
func (t *toolset) suggestions(name string) string {
	names := append(make([]string, 0, len(t.names)+len(t.searched)), t.names...)
	for i := range t.searched {
		names = append(names, t.searched[i].Tool)
	}
	slices.Sort(names)
	return suggest.Sentence(name, names)
}

// pageSize is the number of entries of a page. Most organizations fit into one page.
const pageSize = 1000

// pages is a list of definitions, encoded once for all sessions that see the same.
// Immutable.
type pages struct {
	names  []string // sorted
	joined []byte   // the definitions in that order, with commas between
	ends   []int    // where the i-th definition ends in joined
}

// newPages encodes definitions by name.
func newPages(definitions map[string][]byte) pages {
	p := pages{names: make([]string, 0, len(definitions))}
	size := 0
	for name, d := range definitions {
		p.names = append(p.names, name)
		size += len(d) + 1
	}
	slices.Sort(p.names)
	p.joined = make([]byte, 0, size)
	p.ends = make([]int, len(p.names))
	for i, name := range p.names {
		if i > 0 {
			p.joined = append(p.joined, ',')
		}
		p.joined = append(p.joined, definitions[name]...)
		p.ends[i] = len(p.joined)
	}
	return p
}

// page returns the definitions after the named one and the cursor of the next page,
// if any. A cursor is the last name of a page, so that no other entry is missed or
// repeated when entries are added or removed between two pages.
func (p *pages) page(after string) (definitions []byte, next string) {
	from := 0
	if after != "" {
		from = sort.SearchStrings(p.names, after)
		if from < len(p.names) && p.names[from] == after {
			from++
		}
	}
	to := min(from+pageSize, len(p.names))
	if from >= to {
		return nil, ""
	}
	start := 0
	if from > 0 {
		start = p.ends[from-1] + 1
	}
	if to < len(p.names) {
		next = action.CursorAfter(p.names[to-1])
	}
	return p.joined[start:p.ends[to-1]], next
}
