package cloudlogs

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
)

// format is how a file is written.
type format int

// The formats.
const (
	lines    format = iota // one entry a line
	exported               // as journalctl -o export writes them
)

// formatOf tells by the beginning of a file how it is written.
func formatOf(head []byte) format {
	for i, c := range head {
		if c == '=' || c == '\n' {
			if fieldName(head[:i]) {
				return exported
			}
			break
		}
	}
	return lines
}

// splitter reads records one after the other.
type splitter struct {
	format format
	r      *bufio.Reader
	offset int64
	record record

	head   []byte // of the line that was read last
	length int    // of that line
}

func newSplitter(f format, r *bufio.Reader, offset int64) *splitter {
	return &splitter{format: f, r: r, offset: offset}
}

// next returns the next record, which is good until the one after it is asked
// for. The error is io.EOF at the end; what is not whole there is left out, but
// for a line that only lacks its end.
func (s *splitter) next() (record, error) {
	for {
		s.record = record{offset: s.offset, raw: s.record.raw[:0]}
		var err error
		if s.format == exported {
			err = s.entry()
		} else if err = s.line(); errors.Is(err, io.EOF) && len(s.record.raw) > 0 && complete(s.record.raw) {
			err = nil
		}
		if err != nil || len(s.record.raw) > 0 {
			return s.record, err
		}
	}
}

// complete reports whether a line without its end is one after all.
func complete(raw []byte) bool {
	_, whole := members(raw)
	return whole
}

// line reads up to the end of a line, which it leaves out.
func (s *splitter) line() error {
	s.head, s.length = s.head[:0], 0
	for {
		part, err := s.r.ReadSlice('\n')
		s.offset += int64(len(part))
		if err == nil {
			part = part[:len(part)-1]
		}
		s.length += len(part)
		s.head = append(s.head, part[:min(len(part), maxName-len(s.head))]...)
		s.keep(part)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// entry reads up to the empty line after an entry.
func (s *splitter) entry() error {
	for {
		if err := s.line(); err != nil || s.length == 0 {
			return err
		}
		s.keep([]byte{'\n'})
		if s.length <= maxName && fieldName(s.head) {
			if err := s.bytes(); err != nil {
				return err
			}
		}
	}
}

// maxField is the most that a journal has in one field.
const maxField = 1 << 30

// bytes reads a field that may hold anything.
func (s *splitter) bytes() error {
	var size [8]byte
	n, err := io.ReadFull(s.r, size[:])
	s.offset += int64(n)
	if err != nil {
		return io.EOF
	}
	s.keep(size[:])
	left := binary.LittleEndian.Uint64(size[:])
	if left > maxField {
		return io.EOF // it is no export, or a broken one
	}
	for left++; left > 0; { // with the end of the line
		part, err := s.r.Peek(int(min(left, 4096)))
		if len(part) == 0 {
			return err
		}
		s.keep(part)
		n, _ := s.r.Discard(len(part))
		s.offset += int64(n)
		left -= uint64(n)
	}
	return nil
}

func (s *splitter) keep(part []byte) {
	if room := maxRecord - len(s.record.raw); len(part) > room {
		part, s.record.cut = part[:room], true
	}
	s.record.raw = append(s.record.raw, part...)
}
