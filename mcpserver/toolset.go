package mcpserver

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"sallyport/action"
	"sallyport/internal/nearest"
	"sallyport/internal/rank"
	"sallyport/mcpserver/wire"
)

// toolset is a tool list, encoded once for everyone who sees the same. It does
// not change after it was made.
type toolset struct {
	version string
	tools   map[string]tool
	sources map[string]string // what people call them, by id
	// watchable are the sources of whose resources a session may be told.
	subscribable map[string]bool
	pages        // what is listed
	// told is by what clients are told of changes: the version, for what a server
	// says of its own list is handed on whether or not it says something else now.
	// In search mode it is a digest of what is listed, for what a client does not
	// see changes without it.
	announcedVersion string

	all         []action.Available // as the Gate gave it: not ours to change
	definitions map[string][]byte  // of all tools, listed or not
	searched    []action.Available // the tools that are found by words
	indexed     sync.Once
	ranks       *rank.Index
	hits        []hit // as they are told, in the order of searched
	truncated   bool  // some say more than is searched
}

// tool is what a call needs to know of a listed tool.
type tool struct {
	builtin builtinFunc // one of ours; nil for an action
	source  string
	action  string
	mode    action.Mode // of a call with any params
	strict  bool        // results must follow a schema
	headers []wire.ParamHeader
	index   int // its place in toolset.all
}

// newToolset encodes a list. Our own tools win every clash of names. With search
// only they and the platform's are listed, and all others are found by words.
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
		if one := t.tools[a.Tool]; one.is(a) {
			t.searched = append(t.searched, list[i])
		}
	}
	t.pages = newPages(listed)
	if t.announcedVersion = version; search {
		t.announcedVersion = fmt.Sprintf("%x", sha256.Sum256(t.joined))
	}
	return t
}

// is reports whether it is the tool of the action, and not one of ours.
func (t *tool) is(a *action.Action) bool {
	return t.builtin == nil && t.source == a.Source && t.action == a.Name && a.Tool != ""
}

// availableAction returns the action of a tool, or nil for one of ours and for one
// that is not there.
func (t *toolset) availableAction(name string) *action.Available {
	if one, ok := t.tools[name]; ok && one.builtin == nil {
		return &t.all[one.index]
	}
	return nil
}

// definition returns that of a tool, listed or not; nil when there is none.
func (t *toolset) definition(name string) []byte { return t.definitions[name] }

// Beyond these a list is long: it costs a model more than what it is for.
const (
	longList  = 100
	longBytes = 50 << 10
)

// long reports whether whoever lists it might better search.
func (t *toolset) long() bool { return len(t.names) > longList || len(t.joined) > longBytes }

// suggestions tells a caller who wrote name which tools may be meant.
func (t *toolset) suggestions(name string) string {
	names := append(make([]string, 0, len(t.names)+len(t.searched)), t.names...)
	for i := range t.searched {
		names = append(names, t.searched[i].Tool)
	}
	slices.Sort(names)
	return nearest.Sentence(name, names)
}

// pageSize is how many entries one page of a list holds. OpenCode reads up to a
// thousand pages, but most organizations fit into one of these.
const pageSize = 1000

// pages is a list of definitions, encoded once for everyone who sees the same.
// It does not change after it was made.
type pages struct {
	names  []string // sorted
	joined []byte   // the definitions in that order, with commas between
	ends   []int    // where the i-th definition ends in joined
}

// newPages encodes definitions, by name.
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

// page returns the definitions after the named one and the cursor of the next
// page, if there is one. A cursor is the last name that was shown, so that
// entries may come and go between two pages without one being missed or shown
// twice.
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
		next = encodeCursor(p.names[to-1])
	}
	return p.joined[start:p.ends[to-1]], next
}

// cursorPrefix marks our cursors, so that a foreign one is told from an old
// one.
const cursorPrefix = "after:"

func encodeCursor(last string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cursorPrefix + last))
}

func decodeCursor(cursor string) (last string, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", false
	}
	last, ok = strings.CutPrefix(string(b), cursorPrefix)
	return last, ok && last != ""
}
