package cloudlogs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/sources"
)

// queryParams are the params of query_logs.
type queryParams struct {
	Service string          `json:"service"`
	Since   string          `json:"since"`
	Until   string          `json:"until"`
	Text    string          `json:"text"`
	Level   string          `json:"level"`
	Fields  map[string]any  `json:"fields"`
	Limit   sources.Integer `json:"limit"`
	Cursor  string          `json:"cursor"`
}

// defaultRange is the time range of a query without since.
const defaultRange = time.Hour

func (m *module) querySchema() json.RawMessage {
	span := min(defaultRange, m.MaxRange)
	schema, _ := json.Marshal(map[string]any{ // it is plain text and numbers
		"type": "object", "required": []string{"service"}, "additionalProperties": false,
		"properties": map[string]any{
			"service": map[string]any{"type": "string", "minLength": 1, "maxLength": 64, "description": "A name from list_services"},
			"since": map[string]any{"type": "string", "maxLength": 64, "description": fmt.Sprintf(
				"The earliest time, as in RFC 3339 (2026-01-31T12:00:00Z), or how long ago (90m, 2h, 1d); without it %s before until. From since to until it is at most %s.", formatDuration(span), formatDuration(m.MaxRange))},
			"until":  map[string]any{"type": "string", "maxLength": 64, "description": "The latest time, in the same formats. Default: now"},
			"text":   map[string]any{"type": "string", "maxLength": 500, "description": "Text that an entry must contain; case is ignored"},
			"level":  map[string]any{"enum": levelNames(), "description": "The minimum level; entries without a level are left out"},
			"fields": map[string]any{"type": "object", "maxProperties": 10, "additionalProperties": map[string]any{"type": []string{"string", "number", "boolean"}}, "propertyNames": map[string]any{"maxLength": 200}, "description": "Values of fields that an entry must have; a dot separates nested names: http.status"},
			"limit":  map[string]any{"type": "integer", "minimum": 1, "maximum": m.MaxEntries, "description": fmt.Sprintf("How many entries; without it %d", min(50, m.MaxEntries))},
			"cursor": map[string]any{"type": "string", "maxLength": 200, "description": "next_cursor of the previous result, with the same other params"},
		},
	})
	return schema
}

// parseQuery converts params to a query within the limits.
func (m *module) parseQuery(raw json.RawMessage) (Query, error) {
	var p queryParams
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if err := d.Decode(&p); err != nil {
		return Query{}, invalidParam("", "must be those that the schema says")
	}
	q := Query{Service: p.Service, Text: p.Text, Limit: int(p.Limit), Cursor: p.Cursor, Fields: map[string]string{}}
	for name, v := range p.Fields {
		q.Fields[name] = fmt.Sprint(v)
	}
	if q.Level = Level(slices.Index(levelNames(), p.Level) + 1); q.Level == 0 && p.Level != "" {
		return q, invalidParam("/level", "must be one of "+strings.Join(levelNames(), ", "))
	}
	if q.Limit == 0 {
		q.Limit = min(50, m.MaxEntries)
	}
	if q.Limit < 0 || q.Limit > m.MaxEntries {
		return q, invalidParam("/limit", fmt.Sprintf("must be from 1 to %d; use next_cursor for more", m.MaxEntries))
	}
	return q, m.timeRange(p, &q)
}

// timeRange sets the time range of a query.
func (m *module) timeRange(p queryParams, q *Query) error {
	now := m.Now().UTC()
	q.Until = now
	var ok bool
	if p.Until != "" {
		if q.Until, ok = parseTimeOrAgo(p.Until, now); !ok {
			return invalidParam("/until", "must be a time as in RFC 3339, or how long ago, such as 30m, 2h or 1d")
		}
	}
	q.Since = q.Until.Add(-min(defaultRange, m.MaxRange))
	if p.Since != "" {
		if q.Since, ok = parseTimeOrAgo(p.Since, now); !ok {
			return invalidParam("/since", "must be a time as in RFC 3339, or how long ago, such as 30m, 2h or 1d")
		}
	}
	switch span := q.Until.Sub(q.Since); {
	case span < 0:
		return invalidParam("/since", "must be before until")
	case span > m.MaxRange:
		return invalidParam("/since", fmt.Sprintf("must be at most %s before until; move until back for what is older", formatDuration(m.MaxRange)))
	}
	return nil
}

// parseTimeOrAgo parses a time or a duration before now.
func parseTimeOrAgo(s string, now time.Time) (time.Time, bool) {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		t = normalizeTime(t)
		return t, !t.IsZero()
	}
	if days, found := strings.CutSuffix(s, "d"); found {
		n, err := strconv.ParseUint(days, 10, 16)
		return now.AddDate(0, 0, -int(n)), err == nil //nolint:gosec // it has 16 bits
	}
	ago, err := time.ParseDuration(s)
	return now.Add(-ago), err == nil && ago >= 0
}

// formatDuration formats a duration without trailing zero units.
func formatDuration(d time.Duration) string {
	s := d.String()
	s = strings.TrimSuffix(s, "0s")
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	if s == "" || !strings.ContainsAny(s[len(s)-1:], "hms") {
		return d.String()
	}
	return s
}

func invalidParam(field, what string) error {
	if field == "" {
		field = "The params"
	}
	return &sources.Refusal{Code: "invalid_params", Status: 400, Message: field + " " + what + "."}
}

func quote(s string) string { return strconv.Quote(sources.Printable(s, 100)) }

// summarize describes a query for approvers.
func summarize(raw json.RawMessage) string {
	var p queryParams
	if json.Unmarshal(raw, &p) != nil {
		return "query logs"
	}
	said := []string{"query logs of " + quote(p.Service)}
	for _, part := range []struct{ name, value string }{
		{"since", p.Since}, {"until", p.Until}, {"from level", p.Level}, {"with", p.Text},
	} {
		if part.value != "" {
			said = append(said, part.name+" "+quote(part.value))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Fields)) {
		said = append(said, fmt.Sprintf("where %s is %s", quote(name), quote(fmt.Sprint(p.Fields[name]))))
	}
	return strings.Join(said, ", ")
}

// Service is a source of logs.
type Service struct {
	Name   string     `json:"name"`
	Kind   string     `json:"kind"` // files, journald, cloudwatch or gcloud
	Files  int        `json:"files,omitempty"`
	Bytes  int64      `json:"bytes,omitempty"`
	Newest *time.Time `json:"last_written,omitempty"`
}

// Query selects entries.
type Query struct {
	Service      string
	Since, Until time.Time         // both inclusive
	Text         string            // case-insensitive substring; empty matches any
	Level        Level             // minimum level; zero matches any
	Fields       map[string]string // exact values by field name; dots address nested fields
	Limit        int
	Cursor       string // of the previous page
}

// Page is one page of a query's results.
type Page struct {
	Entries []Entry `json:"entries"`
	Cursor  string  `json:"next_cursor,omitempty"` // empty on the last page
	Untimed int     `json:"untimed,omitempty"`     // skipped lines without a known time
	// Unreadable counts files that were skipped, entirely or in part, because
	// they cannot be read or resolve outside the directory.
	Unreadable int `json:"unreadable_files,omitempty"`
}

// Entry is a log entry.
type Entry struct {
	ID      string          `json:"id"`
	Service string          `json:"service"`
	Time    time.Time       `json:"time"`            // of the line before if the line has none
	Level   string          `json:"level,omitempty"` // empty if unknown
	Message string          `json:"message,omitempty"`
	Fields  json.RawMessage `json:"fields,omitempty"` // an object of all fields; nil for plain text
	Cut     bool            `json:"cut,omitempty"`    // truncated
}

// Level is the severity of an entry.
type Level int

// Severity levels, in ascending order.
const (
	LevelTrace Level = iota + 1
	LevelDebug
	LevelInfo
	LevelNotice
	LevelWarning
	LevelError
	LevelCritical
)

func levelNames() []string {
	return []string{"trace", "debug", "info", "notice", "warning", "error", "critical"}
}

// String returns the name of the level, or "" for zero.
func (l Level) String() string {
	if l < LevelTrace || l > LevelCritical {
		return ""
	}
	return levelNames()[l-1]
}
