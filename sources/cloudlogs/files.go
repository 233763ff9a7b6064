package cloudlogs

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"sallyport/sources"
)

// slack is how far from their order lines may be, and clocks of files from
// those of the lines in them.
const (
	slack     = 10 * time.Second
	fileSlack = time.Minute
)

// files are the logs. Errors that agents can do something about are
// [*sources.Refusal]s.
type files struct {
	services map[string]string // path or pattern by name
	log      *slog.Logger
}

// list returns what has logs, by name.
func (b *files) list(ctx context.Context) ([]Service, error) {
	all := []Service{}
	for name, pattern := range b.services {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s := Service{Name: name}
		list, _ := findFiles(pattern)
		for i, f := range list {
			if i == 0 {
				newest := f.written.UTC().Truncate(time.Second)
				s.Newest = &newest
			}
			s.Files++
			s.Bytes += f.size
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Service) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// query returns the newest entries that fit, newest first.
func (b *files) query(ctx context.Context, q Query) (Page, error) {
	pattern, ok := b.services[q.Service]
	if !ok {
		return Page{}, noService(q.Service)
	}
	s := &scan{ctx: ctx, q: &q, top: top{limit: q.Limit}}
	if q.Cursor != "" {
		after, ok := parseCursor(q.Cursor)
		if !ok {
			return Page{}, &sources.Refusal{Code: "invalid_cursor", Status: 400, Message: "The cursor is none of query_logs; repeat the query without it."}
		}
		s.top.after = &after
	}
	list, unreadable := findFiles(pattern)
	for _, at := range list {
		if at.written.Before(s.least().Add(slack - fileSlack)) {
			break
		}
		switch err := b.scan(s, at); {
		case ctx.Err() != nil:
			return Page{}, ctx.Err()
		case err != nil:
			b.log.Warn("a file of logs cannot be read", "service", q.Service, "file", at.path, "err", err)
			unreadable++
		}
	}
	page := s.top.page()
	page.Untimed, page.Unreadable = s.untimed, unreadable
	return page, nil
}

// scan reads a file for a query. What was read of it before an error stays read.
func (b *files) scan(s *scan, at found) error {
	f, err := b.open(s.q.Service, at)
	switch {
	case ended(err) || errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	defer f.Close()
	s.file, s.pending, s.held = f, nil, 0
	if f.zipped || f.format == exported {
		err = s.forward()
	} else {
		err = s.backward()
	}
	if ended(err) {
		return nil
	}
	return err
}

// get returns the entry with an id that query gave it.
func (b *files) get(ctx context.Context, text string) (Entry, error) {
	want, ok := parseID(text)
	pattern, known := b.services[want.service]
	if !ok || !known {
		return Entry{}, noEntry()
	}
	list, _ := findFiles(pattern)
	for _, at := range list {
		entry, err := b.entry(ctx, want, at)
		switch {
		case err == nil:
			return entry, nil
		case ctx.Err() != nil:
			return Entry{}, ctx.Err()
		}
	}
	return Entry{}, noEntry()
}

// entry looks for an entry in a file. The error is io.EOF when it is not there.
func (b *files) entry(ctx context.Context, want id, at found) (Entry, error) {
	f, err := b.open(want.service, at)
	if err != nil {
		return Entry{}, err
	}
	defer f.Close()
	if f.digest != want.file {
		return Entry{}, io.EOF
	}
	r, err := f.reader(ctx)
	if err != nil {
		return Entry{}, err
	}
	s := newSplitter(f.format, r, 0)
	if !f.zipped {
		if err := s.skip(f, want.offset); err != nil {
			return Entry{}, err
		}
	}
	var last time.Time
	for {
		rec, err := s.next()
		if err != nil || rec.offset > want.offset {
			return Entry{}, cmp.Or(err, io.EOF)
		}
		d := f.format.read(rec.raw)
		if !d.time.IsZero() {
			last = d.time
		}
		if rec.offset == want.offset {
			if digestOf(rec.raw) != want.hash {
				return Entry{}, io.EOF
			}
			return entryOf(want.service, f, rec, d, last), nil
		}
	}
}

// skip goes on at an offset, or at a line before that has a time, when the
// file has a line there.
func (s *splitter) skip(f *file, offset int64) error {
	if offset >= f.size {
		return io.EOF
	}
	if offset > 0 {
		var before [1]byte
		if _, err := f.ReadAt(before[:], offset-1); err != nil || before[0] != '\n' {
			return io.EOF
		}
	}
	from := offset
	if s.format == lines {
		back := newBackward(f, offset)
		for range maxPending {
			rec, err := back.prev()
			if err != nil {
				break
			}
			if from = rec.offset; !lines.read(rec.raw).time.IsZero() {
				break
			}
		}
	}
	s.offset = from
	s.r = newReader(io.NewSectionReader(f, from, f.size-from))
	return nil
}

func noService(name string) error {
	return &sources.Refusal{Code: "unknown_service", Status: 404, Message: "There is no service " + quote(name) + "; list_services names them."}
}

func noEntry() error {
	return &sources.Refusal{Code: "unknown_entry", Status: 404, Message: "There is no entry with this id, or its file is gone by now, or cannot be read; query the logs again for ids."}
}
