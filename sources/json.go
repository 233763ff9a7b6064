package sources

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"sallyport/action"
	"sallyport/internal/jsonlex"
)

// Member is one member of a raw JSON object, by its byte offsets:
// raw[Start:End] is `"name": value`, and raw[Value:End] is the value.
type Member struct {
	Name              string // decoded
	Start, Value, End int
}

// Members returns the members of a raw JSON object in order, including repeated
// names. Names are compared exactly, unlike in encoding/json. It reports false
// if raw is not one valid JSON object.
func Members(raw []byte) ([]Member, bool) {
	i := jsonlex.Space(raw, 0)
	if i == len(raw) || raw[i] != '{' {
		return nil, false
	}
	list := make([]Member, 0, 4) // a JSON-RPC response has three
	if i = jsonlex.Space(raw, i+1); i < len(raw) && raw[i] == '}' {
		return list, jsonlex.Space(raw, i+1) == len(raw)
	}
	for {
		m, err := readMember(raw, i)
		if err != nil {
			return nil, false
		}
		list = append(list, m)
		switch i = jsonlex.Space(raw, m.End); {
		case i < len(raw) && raw[i] == ',':
			i = jsonlex.Space(raw, i+1)
		case i < len(raw) && raw[i] == '}' && jsonlex.Space(raw, i+1) == len(raw):
			return list, true
		default:
			return nil, false
		}
	}
}

// readMember reads and validates the member at raw[i].
func readMember(raw []byte, i int) (m Member, err error) {
	colon, _, err := jsonlex.String(raw, i)
	if err != nil {
		return m, err
	}
	m.Start, m.Name = i, unquote(raw[i:colon])
	if colon = jsonlex.Space(raw, colon); colon == len(raw) || raw[colon] != ':' {
		return m, errors.New("a colon is missing")
	}
	m.Value = jsonlex.Space(raw, colon+1)
	m.End, err = jsonlex.Value(raw, m.Value, jsonlex.MaxDepth-maxNesting+1)
	return m, err
}

// maxNesting is the nesting that encoding/json accepts.
const maxNesting = 10_000

// Lookup returns the value of the last member with that name, which most
// parsers use, or nil.
func Lookup(raw []byte, members []Member, name string) json.RawMessage {
	for i := len(members) - 1; i >= 0; i-- {
		if m := members[i]; m.Name == name {
			return raw[m.Value:m.End:m.End]
		}
	}
	return nil
}

// RemoveMember returns a copy of a raw JSON object without the members of that
// name; all other bytes stay. Anything but an object is returned unchanged.
func RemoveMember(raw []byte, name string) []byte {
	members, ok := Members(raw)
	if !ok || Lookup(raw, members, name) == nil {
		return raw
	}
	out := append([]byte(nil), raw[:members[0].Start]...)
	last := -1
	for i, m := range members {
		switch {
		case m.Name == name:
			continue
		case last >= 0:
			// Keep the separator that precedes this member.
			out = append(out, raw[members[i-1].End:m.Start]...)
		}
		out = append(out, raw[m.Start:m.End]...)
		last = i
	}
	return append(out, raw[members[len(members)-1].End:]...)
}

func unquote(quoted []byte) string {
	content := quoted[1 : len(quoted)-1]
	for _, c := range content {
		if c == '\\' {
			text, _ := jsonlex.Unquote(make([]byte, 0, len(content)), content)
			return string(text)
		}
	}
	return string(content)
}

// Encode returns a value as JSON for agents, without HTML escapes.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// Handler converts a typed function to an action's Run.
func Handler[P any](do func(ctx context.Context, c *Conn, p P) (json.RawMessage, error)) func(context.Context, *Conn, json.RawMessage) (json.RawMessage, error) {
	return func(ctx context.Context, c *Conn, params json.RawMessage) (json.RawMessage, error) {
		var p P
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, fmt.Errorf("params that the schema let through: %w", err)
		}
		return do(ctx, c, p)
	}
}

// Shorten limits text to a number of characters, the ellipsis included.
func Shorten(text string, limit int) string {
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return text
}

// QuoteID returns an ID or a key for a summary, quoted unless it has the form of
// one, so that it cannot pass for the gateway's own words.
func QuoteID(id string, limit int) string {
	if q := strconv.Quote(Shorten(id, limit)); q != `"`+id+`"` || strings.ContainsAny(id, " ,:") {
		return q
	}
	return id
}

// Integer is a param that is a whole number in any notation: 12 and 1.2e1 are
// equal in JSON Schema.
type Integer int64

// UnmarshalJSON implements [json.Unmarshaler].
func (n *Integer) UnmarshalJSON(raw []byte) error {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return fmt.Errorf("%.40s is not a whole number", raw)
	}
	*n = Integer(f)
	return nil
}

// String returns the number in decimal.
func (n Integer) String() string { return strconv.FormatInt(int64(n), 10) }

// AsNotExecuted converts the error of a read request that precedes a write:
// even if the outcome of the read is unknown, nothing was written.
func AsNotExecuted(err error) error {
	var e *action.Error
	if !errors.Is(err, action.ErrOutcomeUnknown) {
		return err
	}
	before := &action.Error{
		Kind: action.ErrUnavailable, Code: FaultFailed, Err: errors.New(err.Error()), // no longer of its kind
		Message: "The service did not answer a preliminary request, so nothing was sent.",
	}
	if errors.As(err, &e) {
		before.Code, before.RetryAfter = e.Code, e.RetryAfter
	}
	return before
}
