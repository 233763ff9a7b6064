package mcpserver

import (
	"encoding/base64"
	"slices"
	"sort"
	"strings"
)

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
