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

// params are those of query_logs.
type params struct {
	Service string          `json:"service"`
	Since   string          `json:"since"`
	Until   string          `json:"until"`
	Text    string          `json:"text"`
	Level   string          `json:"level"`
	Fields  map[string]any  `json:"fields"`
	Limit   sources.Integer `json:"limit"`
	Cursor  string          `json:"cursor"`
}

// defaultSpan is what a query spans that says nothing of it.
const defaultSpan = time.Hour

func (m *module) querySchema() json.RawMessage {
	span := min(defaultSpan, m.MaxRange)
	schema, _ := json.Marshal(map[string]any{ // it is plain text and numbers
		"type": "object", "required": []string{"service"}, "additionalProperties": false,
		"properties": map[string]any{
			"service": map[string]any{"type": "string", "minLength": 1, "maxLength": 64, "description": "A name from list_services"},
			"since": map[string]any{"type": "string", "maxLength": 64, "description": fmt.Sprintf(
				"The earliest time, as in RFC 3339 (2026-01-31T12:00:00Z), or how long ago (90m, 2h, 1d); without it %s before until. From since to until it is at most %s.", short(span), short(m.MaxRange))},
			"until":  map[string]any{"type": "string", "maxLength": 64, "description": "The latest time, in the same forms; without it now"},
			"text":   map[string]any{"type": "string", "maxLength": 500, "description": "A text that an entry must hold, in any case"},
			"level":  map[string]any{"enum": levelNames(), "description": "The least level; entries without one are left out"},
			"fields": map[string]any{"type": "object", "maxProperties": 10, "additionalProperties": map[string]any{"type": []string{"string", "number", "boolean"}}, "propertyNames": map[string]any{"maxLength": 200}, "description": "Values that fields of an entry must have; a dot leads into objects: http.status"},
			"limit":  map[string]any{"type": "integer", "minimum": 1, "maximum": m.MaxEntries, "description": fmt.Sprintf("How many entries; without it %d", min(50, m.MaxEntries))},
			"cursor": map[string]any{"type": "string", "maxLength": 200, "description": "next_cursor of the page before, with all else as it was"},
		},
	})
	return schema
}

// read turns params into a query within the bounds.
func (m *module) read(raw json.RawMessage) (Query, error) {
	var p params
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if err := d.Decode(&p); err != nil {
		return Query{}, wrong("", "must be those that the schema says")
	}
	q := Query{Service: p.Service, Text: p.Text, Limit: int(p.Limit), Cursor: p.Cursor, Fields: map[string]string{}}
	for name, v := range p.Fields {
		q.Fields[name] = fmt.Sprint(v)
	}
	if q.Level = Level(slices.Index(levelNames(), p.Level) + 1); q.Level == 0 && p.Level != "" {
		return q, wrong("/level", "must be one of "+strings.Join(levelNames(), ", "))
	}
	if q.Limit == 0 {
		q.Limit = min(50, m.MaxEntries)
	}
	if q.Limit < 0 || q.Limit > m.MaxEntries {
		return q, wrong("/limit", fmt.Sprintf("must be from 1 to %d; use next_cursor for more", m.MaxEntries))
	}
	return q, m.span(p, &q)
}

// span reads the time that a query spans.
func (m *module) span(p params, q *Query) error {
	now := m.Now().UTC()
	q.Until = now
	var ok bool
	if p.Until != "" {
		if q.Until, ok = moment(p.Until, now); !ok {
			return wrong("/until", "must be a time as in RFC 3339, or how long ago, such as 30m, 2h or 1d")
		}
	}
	q.Since = q.Until.Add(-min(defaultSpan, m.MaxRange))
	if p.Since != "" {
		if q.Since, ok = moment(p.Since, now); !ok {
			return wrong("/since", "must be a time as in RFC 3339, or how long ago, such as 30m, 2h or 1d")
		}
	}
	switch span := q.Until.Sub(q.Since); {
	case span < 0:
		return wrong("/since", "must be before until")
	case span > m.MaxRange:
		return wrong("/since", fmt.Sprintf("must be at most %s before until; move until back for what is older", short(m.MaxRange)))
	}
	return nil
}

// moment reads a time, or how long ago it was.
func moment(s string, now time.Time) (time.Time, bool) {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		t = sensible(t)
		return t, !t.IsZero()
	}
	if days, found := strings.CutSuffix(s, "d"); found {
		n, err := strconv.ParseUint(days, 10, 16)
		return now.AddDate(0, 0, -int(n)), err == nil //nolint:gosec // it has 16 bits
	}
	ago, err := time.ParseDuration(s)
	return now.Add(-ago), err == nil && ago >= 0
}

// short writes a duration without zeros at its end.
func short(d time.Duration) string {
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

func wrong(field, what string) error {
	if field == "" {
		field = "The params"
	}
	return &sources.Refusal{Code: "invalid_params", Status: 400, Message: field + " " + what + "."}
}

func quote(s string) string { return strconv.Quote(sources.Printable(s, 100)) }

// summarize says what a query asks for.
func summarize(raw json.RawMessage) string {
	var p params
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
