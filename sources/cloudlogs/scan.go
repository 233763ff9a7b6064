package cloudlogs

import (
	"context"
	"time"
)

// Limits of untimed lines that are held until a line with a timestamp.
const (
	maxPending      = 1000
	maxPendingBytes = 4 << 20
)

// scan reads the files of a service for a query, one at a time.
type scan struct {
	ctx     context.Context
	q       *Query
	top     topEntries
	untimed int

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
	if floor := s.top.cutoff(); floor.After(least) {
		least = floor
	}
	return least.Add(-clockSkew)
}

// latest returns the upper bound of relevant times, plus the tolerance.
func (s *scan) latest() time.Time {
	most := s.q.Until
	if s.top.after != nil && s.top.after.timestamp().Before(most) {
		most = s.top.after.timestamp()
	}
	return most.Add(clockSkew)
}

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
			s.hold(untimedLine{rec, d})
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

func (s *scan) hold(w untimedLine) {
	if len(s.pending) == maxPending || s.pendingBytes > maxPendingBytes {
		s.untimed += len(s.pending)
		s.pending, s.pendingBytes = nil, 0
	}
	s.pending = append(s.pending, w)
	s.pendingBytes += len(w.rec.raw)
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
