package store

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
)

// texts is a JSON list in a row. The nil one is NULL, the empty one is not.
type texts []string

// Value implements driver.Valuer.
func (t texts) Value() (driver.Value, error) {
	if t == nil {
		return nil, nil
	}
	return encode([]string(t))
}

// Scan implements sql.Scanner.
func (t *texts) Scan(src any) error { return decode(src, (*[]string)(t)) }

// asJSON is a value as JSON in a row. What holds nothing is NULL.
type asJSON[T any] struct{ v T }

// Value implements driver.Valuer.
func (j asJSON[T]) Value() (driver.Value, error) {
	switch text := j.text(); text {
	case "null", "{}", "[]":
		return nil, nil
	default:
		return text, nil
	}
}

// Scan implements sql.Scanner.
func (j *asJSON[T]) Scan(src any) error { return decode(src, &j.v) }

// text is the value; equal ones have equal texts.
func (j asJSON[T]) text() string {
	text, err := json.Marshal(j.v)
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
