package cloudlogs

import (
	"bytes"
	"errors"
	"io"
	"time"
)

// block is how much of a file is read at a time.
const block = 64 << 10

// backward reads the lines of a file from some place to its beginning.
type backward struct {
	r    io.ReaderAt
	from int64  // where held begins in the file
	held []byte // whole lines that are still to be told, the first of them perhaps not whole
	cut  bool   // the last of them is longer than what is held
	open bool   // the last of them may have no end yet
}

// newBackward reads the lines before the end, where one ends or the file does.
func newBackward(r io.ReaderAt, end int64) *backward { return &backward{r: r, from: end, open: true} }

// prev returns the line before. The error is io.EOF where there is none.
func (b *backward) prev() (record, error) {
	for {
		content := bytes.TrimSuffix(b.held, []byte("\n"))
		i := bytes.LastIndexByte(content, '\n')
		if i < 0 && b.from > 0 {
			if err := b.more(len(b.held) - len(content)); err != nil {
				return record{}, err
			}
			continue
		}
		if i < 0 && len(b.held) == 0 {
			return record{}, io.EOF
		}
		rec := record{offset: b.from + int64(i) + 1, raw: content[i+1:], cut: b.cut}
		if len(rec.raw) > maxRecord {
			rec.raw, rec.cut = rec.raw[:maxRecord], true
		}
		ended := len(content) < len(b.held) || !b.open
		b.held, b.cut, b.open = b.held[:i+1], false, false
		if len(rec.raw) > 0 && (ended || !rec.cut && complete(rec.raw)) {
			return rec, nil
		}
	}
}

// more reads what is before what is held, which is a part of one line with
// end bytes of its end.
func (b *backward) more(end int) error {
	if len(b.held)-end > maxRecord {
		b.held, b.cut, b.open = b.held[:maxRecord], true, b.open && end == 0
	}
	n := min(block, b.from)
	buf := make([]byte, n, int(n)+len(b.held))
	got, err := b.r.ReadAt(buf, b.from-n)
	if got < len(buf) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.EOF // it was truncated meanwhile
		}
		return err
	}
	b.held, b.from = append(buf, b.held...), b.from-n
	return nil
}

// Bounds of looking for a time in a file.
const (
	near  = 1 << 20 // is not divided any more
	tries = 200     // lines to look at for one with a time
	reach = 1 << 20 // bytes to look at
)

// after returns a place in the file, at the beginning of a line or at the end,
// behind which all lines are later than t, as far as they are in order.
func after(r io.ReaderAt, size int64, t time.Time) int64 {
	end, low, high := size, int64(0), size
	for high-low > near {
		middle := low + (high-low)/2
		at, found := timeAfter(r, middle, min(middle+reach, size))
		if found.IsZero() {
			return end
		}
		if found.After(t) {
			end, high = at, middle
		} else {
			low = middle
		}
	}
	return end
}

// timeAfter returns the first line with a time that begins behind from.
func timeAfter(r io.ReaderAt, from, to int64) (int64, time.Time) {
	s := newSplitter(lines, newReader(io.NewSectionReader(r, from, to-from)), from)
	if s.line() != nil { // a part of one
		return 0, time.Time{}
	}
	for range tries {
		rec, err := s.next()
		if err != nil {
			break
		}
		if d := lines.read(rec.raw); !d.time.IsZero() {
			return rec.offset, d.time
		}
	}
	return 0, time.Time{}
}
