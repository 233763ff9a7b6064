package ingest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"sallyport/action"
)

// unreadable is the error of what can never be read, however often it is tried.
func (m *matcher) unreadable(err error) error {
	return action.Errorf(action.ErrInvalid, codeUnreadable, "The delivery cannot be read: %s", m.line(inWords(err), keptLine))
}

const codeUnreadable = "unreadable"

// hopeless reports whether another attempt would end in the same way.
func hopeless(err error) bool {
	var e *action.Error
	return errors.As(err, &e) && e.Code == codeUnreadable
}

// inWords says what is wrong with a body, without words that only those know who
// wrote the program.
func inWords(err error) string {
	var shape *json.UnmarshalTypeError
	var number *strconv.NumError
	switch {
	case errors.As(err, &shape) && shape.Field != "":
		return fmt.Sprintf("its member %s is of type %s, and should not be.", shape.Field, shape.Value)
	case errors.As(err, &shape):
		return fmt.Sprintf("it is of type %s, and should not be.", shape.Value)
	case errors.As(err, new(*json.SyntaxError)), errors.Is(err, io.ErrUnexpectedEOF):
		return "it is no JSON."
	case errors.As(err, &number):
		return fmt.Sprintf("%q is no number.", number.Num)
	}
	return err.Error()
}
