package cloudlogs

import (
	"bufio"
	"bytes"
	"io"
	"time"
)

// After is where lines begin that are later than t.
func After(r io.ReaderAt, size int64, t time.Time) int64 { return after(r, size, t) }

// Told is a record as it was read.
type Told struct {
	Offset  int64
	Raw     string
	Cut     bool
	Message string
}

func told(f format, rec record) Told {
	d := f.read(rec.raw)
	return Told{rec.offset, string(rec.raw), rec.cut, d.message}
}

// Forward reads records from the first on.
func Forward(content []byte) (list []Told, export bool, fields [][]byte) {
	f := formatOf(content)
	s := newSplitter(f, bufio.NewReaderSize(bytes.NewReader(content), 16), 0)
	for {
		rec, err := s.next()
		if err != nil {
			return list, f == exported, fields
		}
		d := f.read(rec.raw)
		list, fields = append(list, told(f, rec)), append(fields, d.json())
	}
}

// Backward reads lines from the last on.
func Backward(content []byte) (list []Told) {
	b := newBackward(bytes.NewReader(content), int64(len(content)))
	for {
		rec, err := b.prev()
		if err != nil {
			return list
		}
		list = append(list, told(lines, rec))
	}
}

// ParseTime, ParseID and ParseCursor are the parsers of what comes from
// outside.
func ParseTime(s string) time.Time { return parseTime(s) }

func ParseID(s string) (string, bool) {
	i, ok := parseID(s)
	return i.String(), ok
}

func ParseCursor(s string) (string, bool) {
	p, ok := parseCursor(s)
	return p.cursor(), ok
}

// Forge makes an id that leads some bytes behind another, to what it says.
func Forge(text string, behind int64, says string) string {
	i, _ := parseID(text)
	i.offset += behind
	i.hash = digestOf([]byte(says))
	return i.String()
}

// LevelOf is the level of a line.
func LevelOf(raw string) string {
	d := lines.read([]byte(raw))
	return d.level.String()
}

// MaxRecord bounds a record.
const MaxRecord = maxRecord
