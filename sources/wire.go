package sources

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"sallyport/action"
)

// Encode returns a value as JSON for an agent to read: nothing in it is escaped
// for HTML.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// Integer is a param that is a number without fraction, however it is written:
// 12 and 1.2e1 are the same to a JSON Schema.
type Integer int64

// UnmarshalJSON implements [json.Unmarshaler].
func (n *Integer) UnmarshalJSON(raw []byte) error {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return fmt.Errorf("%.40s is no whole number", raw)
	}
	*n = Integer(f)
	return nil
}

func (n Integer) String() string { return strconv.FormatInt(int64(n), 10) }

// NothingDone is the error of a request that only looks, before the one that
// writes: whether it was answered is not in doubt for what is written.
func NothingDone(err error) error {
	var e *action.Error
	if !errors.Is(err, action.ErrOutcomeUnknown) {
		return err
	}
	before := &action.Error{
		Kind: action.ErrUnavailable, Code: FaultFailed, Err: errors.New(err.Error()), // no longer of its kind
		Message: "The service did not answer what had to be known before, so nothing was sent.",
	}
	if errors.As(err, &e) {
		before.Code, before.RetryAfter = e.Code, e.RetryAfter
	}
	return before
}
