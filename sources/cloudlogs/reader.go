package cloudlogs

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"time"
)

// format is the format of a file.
type format int

// File formats.
const (
	jsonLines     format = iota // one entry per line
	journalExport               // output of journalctl -o export
)

// formatOf detects the format from the start of a file.
func formatOf(head []byte) format {
	for i, c := range head {
		if c == '=' || c == '\n' {
			if isJournalFieldName(head[:i]) {
				return journalExport
			}
			break
		}
	}
	return jsonLines
}

// recordReader reads records sequentially.
type recordReader struct {
	format format
	r      *bufio.Reader
	offset int64
	record record

	head   []byte // start of the last line
	length int    // length of the last line
}

func newRecordReader(f format, r *bufio.Reader, offset int64) *recordReader {
	return &recordReader{format: f, r: r, offset: offset}
}

// next returns the next record, valid until the next call. The error is io.EOF
// at the end. An incomplete last record is skipped, unless only its newline is
// missing.
func (s *recordReader) next() (record, error) {
	for {
		s.record = record{offset: s.offset, raw: s.record.raw[:0]}
		var err error
		if s.format == journalExport {
			err = s.entry()
		} else if err = s.line(); errors.Is(err, io.EOF) && len(s.record.raw) > 0 && isComplete(s.record.raw) {
			err = nil
		}
		if err != nil || len(s.record.raw) > 0 {
			return s.record, err
		}
	}
}

// isComplete reports whether a line without a newline is a complete object.
func isComplete(raw []byte) bool {
	_, whole := parseFields(raw)
	return whole
}

// line reads a line without its newline.
func (s *recordReader) line() error {
	s.head, s.length = s.head[:0], 0
	for {
		part, err := s.r.ReadSlice('\n')
		s.offset += int64(len(part))
		if err == nil {
			part = part[:len(part)-1]
		}
		s.length += len(part)
		s.head = append(s.head, part[:min(len(part), maxFieldName-len(s.head))]...)
		s.appendRaw(part)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// entry reads up to the empty line that ends a journal entry.
func (s *recordReader) entry() error {
	for {
		if err := s.line(); err != nil || s.length == 0 {
			return err
		}
		s.appendRaw([]byte{'\n'})
		if s.length <= maxFieldName && isJournalFieldName(s.head) {
			if err := s.binaryField(); err != nil {
				return err
			}
		}
	}
}

// maxField bounds a binary field, in bytes.
const maxField = 1 << 30

// binaryField reads a length-prefixed field.
func (s *recordReader) binaryField() error {
	var size [8]byte
	n, err := io.ReadFull(s.r, size[:])
	s.offset += int64(n)
	if err != nil {
		return io.EOF
	}
	s.appendRaw(size[:])
	left := binary.LittleEndian.Uint64(size[:])
	if left > maxField {
		return io.EOF // not an export, or corrupt
	}
	for left++; left > 0; { // including the newline
		part, err := s.r.Peek(int(min(left, 4096)))
		if len(part) == 0 {
			return err
		}
		s.appendRaw(part)
		n, _ := s.r.Discard(len(part))
		s.offset += int64(n)
		left -= uint64(n)
	}
	return nil
}

func (s *recordReader) appendRaw(part []byte) {
	if room := maxRecord - len(s.record.raw); len(part) > room {
		part, s.record.cut = part[:room], true
	}
	s.record.raw = append(s.record.raw, part...)
}

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
