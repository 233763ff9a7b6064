package connector

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// event is one server-sent event, as far as it matters here.
type event struct {
	data  []byte        // good until the next event
	id    string        // the last one that the stream gave
	retry time.Duration // zero: not given
}

// readEvents calls f for every event that has data, until f returns false or
// the stream ends, cleanly or not. An event that the stream's end cut short
// is given to f too: what it is worth shows from its JSON.
func readEvents(r io.Reader, f func(event) bool) error {
	p := eventParser{lines: bufio.NewReaderSize(r, 32<<10), first: true}
	for {
		line, err := p.line()
		if err == nil || len(line) > 0 {
			if done := p.take(line); done && !p.dispatch(f) {
				return nil
			}
		}
		if err == nil {
			continue
		}
		if p.has && !p.dispatch(f) || errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
}

type eventParser struct {
	lines *bufio.Reader
	long  []byte // of a line that does not fit the reader
	first bool   // no line was read yet
	skip  bool   // the last line ended in CR: an LF is part of its end

	event
	has bool // the event has data
}

// line returns the next line without its end, which is LF, CR or both.
func (p *eventParser) line() ([]byte, error) {
	p.long = p.long[:0]
	for {
		chunk, err := p.lines.Peek(1)
		if err != nil {
			return p.long, err
		}
		if p.skip && chunk[0] == '\n' {
			p.skip = false
			_, _ = p.lines.Discard(1)
			continue
		}
		p.skip = false
		chunk, _ = p.lines.Peek(p.lines.Buffered())
		end := bytes.IndexAny(chunk, "\r\n")
		if end < 0 {
			p.long = append(p.long, chunk...)
			_, _ = p.lines.Discard(len(chunk))
			continue
		}
		p.skip = chunk[end] == '\r'
		line := chunk[:end]
		if len(p.long) > 0 {
			p.long = append(p.long, line...)
			line = p.long
		}
		// Good until the reader is asked again, which take does not.
		_, _ = p.lines.Discard(end + 1)
		return line, nil
	}
}

// take reads one line and reports whether it ends an event that has data.
func (p *eventParser) take(line []byte) bool {
	if p.first {
		p.first = false
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	if len(line) == 0 {
		return p.has
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		if p.has {
			p.data = append(p.data, '\n')
		}
		p.data, p.has = append(p.data, value...), true
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			p.id = string(value)
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
			p.retry = time.Duration(ms) * time.Millisecond
		}
	}
	return false
}

func (p *eventParser) dispatch(f func(event) bool) bool {
	more := f(p.event)
	p.data, p.has = p.data[:0], false
	return more
}
