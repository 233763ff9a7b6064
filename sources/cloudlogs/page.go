package cloudlogs

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

// maxPage bounds the size of a page in bytes, although a page always has at
// least one entry.
const maxPage = 512 << 10

// position orders the entries of a service, newest first.
type position struct {
	time   int64 // Unix time in nanoseconds
	file   digest
	offset int64
}

func (p position) compare(other position) int {
	return cmp.Or(cmp.Compare(other.time, p.time), bytes.Compare(p.file[:], other.file[:]), cmp.Compare(other.offset, p.offset))
}

func (p position) timestamp() time.Time { return time.Unix(0, p.time).UTC() }

// topEntries keeps the first entries by position, offered in any order.
type topEntries struct {
	limit   int
	after   *position // nil for the first page
	list    []rankedEntry
	bytes   int
	dropped *position // the first entry that did not fit, or nil
}

type rankedEntry struct {
	place position
	entry Entry
	size  int
}

// wants reports whether an entry at this position would be kept.
func (t *topEntries) wants(p position) bool {
	switch {
	case t.after != nil && p.compare(*t.after) <= 0:
		return false
	case t.dropped != nil && p.compare(*t.dropped) >= 0:
		return false
	case len(t.list) < t.limit || p.compare(t.list[len(t.list)-1].place) < 0:
		return true
	}
	t.dropped = &p
	return false
}

// add inserts a wanted entry.
func (t *topEntries) add(r rankedEntry) {
	i, found := slices.BinarySearchFunc(t.list, r.place, func(a rankedEntry, p position) int { return a.place.compare(p) })
	if found {
		return
	}
	t.list = slices.Insert(t.list, i, r)
	t.bytes += r.size
	for n := len(t.list); n > t.limit || n > 1 && t.bytes > maxPage; n = len(t.list) {
		last := t.list[n-1]
		t.list, t.bytes, t.dropped = t.list[:n-1], t.bytes-last.size, &last.place
	}
}

// cutoff returns the time before which no entry is kept, or zero.
func (t *topEntries) cutoff() time.Time {
	if t.dropped == nil {
		return time.Time{}
	}
	return t.dropped.timestamp()
}

// page returns the kept entries.
func (t *topEntries) page() Page {
	p := Page{Entries: []Entry{}}
	for _, r := range t.list {
		p.Entries = append(p.Entries, r.entry)
	}
	if t.dropped != nil {
		p.Cursor = t.list[len(t.list)-1].place.cursor()
	}
	return p
}
