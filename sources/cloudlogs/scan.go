package cloudlogs

import (
	"context"
	"time"
)

// Bounds of the lines without a time that wait for one with it.
const (
	maxPending      = 1000
	maxPendingBytes = 4 << 20
)

// scan reads the files of a service for a query, one after the other.
type scan struct {
	ctx     context.Context
	q       *Query
	top     top
	untimed int

	file    *file
	pending []waiting // of lines, read backward
	held    int       // bytes of them
}

// waiting is a line that has the time of the one before it.
type waiting struct {
	rec record
	d   details
}

// least returns the time before which nothing is wanted, with some slack.
func (s *scan) least() time.Time {
	least := s.q.Since
	if floor := s.top.floor(); floor.After(least) {
		least = floor
	}
	return least.Add(-slack)
}

// most is the time after which nothing is wanted, with some slack.
func (s *scan) most() time.Time {
	most := s.q.Until
	if s.top.after != nil && s.top.after.at().Before(most) {
		most = s.top.after.at()
	}
	return most.Add(slack)
}

// backward reads the lines of a file that is not compressed, the last first.
func (s *scan) backward() error {
	r := newBackward(s.file, after(s.file, s.file.size, s.most()))
	for s.ctx.Err() == nil {
		rec, err := r.prev()
		if err != nil {
			s.untimed += len(s.pending)
			return err
		}
		d := lines.read(rec.raw)
		if d.time.IsZero() {
			s.wait(waiting{rec, d})
			continue
		}
		for _, w := range s.pending {
			s.show(w.rec, w.d, d.time)
		}
		s.pending, s.held = nil, 0
		s.show(rec, d, d.time)
		if d.time.Before(s.least()) {
			return nil
		}
	}
	return s.ctx.Err()
}

func (s *scan) wait(w waiting) {
	if len(s.pending) == maxPending || s.held > maxPendingBytes {
		s.untimed += len(s.pending)
		s.pending, s.held = nil, 0
	}
	s.pending = append(s.pending, w)
	s.held += len(w.rec.raw)
}

// forward reads a file that only can be read from its beginning.
func (s *scan) forward() error {
	r, err := s.file.reader(s.ctx)
	if err != nil {
		return err
	}
	split := newSplitter(s.file.format, r, 0)
	var last time.Time
	for {
		rec, err := split.next()
		if err != nil {
			return err
		}
		d := s.file.format.read(rec.raw)
		if !d.time.IsZero() {
			last = d.time
		}
		if last.IsZero() {
			s.untimed++
		} else if last.After(s.most()) {
			return nil
		}
		s.show(rec, d, last)
	}
}

// show has an entry kept that fits.
func (s *scan) show(rec record, d details, at time.Time) {
	if at.Before(s.q.Since) || at.After(s.q.Until) || !d.fits(s.q, rec.raw) {
		return
	}
	p := place{time: at.UnixNano(), file: s.file.digest, offset: rec.offset}
	if s.top.wants(p) {
		s.top.add(ranked{p, entryOf(s.q.Service, s.file, rec, d, at), len(rec.raw) + len(d.message)})
	}
}

// entryOf makes an entry, which shares nothing with the record.
func entryOf(service string, f *file, rec record, d details, at time.Time) Entry {
	return Entry{
		ID:      id{service, f.digest, rec.offset, digestOf(rec.raw)}.String(),
		Service: service, Time: at, Level: d.level.String(), Message: d.message, Fields: d.json(), Cut: rec.cut,
	}
}
