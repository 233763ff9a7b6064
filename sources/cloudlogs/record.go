package cloudlogs

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
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
	d.time, d.level = recordTime(d.fields), recordLevel(d.fields)
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
