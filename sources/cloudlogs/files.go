package cloudlogs

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
		return Page{}, &sources.Refusal{Code: "unknown_service", Status: 404, Message: "There is no service " + quote(q.Service) + "; list_services names them."}
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

func unknownEntry() error {
	return &sources.Refusal{Code: "unknown_entry", Status: 404, Message: "There is no entry with this id, or its file is gone by now, or cannot be read; query the logs again for ids."}
}

// maxFiles bounds the files per service; the latest modified are read.
const maxFiles = 1000

// fileInfo describes a file that is not open.
type fileInfo struct {
	dir      string // the root it must not leave; empty if the operator named the file
	path     string // relative to dir
	gzipped  bool
	size     int64
	modified time.Time
}

// listFiles returns the files of a pattern, last modified first, and how many
// were skipped because they resolve outside the directory.
func listFiles(pattern string) (list []fileInfo, strays int) {
	paths, _ := filepath.Glob(pattern) // New validated the pattern
	folder := pattern                  // before the first wildcard, or "" for a plain path
	for strings.ContainsAny(folder, `*?[\`) {
		folder = filepath.Dir(folder)
	}
	if folder == pattern {
		folder = ""
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		f := fileInfo{path: path, gzipped: strings.HasSuffix(path, ".gz"), size: info.Size(), modified: info.ModTime()}
		if folder != "" && !f.within(folder) {
			strays++
			continue
		}
		list = append(list, f)
	}
	slices.SortStableFunc(list, func(a, b fileInfo) int { return b.modified.Compare(a.modified) })
	return list[:min(len(list), maxFiles)], strays
}

// within reports whether the file resolves inside the directory, and records
// the resolved path.
func (f *fileInfo) within(folder string) bool {
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return false
	}
	path, err := filepath.EvalSymlinks(f.path)
	if err != nil {
		return false
	}
	path, err = filepath.Rel(folder, path)
	f.dir, f.path = folder, path
	return err == nil && filepath.IsLocal(path)
}

// open opens the file. Inside a root, a concurrent swap for a link cannot
// escape it.
func (f *fileInfo) open() (*os.File, error) {
	if f.dir == "" {
		return os.Open(f.path)
	}
	return os.OpenInRoot(f.dir, f.path)
}

// file is an open log file.
type file struct {
	*os.File
	size    int64
	gzipped bool
	format  format
	digest  digest
}

// open opens a file and detects its format. The error is fs.ErrNotExist also
// for an empty or irregular file.
func (b *logFiles) open(service string, at fileInfo) (*file, error) {
	f, err := at.open()
	if err != nil {
		return nil, err
	}
	o := &file{File: f, gzipped: at.gzipped}
	if err := o.readHead(service); err != nil {
		f.Close()
		return nil, err
	}
	return o, nil
}

func (f *file) readHead(service string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if f.size = info.Size(); f.size == 0 || !info.Mode().IsRegular() {
		return fs.ErrNotExist
	}
	r, err := f.reader(context.Background())
	if err != nil {
		return err
	}
	head, err := r.Peek(4096)
	if err != nil && !isEOF(err) {
		return err
	}
	f.format = formatOf(head)
	line, _, _ := bytes.Cut(head, []byte("\n"))
	if f.format == journalExport { // the first line is not unique
		line, _, _ = bytes.Cut(head, []byte("\n\n"))
	}
	f.digest = digestOf([]byte(service), line)
	return nil
}

// reader reads the file from the start, until ctx is done.
func (f *file) reader(ctx context.Context) (*bufio.Reader, error) {
	var r io.Reader = io.NewSectionReader(f, 0, f.size)
	if f.gzipped {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		r = z
	}
	return newReader(&contextReader{ctx, r}), nil
}

func newReader(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, blockSize) }

// contextReader fails when its context is done.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (e *contextReader) Read(p []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, err
	}
	return e.r.Read(p)
}

// isEOF reports whether the error is the end of the file, or of a file that is
// incomplete.
func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
