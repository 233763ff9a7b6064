package match

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"sallyport/action"
)

// Unreadable is the error of a delivery that can never be parsed.
func (m *Matcher) Unreadable(err error) error {
	return action.Errorf(action.ErrInvalid, codeUnreadable, "The delivery cannot be read: %s", m.Line(parseErrorText(err), MaxLine))
}

const codeUnreadable = "unreadable"

// IsPermanent reports whether another attempt would fail in the same way.
func IsPermanent(err error) bool {
	var e *action.Error
	return errors.As(err, &e) && e.Code == codeUnreadable
}

// parseErrorText describes a parse error without Go's terms.
func parseErrorText(err error) string {
	var shape *json.UnmarshalTypeError
	var number *strconv.NumError
	switch {
	case errors.As(err, &shape) && shape.Field != "":
		return fmt.Sprintf("its member %s is of type %s, and should not be.", shape.Field, shape.Value)
	case errors.As(err, &shape):
		return fmt.Sprintf("it is of type %s, and should not be.", shape.Value)
	case errors.As(err, new(*json.SyntaxError)), errors.Is(err, io.ErrUnexpectedEOF):
		return "it is not valid JSON."
	case errors.As(err, &number):
		return fmt.Sprintf("%q is no number.", number.Num)
	}
	return err.Error()
}

// maxRedacted is the largest body that is redacted and shown, in bytes.
const maxRedacted = 1 << 20

// Payload returns a body as it is shown to people.
func (m *Matcher) Payload(body []byte) []byte {
	if len(body) > maxRedacted {
		return fmt.Appendf(nil, `{"_truncated":true,"size":%d}`, len(body))
	}
	if form, is := bytes.CutPrefix(body, []byte("payload=")); is {
		if text, err := url.QueryUnescape(string(form)); err == nil && json.Valid([]byte(text)) {
			body = []byte(text)
		}
	}
	return m.shown(body)
}
