package cloudlogs

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sallyport/internal/jsonlex"
)

// maxRecord bounds the bytes kept per record.
const maxRecord = 256 << 10

// record is a line of a file, or an entry of a journal export.
type record struct {
	offset int64
	raw    []byte // at most maxRecord bytes, without the newline
	cut    bool   // truncated
}

// parsedRecord is the parsed content of a record.
type parsedRecord struct {
	time    time.Time // zero if unknown
	level   Level
	message string
	fields  []field
	object  bool // has fields
}

// parse parses a record.
func (f format) parse(raw []byte) parsedRecord {
	var d parsedRecord
	if f == journalExport {
		d.fields = journalFields(raw)
		d.object = len(d.fields) > 0
	} else {
		if !utf8.Valid(raw) {
			raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
		}
		var whole bool
		d.fields, whole = parseFields(raw)
		d.object = whole || len(d.fields) > 0
		if !d.object {
			d.message = string(raw)
			return d
		}
	}
	for _, name := range []string{"time", "timestamp", "ts", "@timestamp", "__REALTIME_TIMESTAMP"} {
		if v, ok := findField(d.fields, name); ok {
			if d.time = parseTime(fieldText(v)); !d.time.IsZero() {
				break
			}
		}
	}
	d.level = recordLevel(d.fields)
	_, d.message = firstField(d.fields, "message", "msg", "MESSAGE", "event")
	return d
}

// encodeFields encodes the fields as an object.
func (d *parsedRecord) encodeFields() []byte {
	if !d.object {
		return nil
	}
	out := []byte{'{'}
	for i, m := range d.fields {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(jsonlex.Quote(out, m.name), ':')
		out = append(out, m.value...)
	}
	return append(out, '}')
}

// matches reports whether a record matches a query, apart from its time.
func (d *parsedRecord) matches(q *Query, raw []byte) bool {
	if d.level < q.Level {
		return false
	}
	for name, want := range q.Fields {
		if v, ok := findField(d.fields, name); !ok || fieldText(v) != want {
			return false
		}
	}
	return q.Text == "" || containsFold(d.message, q.Text) || containsFold(string(raw), q.Text)
}

func containsFold(s, part string) bool {
	return strings.Contains(s, part) || strings.Contains(strings.ToLower(s), strings.ToLower(part))
}

// journalFields parses the complete fields of a journal entry. A repeated field
// becomes an array, a binary one an object with base64.
func journalFields(raw []byte) (list []field) {
	at := map[string]int{}
	several := map[string]bool{}
	for len(raw) > 0 {
		name, value, rest, ok := journalField(raw)
		if !ok {
			break
		}
		raw = rest
		i, again := at[name]
		switch {
		case !again:
			at[name] = len(list)
			list = append(list, field{name, value})
		case several[name]:
			list[i].value = append(append(append(list[i].value[:len(list[i].value)-1], ','), value...), ']')
		default:
			several[name] = true
			list[i].value = append(append(append(append([]byte{'['}, list[i].value...), ','), value...), ']')
		}
	}
	return list
}

// journalField parses the field at the start of raw: NAME=text and a newline,
// or NAME, a newline, an eight-byte length, the content and a newline.
func journalField(raw []byte) (name string, value, rest []byte, ok bool) {
	line, rest, ended := bytes.Cut(raw, []byte("\n"))
	if head, content, found := bytes.Cut(line, []byte("=")); found {
		return string(head), quoteJSON(content), rest, ended && isJournalFieldName(head)
	}
	if !ended || !isJournalFieldName(line) || len(rest) < 8 {
		return "", nil, nil, false
	}
	size := binary.LittleEndian.Uint64(rest)
	if rest = rest[8:]; size >= uint64(len(rest)) || rest[size] != '\n' {
		return "", nil, nil, false
	}
	return string(line), quoteJSON(rest[:size]), rest[size+1:], true
}

func quoteJSON(content []byte) []byte {
	if utf8.Valid(content) {
		return jsonlex.Quote(nil, content)
	}
	return append(base64.StdEncoding.AppendEncode([]byte(`{"base64":"`), content), `"}`...)
}

// maxFieldName bounds the name of a journal field.
const maxFieldName = 64

// isJournalFieldName reports whether the name is a valid journal field name.
func isJournalFieldName(name []byte) bool {
	for _, c := range name {
		if c != '_' && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return len(name) > 0 && len(name) <= maxFieldName
}

// field is a field of an entry.
type field struct {
	name  string
	value []byte // raw JSON
}

// maxDepth bounds the nesting of a line.
const maxDepth = 64

// parseFields returns the complete members of the object at the start of data,
// and whether the object is complete.
func parseFields(data []byte) (list []field, whole bool) {
	i := jsonlex.Space(data, 0)
	if i >= len(data) || data[i] != '{' {
		return nil, false
	}
	if i = jsonlex.Space(data, i+1); i < len(data) && data[i] == '}' {
		return nil, jsonlex.Space(data, i+1) == len(data)
	}
	for {
		end, _, err := jsonlex.String(data, i)
		if err != nil {
			return list, false
		}
		name := data[i:end]
		if i = jsonlex.Space(data, end); i >= len(data) || data[i] != ':' {
			return list, false
		}
		i = jsonlex.Space(data, i+1)
		if end, err = jsonlex.Value(data, i, jsonlex.MaxDepth-maxDepth); err != nil || end == len(data) {
			return list, false // a number at the end may be incomplete
		}
		list = append(list, field{fieldText(name), data[i:end]})
		if i = jsonlex.Space(data, end); i >= len(data) || data[i] != ',' {
			return list, i < len(data) && data[i] == '}' && jsonlex.Space(data, i+1) == len(data)
		}
		i = jsonlex.Space(data, i+1)
	}
}

// fieldText returns the content of a JSON string, and any other value as
// written.
func fieldText(value []byte) string {
	if len(value) < 2 || value[0] != '"' {
		return string(value)
	}
	out, _ := jsonlex.Unquote(nil, value[1:len(value)-1])
	return string(out)
}

// findField returns the value of a field. Dots in the name address nested
// objects.
func findField(list []field, name string) ([]byte, bool) {
	for _, m := range list {
		if m.name == name {
			return m.value, true
		}
	}
	for i := range name {
		if name[i] != '.' {
			continue
		}
		for _, m := range list {
			if m.name == name[:i] {
				inner, _ := parseFields(m.value)
				if v, ok := findField(inner, name[i+1:]); ok {
					return v, true
				}
			}
		}
	}
	return nil, false
}

// firstField returns the first of the names that exists, with its text.
func firstField(list []field, names ...string) (name, value string) {
	for _, name := range names {
		if v, ok := findField(list, name); ok {
			return name, fieldText(v)
		}
	}
	return "", ""
}

// parseTime parses RFC 3339, also with a space instead of the T and a zone
// without a colon, or a Unix time in seconds, milli-, micro- or nanoseconds,
// distinguished by magnitude. It returns zero for anything else.
func parseTime(s string) time.Time {
	s = strings.TrimSpace(s)
	for _, form := range []string{time.RFC3339Nano, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z0700"} {
		if t, err := time.Parse(form, s); err == nil {
			return normalizeTime(t)
		}
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		switch {
		case n < 1e11:
			return normalizeTime(time.Unix(n, 0))
		case n < 1e14:
			return normalizeTime(time.UnixMilli(n))
		case n < 1e17:
			return normalizeTime(time.UnixMicro(n))
		}
		return normalizeTime(time.Unix(0, n))
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && f >= 0 && f < 1e17 {
		for f >= 1e11 { // the fraction of anything but seconds does not matter
			f /= 1000
		}
		seconds, rest := math.Modf(f)
		return normalizeTime(time.Unix(int64(seconds), int64(rest*1e9)).Round(time.Microsecond))
	}
	return time.Time{}
}

// normalizeTime returns a plausible time in UTC, or zero.
func normalizeTime(t time.Time) time.Time {
	if t = t.UTC(); t.Year() < 1971 || t.Year() > 2200 {
		return time.Time{}
	}
	return t
}

// recordLevel returns the level in the fields, or zero.
func recordLevel(list []field) Level {
	name, value := firstField(list, "level", "severity", "PRIORITY")
	if n, err := strconv.Atoi(value); err == nil {
		return numericLevel(name, n)
	}
	switch strings.ToLower(value) {
	case "trace", "finest", "silly", "verbose":
		return LevelTrace
	case "debug", "fine":
		return LevelDebug
	case "info", "information", "informational", "default":
		return LevelInfo
	case "notice":
		return LevelNotice
	case "warn", "warning":
		return LevelWarning
	case "err", "error", "severe":
		return LevelError
	case "crit", "critical", "fatal", "panic", "dpanic", "alert", "emerg", "emergency":
		return LevelCritical
	}
	return 0
}

// numericLevel maps numeric levels of syslog, Node.js loggers and Google Cloud.
func numericLevel(name string, n int) Level {
	syslog := []Level{LevelCritical, LevelCritical, LevelCritical, LevelError, LevelWarning, LevelNotice, LevelInfo, LevelDebug}
	node := []Level{LevelTrace, LevelDebug, LevelInfo, LevelWarning, LevelError, LevelCritical}
	cloud := []Level{LevelDebug, LevelInfo, LevelNotice, LevelWarning, LevelError, LevelCritical, LevelCritical, LevelCritical}
	switch {
	case name != "level" && n >= 0 && n < len(syslog):
		return syslog[n]
	case name == "level" && n >= 10 && n/10 <= len(node):
		return node[n/10-1]
	case name == "severity" && n >= 100 && n/100 <= len(cloud):
		return cloud[n/100-1]
	}
	return 0
}
