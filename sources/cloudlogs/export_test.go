package cloudlogs

import (
	"bufio"
	"bytes"
	"io"
	"time"
)

// After exports offsetAfter.
func After(r io.ReaderAt, size int64, t time.Time) int64 { return offsetAfter(r, size, t) }

// ParsedRecord is a parsed record.
type ParsedRecord struct {
	Offset  int64
	Raw     string
	Cut     bool
	Message string
}

func parsedOf(f format, rec record) ParsedRecord {
	d := f.parse(rec.raw)
	return ParsedRecord{rec.offset, string(rec.raw), rec.cut, d.message}
}

// Forward reads records sequentially.
func Forward(content []byte) (list []ParsedRecord, export bool, fields [][]byte) {
	f := formatOf(content)
	s := newRecordReader(f, bufio.NewReaderSize(bytes.NewReader(content), 16), 0)
	for {
		rec, err := s.next()
		if err != nil {
			return list, f == journalExport, fields
		}
		d := f.parse(rec.raw)
		list, fields = append(list, parsedOf(f, rec)), append(fields, d.encodeFields())
	}
}

// Backward reads lines in reverse.
func Backward(content []byte) (list []ParsedRecord) {
	b := newBackwardReader(bytes.NewReader(content), int64(len(content)))
	for {
		rec, err := b.prev()
		if err != nil {
			return list
		}
		list = append(list, parsedOf(jsonLines, rec))
	}
}

// ParseTime, ParseID and ParseCursor export the parsers of external input.
func ParseTime(s string) time.Time { return parseTime(s) }

func ParseID(s string) (string, bool) {
	i, ok := parseID(s)
	return i.String(), ok
}

func ParseCursor(s string) (string, bool) {
	p, ok := parseCursor(s)
	return p.cursor(), ok
}

// ForgeID returns an ID shifted by some bytes, with the digest of other
// content.
func ForgeID(text string, behind int64, says string) string {
	i, _ := parseID(text)
	i.offset += behind
	i.hash = digestOf([]byte(says))
	return i.String()
}

// LevelOf returns the level of a line.
func LevelOf(raw string) string {
	d := jsonLines.parse([]byte(raw))
	return d.level.String()
}

// MaxRecord exports maxRecord.
const MaxRecord = maxRecord

// RemoteID returns the ID of an entry of a remote service.
func RemoteID(service string, at time.Time, key string) string {
	return remoteID{service, at, key}.String()
}
