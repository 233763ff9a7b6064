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

// file is an open file of a service.
type file struct {
	*os.File
	size   int64
	zipped bool
	format format
	digest digest
}

// open opens a file and looks how it begins. The error is fs.ErrNotExist also
// where there is nothing to read.
func (b *files) open(service string, at found) (*file, error) {
	f, err := at.open()
	if err != nil {
		return nil, err
	}
	o := &file{File: f, zipped: at.zipped}
	if err := o.look(service); err != nil {
		f.Close()
		return nil, err
	}
	return o, nil
}

func (f *file) look(service string) error {
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
	if err != nil && !ended(err) {
		return err
	}
	f.format = formatOf(head)
	line, _, _ := bytes.Cut(head, []byte("\n"))
	if f.format == exported { // all of them begin alike
		line, _, _ = bytes.Cut(head, []byte("\n\n"))
	}
	f.digest = digestOf([]byte(service), line)
	return nil
}

// reader reads the file from its beginning, until ctx ends.
func (f *file) reader(ctx context.Context) (*bufio.Reader, error) {
	var r io.Reader = io.NewSectionReader(f, 0, f.size)
	if f.zipped {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		r = z
	}
	return newReader(&ending{ctx, r}), nil
}

func newReader(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, block) }

// ending is a reader that ends with its context.
type ending struct {
	ctx context.Context
	r   io.Reader
}

func (e *ending) Read(p []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, err
	}
	return e.r.Read(p)
}

// ended reports whether reading came to the end of what is there, also of a
// file that is being written or was cut off.
func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
