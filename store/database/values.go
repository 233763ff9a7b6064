package database

import (
	"bytes"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Layout has a fixed width so that times sort as text.
const Layout = "2006-01-02T15:04:05.000000Z"

// Timestamp is a stored time in UTC with microsecond precision. The zero value is
// NULL.
type Timestamp struct{ Time time.Time }

// NewTimestamp converts a time to its stored form.
func NewTimestamp(t time.Time) Timestamp {
	if t.IsZero() {
		return Timestamp{}
	}
	return Timestamp{t.UTC().Truncate(time.Microsecond)}
}

// TimestampFromPtr converts an optional time to its stored form.
func TimestampFromPtr(t *time.Time) Timestamp {
	if t == nil {
		return Timestamp{}
	}
	return NewTimestamp(*t)
}

// appendTime formats a time as [Timestamp] does. Both dialects use it for the plain
// times in rows that embed types of package action.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, "NULL"...)
	}
	b = t.UTC().AppendFormat(append(b, '\''), Layout)
	return append(b, '\'')
}

// Epoch is before every stored time.
var Epoch = Timestamp{time.Unix(0, 0).UTC()}

// Ptr returns nil for NULL.
func (s Timestamp) Ptr() *time.Time {
	if s.Time.IsZero() {
		return nil
	}
	return &s.Time
}

// Or returns s, or other for NULL.
func (s Timestamp) Or(other Timestamp) Timestamp {
	if s.Time.IsZero() {
		return other
	}
	return s
}

// Value implements driver.Valuer.
func (s Timestamp) Value() (driver.Value, error) {
	if s.Time.IsZero() {
		return nil, nil
	}
	return s.Time.Format(Layout), nil
}

// Scan implements sql.Scanner.
func (s *Timestamp) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		s.Time = time.Time{}
		return nil
	case string:
		return s.parse(v)
	case []byte:
		return s.parse(string(v))
	case time.Time:
		*s = NewTimestamp(v)
		return nil
	}
	return fmt.Errorf("cannot read a time from a %T", src)
}

func (s *Timestamp) parse(text string) error {
	t, err := time.Parse(Layout, text)
	if err != nil {
		return fmt.Errorf("reading a time: %w", err)
	}
	s.Time = t
	return nil
}

// NullString is nullable text. The empty string is NULL.
type NullString string

// Or returns o, or other for NULL.
func (o NullString) Or(other NullString) NullString {
	if o == "" {
		return other
	}
	return o
}

// Value implements driver.Valuer.
func (o NullString) Value() (driver.Value, error) {
	if o == "" {
		return nil, nil
	}
	return string(o), nil
}

// Scan implements sql.Scanner.
func (o *NullString) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*o = ""
	case string:
		*o = NullString(v)
	case []byte:
		*o = NullString(v)
	default:
		return fmt.Errorf("cannot read text from a %T", src)
	}
	return nil
}

// Bytes returns nil for NULL.
func (o NullString) Bytes() []byte {
	if o == "" {
		return nil
	}
	return []byte(o)
}

// StringList is a list stored as JSON. Nil is NULL; an empty list is not.
type StringList []string

// Value implements driver.Valuer.
func (t StringList) Value() (driver.Value, error) {
	if t == nil {
		return nil, nil
	}
	text, err := json.Marshal([]string(t))
	return string(text), err
}

// Scan implements sql.Scanner.
func (t *StringList) Scan(src any) error { return decode(src, (*[]string)(t)) }

// JSON is a value stored as JSON. An empty object, list or null is NULL.
type JSON[T any] struct{ V T }

// Value implements driver.Valuer.
func (j JSON[T]) Value() (driver.Value, error) {
	switch text := j.Text(); text {
	case "null", "{}", "[]":
		return nil, nil
	default:
		return text, nil
	}
}

// Scan implements sql.Scanner.
func (j *JSON[T]) Scan(src any) error { return decode(src, &j.V) }

// Text returns the value as JSON; equal values have equal texts.
func (j JSON[T]) Text() string {
	text, err := json.Marshal(j.V)
	if err != nil {
		panic(err) // all column types can be marshalled
	}
	return string(text)
}

// JSONText is a value stored as JSON, with its text, which is compared or hashed.
type JSONText[T any] struct {
	Text string // empty: NULL
	V    T
}

// NewJSONText encodes v without HTML escaping, so that raw values in canonical form keep
// their bytes.
func NewJSONText[T any](v T) (j JSONText[T], err error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err = e.Encode(v); err == nil {
		err = j.Scan(bytes.TrimSuffix(text.Bytes(), []byte("\n")))
	}
	return j, err
}

// Value implements driver.Valuer.
func (j JSONText[T]) Value() (driver.Value, error) { return NullString(j.Text).Value() }

// Scan implements sql.Scanner.
func (j *JSONText[T]) Scan(src any) error {
	if err := (*NullString)(&j.Text).Scan(src); err != nil {
		return err
	}
	return decode(src, &j.V)
}

// decode reads JSON from a text column. NULL becomes the zero value.
func decode[T any](src any, v *T) error {
	var zero T
	*v = zero // json.Unmarshal would merge into a previous value
	switch text := src.(type) {
	case nil:
		return nil
	case string:
		return json.Unmarshal([]byte(text), v)
	case []byte:
		return json.Unmarshal(text, v)
	}
	return fmt.Errorf("cannot read JSON from a %T", src)
}

// BoolToInt converts a boolean to a number. Flags of invocations are numbers
// because partial indexes can compare those in every database.
func BoolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// EnsureID sets *id to a new ID if it is empty.
func EnsureID(id *string) (err error) {
	if *id == "" {
		*id, err = NewID()
	}
	return err
}

// SanitizeText replaces what not every database can store: NUL and invalid UTF-8.
func SanitizeText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
