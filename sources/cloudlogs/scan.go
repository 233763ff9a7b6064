package cloudlogs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"time"
)

// Limits of untimed lines that are held until a line with a timestamp.
const (
	maxPending      = 1000
	maxPendingBytes = 4 << 20
)

// scan reads the files of a service for a query, one at a time.
type scan struct {
	ctx context.Context
	q   *Query
	*result

	file         *file
	pending      []untimedLine // untimed lines, in reverse order
	pendingBytes int           // size of pending
}

// untimedLine is a line that takes the timestamp of the line before it.
type untimedLine struct {
	rec record
	d   parsedRecord
}

// earliest returns the lower bound of relevant times, less the tolerance.
func (s *scan) earliest() time.Time {
	least := s.q.Since
	if d := s.top.dropped; d != nil && d.timestamp().After(least) { // no earlier entry is kept
		least = d.timestamp()
	}
	return least.Add(-clockSkew)
}

// latest returns the upper bound of relevant times, plus the tolerance.
func (s *scan) latest() time.Time { return s.result.latest(s.q).Add(clockSkew) }

// backward reads an uncompressed file of lines in reverse.
func (s *scan) backward() error {
	r := newBackwardReader(s.file, offsetAfter(s.file, s.file.size, s.latest()))
	for s.ctx.Err() == nil {
		rec, err := r.prev()
		if err != nil {
			s.untimed += len(s.pending)
			return err
		}
		d := jsonLines.parse(rec.raw)
		if d.time.IsZero() {
			if len(s.pending) == maxPending || s.pendingBytes > maxPendingBytes {
				s.untimed += len(s.pending)
				s.pending, s.pendingBytes = nil, 0
			}
			s.pending = append(s.pending, untimedLine{rec, d})
			s.pendingBytes += len(rec.raw)
			continue
		}
		for _, w := range s.pending {
			s.offer(w.rec, w.d, d.time)
		}
		s.pending, s.pendingBytes = nil, 0
		s.offer(rec, d, d.time)
		if d.time.Before(s.earliest()) {
			return nil
		}
	}
	return s.ctx.Err()
}

// forward reads a file that can only be read sequentially.
func (s *scan) forward() error {
	r, err := s.file.reader(s.ctx)
	if err != nil {
		return err
	}
	split := newRecordReader(s.file.format, r, 0)
	var last time.Time
	for {
		rec, err := split.next()
		if err != nil {
			return err
		}
		d := s.file.format.parse(rec.raw)
		if !d.time.IsZero() {
			last = d.time
		}
		if last.IsZero() {
			s.untimed++
		} else if last.After(s.latest()) {
			return nil
		}
		s.offer(rec, d, last)
	}
}

// offer adds an entry to the result if it matches.
func (s *scan) offer(rec record, d parsedRecord, at time.Time) {
	if at.Before(s.q.Since) || at.After(s.q.Until) || !d.matches(s.q, rec.raw) {
		return
	}
	p := position{time: at.UnixNano(), file: s.file.digest, offset: rec.offset}
	if s.top.wants(p) {
		s.top.add(rankedEntry{p, entryOf(s.q.Service, s.file, rec, d, at), len(rec.raw) + len(d.message)})
	}
}

// entryOf returns an entry that shares no memory with the record.
func entryOf(service string, f *file, rec record, d parsedRecord, at time.Time) Entry {
	return Entry{
		ID:      id{service, f.digest, rec.offset, digestOf(rec.raw)}.String(),
		Service: service, Time: at, Level: d.level.String(), Message: d.message, Fields: d.encodeFields(), Cut: rec.cut,
	}
}

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

// digest is a truncated hash. The digest of a file covers its first line, so it
// survives renaming and compression.
type digest [8]byte

func digestOf(parts ...[]byte) digest {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		h.Write(p)
	}
	return digest(h.Sum(nil)[:8])
}

// Type tags of encoded tokens.
const (
	kindID       = 1
	kindCursor   = 2
	kindRemoteID = 3
)

// id locates an entry and identifies its content.
type id struct {
	service string
	file    digest
	offset  int64
	hash    digest
}

func (i id) String() string {
	b := append([]byte{kindID}, i.file[:]...)
	b = append(b, i.hash[:]...)
	b = binary.AppendUvarint(b, uint64(i.offset)) //nolint:gosec // it is not negative
	return base64.RawURLEncoding.EncodeToString(append(b, i.service...))
}

// parseID parses the result of [id.String].
func parseID(s string) (i id, ok bool) {
	a, b, offset, rest, ok := parseToken(s, kindID)
	i = id{service: rest, file: a, offset: offset, hash: b}
	return i, ok && i.String() == s
}

func (p position) cursor() string {
	b := binary.BigEndian.AppendUint64([]byte{kindCursor}, uint64(p.time)) //nolint:gosec // read back the same way
	b = binary.AppendUvarint(append(b, p.file[:]...), uint64(p.offset))    //nolint:gosec // it is not negative
	return base64.RawURLEncoding.EncodeToString(b)
}

// parseCursor parses the result of [position.cursor].
func parseCursor(s string) (p position, ok bool) {
	a, b, offset, _, ok := parseToken(s, kindCursor)
	p = position{time: int64(binary.BigEndian.Uint64(a[:])), file: b, offset: offset} //nolint:gosec // see cursor
	return p, ok && p.cursor() == s
}

// parseToken splits an ID or a cursor: two words of eight bytes, an offset, and
// the rest.
func parseToken(s string, kind byte) (a, b digest, offset int64, rest string, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(raw) < 18 || raw[0] != kind {
		return a, b, 0, "", false
	}
	n, size := binary.Uvarint(raw[17:])
	if size <= 0 || n > 1<<62 {
		return a, b, 0, "", false
	}
	return digest(raw[1:9]), digest(raw[9:17]), int64(n), string(raw[17+size:]), true
}
