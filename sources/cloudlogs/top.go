package cloudlogs

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

// maxPage bounds what a page holds of entries, in bytes; one entry it always
// holds.
const maxPage = 512 << 10

// place is where an entry stands among all of its service: the newest is first.
type place struct {
	time   int64 // nanoseconds since 1970
	file   digest
	offset int64
}

func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(other.time, p.time), bytes.Compare(p.file[:], other.file[:]), cmp.Compare(other.offset, p.offset))
}

func (p place) at() time.Time { return time.Unix(0, p.time).UTC() }

// top keeps the first of the entries that it is shown in any order.
type top struct {
	limit   int
	after   *place // nil: from the beginning
	list    []ranked
	bytes   int
	dropped *place // the first of those that had no room; nil: all had
}

type ranked struct {
	place place
	entry Entry
	size  int
}

// wants reports whether an entry in this place would be kept.
func (t *top) wants(p place) bool {
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

// add keeps an entry that is wanted.
func (t *top) add(r ranked) {
	i, found := slices.BinarySearchFunc(t.list, r.place, func(a ranked, p place) int { return a.place.compare(p) })
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

// floor returns the time before which no entry is wanted any more; zero: any
// is.
func (t *top) floor() time.Time {
	if t.dropped == nil {
		return time.Time{}
	}
	return t.dropped.at()
}

// page returns what was kept.
func (t *top) page() Page {
	p := Page{Entries: []Entry{}}
	for _, r := range t.list {
		p.Entries = append(p.Entries, r.entry)
	}
	if t.dropped != nil {
		p.Cursor = t.list[len(t.list)-1].place.cursor()
	}
	return p
}
