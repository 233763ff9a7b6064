package cloudlogs

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
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

// logFiles are the files of a service.
type logFiles struct {
	service, pattern string
	log              *slog.Logger
}

func openFiles(c *Config, name, pattern string) (backend, error) {
	if _, err := filepath.Match(pattern, ""); err != nil || pattern == "" {
		return nil, fmt.Errorf("the service %q has %q, which is not a path or a pattern of paths", name, pattern)
	}
	return &logFiles{name, pattern, c.Log}, nil
}

func (b *logFiles) describe() Service {
	s := Service{Name: b.service, Kind: "files"}
	list, _ := listFiles(b.pattern)
	for i, f := range list {
		if i == 0 {
			newest := f.modified.UTC().Truncate(time.Second)
			s.Newest = &newest
		}
		s.Files++
		s.Bytes += f.size
	}
	return s
}

func (b *logFiles) query(ctx context.Context, q *Query, r *result) error {
	s := &scan{ctx: ctx, q: q, result: r}
	list, unreadable := listFiles(b.pattern)
	for _, at := range list {
		if at.modified.Before(s.earliest().Add(clockSkew - mtimeSkew)) {
			break
		}
		switch err := b.scan(s, at); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			b.log.Warn("could not read a log file", "service", b.service, "file", at.path, "err", err)
			unreadable++
		}
	}
	r.unreadable = unreadable
	return nil
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

func (b *logFiles) entry(ctx context.Context, text string) (Entry, error) {
	want, ok := parseID(text)
	if !ok {
		return Entry{}, unknownEntry()
	}
	list, _ := listFiles(b.pattern)
	for _, at := range list {
		entry, err := b.find(ctx, want, at)
		switch {
		case err == nil:
			return entry, nil
		case ctx.Err() != nil:
			return Entry{}, ctx.Err()
		}
	}
	return Entry{}, unknownEntry()
}

// find looks for an entry in a file. The error is io.EOF if it is not there.
func (b *logFiles) find(ctx context.Context, want id, at fileInfo) (Entry, error) {
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
