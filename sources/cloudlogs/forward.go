package cloudlogs

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
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
