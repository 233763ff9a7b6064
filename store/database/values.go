package database

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Layout has a fixed width, so that the order of the texts is that of time.
const Layout = "2006-01-02T15:04:05.000000Z"

// Stamp is a time in a row: UTC, whole microseconds. The zero one is NULL.
type Stamp struct{ T time.Time }

func At(t time.Time) Stamp {
	if t.IsZero() {
		return Stamp{}
	}
	return Stamp{t.UTC().Truncate(time.Microsecond)}
}

func AtPtr(t *time.Time) Stamp {
	if t == nil {
		return Stamp{}
	}
	return At(*t)
}

// appendTime writes a time as [Stamp] does: both dialects use it for the times of
// rows that embed their words.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, "NULL"...)
	}
	b = t.UTC().AppendFormat(append(b, '\''), Layout)
	return append(b, '\'')
}

// Epoch is before every time in a row.
var Epoch = Stamp{time.Unix(0, 0).UTC()}

// Ptr returns nil for NULL.
func (s Stamp) Ptr() *time.Time {
	if s.T.IsZero() {
		return nil
	}
	return &s.T
}

// Or returns s, or other for NULL.
func (s Stamp) Or(other Stamp) Stamp {
	if s.T.IsZero() {
		return other
	}
	return s
}

// Value implements driver.Valuer.
func (s Stamp) Value() (driver.Value, error) {
	if s.T.IsZero() {
		return nil, nil
	}
	return s.T.Format(Layout), nil
}

// Scan implements sql.Scanner.
func (s *Stamp) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		s.T = time.Time{}
		return nil
	case string:
		return s.parse(v)
	case []byte:
		return s.parse(string(v))
	case time.Time:
		*s = At(v)
		return nil
	}
	return fmt.Errorf("a time in a row is a %T", src)
}

func (s *Stamp) parse(text string) error {
	t, err := time.Parse(Layout, text)
	if err != nil {
		return fmt.Errorf("a time in a row: %w", err)
	}
	s.T = t
	return nil
}

// Opt is a text that may be missing. The empty one is NULL.
type Opt string

// Or returns o, or other for NULL.
func (o Opt) Or(other Opt) Opt {
	if o == "" {
		return other
	}
	return o
}

// Value implements driver.Valuer.
func (o Opt) Value() (driver.Value, error) {
	if o == "" {
		return nil, nil
	}
	return string(o), nil
}

// Scan implements sql.Scanner.
func (o *Opt) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*o = ""
	case string:
		*o = Opt(v)
	case []byte:
		*o = Opt(v)
	default:
		return fmt.Errorf("a text in a row is a %T", src)
	}
	return nil
}

// Bytes returns nil for NULL.
func (o Opt) Bytes() []byte {
	if o == "" {
		return nil
	}
	return []byte(o)
}

// Texts is a JSON list in a row. The nil one is NULL, the empty one is not.
type Texts []string

// Value implements driver.Valuer.
func (t Texts) Value() (driver.Value, error) {
	if t == nil {
		return nil, nil
	}
	return encode([]string(t))
}

// Scan implements sql.Scanner.
func (t *Texts) Scan(src any) error { return decode(src, (*[]string)(t)) }

// AsJSON is a value as JSON in a row. What holds nothing is NULL.
type AsJSON[T any] struct{ V T }

// Value implements driver.Valuer.
func (j AsJSON[T]) Value() (driver.Value, error) {
	switch text := j.Text(); text {
	case "null", "{}", "[]":
		return nil, nil
	default:
		return text, nil
	}
}

// Scan implements sql.Scanner.
func (j *AsJSON[T]) Scan(src any) error { return decode(src, &j.V) }

// Text is the value; equal ones have equal texts.
func (j AsJSON[T]) Text() string {
	text, err := json.Marshal(j.V)
	if err != nil {
		panic(err) // no type of a row is without JSON
	}
	return string(text)
}

// encode returns v as JSON for a column of text.
func encode(v any) (driver.Value, error) {
	text, err := json.Marshal(v)
	return string(text), err
}

// decode reads what encode wrote. NULL is the zero value.
func decode[T any](src any, v *T) error {
	var zero T
	*v = zero // whatever was there before
	switch text := src.(type) {
	case nil:
		return nil
	case string:
		return json.Unmarshal([]byte(text), v)
	case []byte:
		return json.Unmarshal(text, v)
	}
	return fmt.Errorf("JSON in a row is a %T", src)
}

// Flag is a truth as the rows of invocations keep it: their partial indexes
// compare numbers, which every database can.
func Flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// IDOr gives what is new an id, unless it has one.
func IDOr(id *string) (err error) {
	if *id == "" {
		*id, err = NewID()
	}
	return err
}

// Storable is text that each database can hold.
func Storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
