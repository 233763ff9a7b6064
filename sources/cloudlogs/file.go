package cloudlogs

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
)

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
