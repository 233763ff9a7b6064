package cloudlogs

import (
	"bytes"
	"errors"
	"io"
	"time"
)

// blockSize is the number of bytes per read.
const blockSize = 64 << 10

// backwardReader reads the lines of a file from an offset back to the start.
type backwardReader struct {
	r            io.ReaderAt
	start        int64  // offset of buf in the file
	buf          []byte // unread lines; the first can be incomplete
	cut          bool   // the last line is longer than buf
	unterminated bool   // the last line may lack a newline
}

// newBackwardReader reads the lines before end, which is a line boundary or the
// end of the file.
func newBackwardReader(r io.ReaderAt, end int64) *backwardReader {
	return &backwardReader{r: r, start: end, unterminated: true}
}

// prev returns the previous line, or io.EOF at the start.
func (b *backwardReader) prev() (record, error) {
	for {
		content := bytes.TrimSuffix(b.buf, []byte("\n"))
		i := bytes.LastIndexByte(content, '\n')
		if i < 0 && b.start > 0 {
			if err := b.readBlock(len(b.buf) - len(content)); err != nil {
				return record{}, err
			}
			continue
		}
		if i < 0 && len(b.buf) == 0 {
			return record{}, io.EOF
		}
		rec := record{offset: b.start + int64(i) + 1, raw: content[i+1:], cut: b.cut}
		if len(rec.raw) > maxRecord {
			rec.raw, rec.cut = rec.raw[:maxRecord], true
		}
		ended := len(content) < len(b.buf) || !b.unterminated
		b.buf, b.cut, b.unterminated = b.buf[:i+1], false, false
		if len(rec.raw) > 0 && (ended || !rec.cut && isComplete(rec.raw)) {
			return rec, nil
		}
	}
}

// readBlock prepends the block before buf. Buf is part of one line, with end
// bytes of newline.
func (b *backwardReader) readBlock(end int) error {
	if len(b.buf)-end > maxRecord {
		b.buf, b.cut, b.unterminated = b.buf[:maxRecord], true, b.unterminated && end == 0
	}
	n := min(blockSize, b.start)
	buf := make([]byte, n, int(n)+len(b.buf))
	got, err := b.r.ReadAt(buf, b.start-n)
	if got < len(buf) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.EOF // the file was truncated concurrently
		}
		return err
	}
	b.buf, b.start = append(buf, b.buf...), b.start-n
	return nil
}

// Limits of the binary search by time.
const (
	minSearchSpan = 1 << 20 // bytes that are not halved any further
	maxTimeLines  = 200     // lines to scan for a timestamp
	maxTimeBytes  = 1 << 20 // bytes to scan for a timestamp
)

// offsetAfter returns an offset, at a line boundary or the end, after which all
// lines are later than t, assuming the file is sorted.
func offsetAfter(r io.ReaderAt, size int64, t time.Time) int64 {
	end, low, high := size, int64(0), size
	for high-low > minSearchSpan {
		middle := low + (high-low)/2
		at, found := firstTimeAfter(r, middle, min(middle+maxTimeBytes, size))
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

// firstTimeAfter returns the first line with a timestamp that starts after
// from.
func firstTimeAfter(r io.ReaderAt, from, to int64) (int64, time.Time) {
	s := newRecordReader(jsonLines, newReader(io.NewSectionReader(r, from, to-from)), from)
	if s.line() != nil { // skip the partial line
		return 0, time.Time{}
	}
	for range maxTimeLines {
		rec, err := s.next()
		if err != nil {
			break
		}
		if d := jsonLines.parse(rec.raw); !d.time.IsZero() {
			return rec.offset, d.time
		}
	}
	return 0, time.Time{}
}
