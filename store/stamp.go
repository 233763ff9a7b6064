package store

import (
	"database/sql/driver"
	"fmt"
	"time"
)

// layout has a fixed width, so that the order of the texts is that of time.
const layout = "2006-01-02T15:04:05.000000Z"

// stamp is a time in a row: UTC, whole microseconds. The zero one is NULL.
type stamp struct{ t time.Time }

func at(t time.Time) stamp {
	if t.IsZero() {
		return stamp{}
	}
	return stamp{t.UTC().Truncate(time.Microsecond)}
}

func atPtr(t *time.Time) stamp {
	if t == nil {
		return stamp{}
	}
	return at(*t)
}

// appendTime writes a time as [stamp] does: both dialects use it for the times of
// rows that embed their words.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, "NULL"...)
	}
	b = t.UTC().AppendFormat(append(b, '\''), layout)
	return append(b, '\'')
}

// epoch is before every time in a row.
var epoch = stamp{time.Unix(0, 0).UTC()}

// ptr returns nil for NULL.
func (s stamp) ptr() *time.Time {
	if s.t.IsZero() {
		return nil
	}
	return &s.t
}

// or returns s, or other for NULL.
func (s stamp) or(other stamp) stamp {
	if s.t.IsZero() {
		return other
	}
	return s
}

// Value implements driver.Valuer.
func (s stamp) Value() (driver.Value, error) {
	if s.t.IsZero() {
		return nil, nil
	}
	return s.t.Format(layout), nil
}

// Scan implements sql.Scanner.
func (s *stamp) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		s.t = time.Time{}
		return nil
	case string:
		return s.parse(v)
	case []byte:
		return s.parse(string(v))
	case time.Time:
		*s = at(v)
		return nil
	}
	return fmt.Errorf("a time in a row is a %T", src)
}

func (s *stamp) parse(text string) error {
	t, err := time.Parse(layout, text)
	if err != nil {
		return fmt.Errorf("a time in a row: %w", err)
	}
	s.t = t
	return nil
}

// opt is a text that may be missing. The empty one is NULL.
type opt string

// or returns o, or other for NULL.
func (o opt) or(other opt) opt {
	if o == "" {
		return other
	}
	return o
}

// Value implements driver.Valuer.
func (o opt) Value() (driver.Value, error) {
	if o == "" {
		return nil, nil
	}
	return string(o), nil
}

// Scan implements sql.Scanner.
func (o *opt) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*o = ""
	case string:
		*o = opt(v)
	case []byte:
		*o = opt(v)
	default:
		return fmt.Errorf("a text in a row is a %T", src)
	}
	return nil
}

// bytes returns nil for NULL.
func (o opt) bytes() []byte {
	if o == "" {
		return nil
	}
	return []byte(o)
}
