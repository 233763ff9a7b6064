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

// Tolerances: clockSkew for the order of lines, mtimeSkew between modification
// times and timestamps.
const (
	clockSkew = 10 * time.Second
	mtimeSkew = time.Minute
)

// logFiles implements the queries. Errors that agents can act on are of type
// [*sources.Refusal].
type logFiles struct {
	services map[string]string // path or pattern by name
	log      *slog.Logger
}

// list returns the services, sorted by name.
func (b *logFiles) list(ctx context.Context) ([]Service, error) {
	all := []Service{}
	for name, pattern := range b.services {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s := Service{Name: name}
		list, _ := listFiles(pattern)
		for i, f := range list {
			if i == 0 {
				newest := f.modified.UTC().Truncate(time.Second)
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

// query returns the newest matching entries, newest first.
func (b *logFiles) query(ctx context.Context, q Query) (Page, error) {
	pattern, ok := b.services[q.Service]
	if !ok {
		return Page{}, unknownService(q.Service)
	}
	s := &scan{ctx: ctx, q: &q, top: topEntries{limit: q.Limit}}
	if q.Cursor != "" {
		after, ok := parseCursor(q.Cursor)
		if !ok {
			return Page{}, &sources.Refusal{Code: "invalid_cursor", Status: 400, Message: "The cursor is none of query_logs; repeat the query without it."}
		}
		s.top.after = &after
	}
	list, unreadable := listFiles(pattern)
	for _, at := range list {
		if at.modified.Before(s.earliest().Add(clockSkew - mtimeSkew)) {
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

// scan reads a file for a query. Entries before an error are kept.
func (b *logFiles) scan(s *scan, at fileInfo) error {
	f, err := b.open(s.q.Service, at)
	switch {
	case isEOF(err) || errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	defer f.Close()
	s.file, s.pending, s.pendingBytes = f, nil, 0
	if f.gzipped || f.format == journalExport {
		err = s.forward()
	} else {
		err = s.backward()
	}
	if isEOF(err) {
		return nil
	}
	return err
}

// get returns the entry with an ID from query.
func (b *logFiles) get(ctx context.Context, text string) (Entry, error) {
	want, ok := parseID(text)
	pattern, known := b.services[want.service]
	if !ok || !known {
		return Entry{}, unknownEntry()
	}
	list, _ := listFiles(pattern)
	for _, at := range list {
		entry, err := b.entry(ctx, want, at)
		switch {
		case err == nil:
			return entry, nil
		case ctx.Err() != nil:
			return Entry{}, ctx.Err()
		}
	}
	return Entry{}, unknownEntry()
}

// entry finds an entry in a file. The error is io.EOF if it is not there.
func (b *logFiles) entry(ctx context.Context, want id, at fileInfo) (Entry, error) {
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
	s := newRecordReader(f.format, r, 0)
	if !f.gzipped {
		if err := s.seek(f, want.offset); err != nil {
			return Entry{}, err
		}
	}
	var last time.Time
	for {
		rec, err := s.next()
		if err != nil || rec.offset > want.offset {
			return Entry{}, cmp.Or(err, io.EOF)
		}
		d := f.format.parse(rec.raw)
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

// seek positions the reader at the offset if a line starts there, or at an
// earlier line with a timestamp.
func (s *recordReader) seek(f *file, offset int64) error {
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
	if s.format == jsonLines {
		back := newBackwardReader(f, offset)
		for range maxPending {
			rec, err := back.prev()
			if err != nil {
				break
			}
			if from = rec.offset; !jsonLines.parse(rec.raw).time.IsZero() {
				break
			}
		}
	}
	s.offset = from
	s.r = newReader(io.NewSectionReader(f, from, f.size-from))
	return nil
}

func unknownService(name string) error {
	return &sources.Refusal{Code: "unknown_service", Status: 404, Message: "There is no service " + quote(name) + "; list_services names them."}
}

func unknownEntry() error {
	return &sources.Refusal{Code: "unknown_entry", Status: 404, Message: "There is no entry with this id, or its file is gone by now, or cannot be read; query the logs again for ids."}
}
