package gitserver

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxPacket is the length of the longest pkt-line, its four digits included.
const maxPacket = 65520

// Kinds of pkt-lines.
type packetKind int

const (
	dataPacket packetKind = iota
	flushPacket
	delimiterPacket
	endPacket // response-end
)

var errPacket = errors.New("malformed pkt-line")

// readPacket reads one pkt-line of at most limit bytes, its length included. It
// reads nothing beyond it. The error is io.EOF only at the end of a packet.
func readPacket(r io.Reader, limit int) (packetKind, []byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n, err := packetLength(head[:])
	switch {
	case err != nil || n == 3 || n > min(limit, maxPacket):
		return 0, nil, errPacket
	case n < 3:
		return []packetKind{flushPacket, delimiterPacket, endPacket}[n], nil, nil
	}
	data := make([]byte, n-4)
	if _, err := io.ReadFull(r, data); err != nil {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return dataPacket, data, nil
}

// packetLength returns the length that the first four bytes of a pkt-line say.
func packetLength(line []byte) (int, error) {
	n, err := strconv.ParseUint(string(line[:4]), 16, 16)
	if err != nil || line[0] == '+' || line[0] == '-' || bytes.IndexByte(line[:4], '_') >= 0 {
		return 0, errPacket
	}
	return int(n), nil
}

// packet returns data as a pkt-line. It must fit.
func packet(data string) []byte { return fmt.Appendf(nil, "%04x%s", len(data)+4, data) }

const (
	flushLine     = "0000"
	delimiterLine = "0001"
)

// Side bands of an answer.
const (
	bandData     = 1
	bandProgress = 2
	bandError    = 3
)

// writeBand writes data in packets of the side band.
func writeBand(w io.Writer, band byte, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), maxPacket-5)
		if _, err := w.Write(packet(string(band) + string(data[:n]))); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// isObjectID reports whether the text is the ID of an object.
func isObjectID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// isZero reports whether an object ID stands for none.
func isZero(id string) bool { return strings.Trim(id, "0") == "" }

// refScanner is a writer that collects refs from an advertisement or an answer to
// ls-refs that passes through it, up to a limit. It ignores what is not one.
type refScanner struct {
	left  int // refs to collect
	refs  map[string]string
	line  []byte
	skip  int // bytes of a line that is too long
	ended bool
}

// maxRefLine is the longest line that a refScanner keeps.
const maxRefLine = 1024

func (s *refScanner) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 && !s.ended && s.left > 0 {
		if s.skip > 0 {
			n := min(s.skip, len(p))
			s.skip, p = s.skip-n, p[n:]
			continue
		}
		need := 4
		if len(s.line) >= 4 {
			need, _ = packetLength(s.line)
		}
		n := min(need-len(s.line), len(p))
		s.line, p = append(s.line, p[:n]...), p[n:]
		s.take()
	}
	return written, nil
}

// take handles a line that is complete, or that will be too long.
func (s *refScanner) take() {
	if len(s.line) < 4 {
		return
	}
	switch n, err := packetLength(s.line); {
	case err != nil:
		s.ended = true
	case n <= 4:
		s.line = s.line[:0]
	case n > maxRefLine: // the first one, with long capabilities
		s.skip, s.line = n-len(s.line), s.line[:0]
	case n == len(s.line):
		s.add(s.line[4:])
		s.line = s.line[:0]
	}
}

func (s *refScanner) add(line []byte) {
	line, _, _ = bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte{0})
	id, name, ok := strings.Cut(string(line), " ")
	name, _, _ = strings.Cut(name, " ") // attributes of protocol 2
	if !ok || !isObjectID(id) || name == "" || strings.HasSuffix(name, "^{}") {
		return
	}
	if s.refs == nil {
		s.refs = map[string]string{}
	}
	if known := s.refs[id]; known == "" || known == "HEAD" {
		s.refs[id] = name
		s.left--
	}
}

// advertisedRefs reads a whole advertisement of protocol 0 or 1 and calls each for
// its refs. It keeps nothing, however many there are.
func advertisedRefs(r io.Reader, each func(id, name string)) error {
	buffered := bufio.NewReader(r)
	for complete := false; ; { // a flush was the last packet; an empty repository has no refs
		kind, line, err := readPacket(buffered, maxPacket)
		if errors.Is(err, io.EOF) && complete {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the refs: %w", err)
		}
		complete = kind == flushPacket
		text := strings.TrimSuffix(string(line), "\n")
		if kind != dataPacket || strings.HasPrefix(text, "# service=") || text == "version 1" {
			continue
		}
		text, _, _ = strings.Cut(text, "\x00")
		id, name, ok := strings.Cut(text, " ")
		if !ok || !isObjectID(id) && id != "shallow" {
			return errPacket
		}
		each(id, name)
	}
}
