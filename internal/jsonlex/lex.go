package jsonlex

import (
	"fmt"
	"iter"
)

// SyntaxError describes a syntax error and its position.
type SyntaxError struct {
	Offset int
	What   string // a noun phrase, such as "a string that does not end"
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.What, e.Offset) }

func syntaxError(offset int, what string) error { return &SyntaxError{Offset: offset, What: what} }

// Space returns the index of the first byte at or after i that is not white
// space; it may be len(data).
func Space(data []byte, i int) int {
	for i < len(data) {
		switch data[i] {
		case ' ', '\t', '\n', '\r':
			i++
		default:
			return i
		}
	}
	return i
}

// Literal returns the end of the true, false or null at data[i].
func Literal(data []byte, i int) (int, error) {
	for _, word := range [...]string{"true", "false", "null"} {
		if len(data)-i >= len(word) && string(data[i:i+len(word)]) == word {
			return i + len(word), nil
		}
	}
	if i >= len(data) {
		return i, syntaxError(i, "the text ends where a value is expected")
	}
	return i, syntaxError(i, "something that is not a JSON value")
}

// Number returns the end of the number at data[i].
func Number(data []byte, i int) (int, error) {
	if i < len(data) && data[i] == '-' {
		i++
	}
	whole := digits(data, i)
	switch {
	case whole == i:
		return i, syntaxError(i, "a number without digits")
	case data[i] == '0' && whole > i+1:
		return i, syntaxError(i, "a number with a leading zero")
	}
	i = whole
	if i < len(data) && data[i] == '.' {
		end := digits(data, i+1)
		if end == i+1 {
			return i, syntaxError(i, "a number without digits after its point")
		}
		i = end
	}
	if i < len(data) && (data[i] == 'e' || data[i] == 'E') {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		end := digits(data, i)
		if end == i {
			return i, syntaxError(i, "a number without digits in its exponent")
		}
		i = end
	}
	return i, nil
}

func digits(data []byte, i int) int {
	for i < len(data) && '0' <= data[i] && data[i] <= '9' {
		i++
	}
	return i
}

// Scalar returns the end of the string, number or literal at data[i].
func Scalar(data []byte, i int) (int, error) {
	if i < len(data) {
		switch c := data[i]; {
		case c == '"':
			end, _, err := String(data, i)
			return end, err
		case c == '-' || '0' <= c && c <= '9':
			return Number(data, i)
		}
	}
	return Literal(data, i)
}

// Skip returns the end of the value at data[i]. The text must be valid JSON;
// otherwise the result is some index up to len(data).
func Skip(data []byte, i int) int {
	depth := 0
	for i < len(data) {
		switch data[i] {
		case '"':
			i = skipString(data, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\n', '\r':
			i++
			continue
		default:
			i = skipWord(data, i)
		}
		if depth <= 0 {
			return i
		}
	}
	return i
}

func skipString(data []byte, i int) int {
	for i++; i < len(data); i++ {
		if i, _ = special(data, i); i == len(data) {
			break
		}
		switch data[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return len(data)
}

func skipWord(data []byte, i int) int {
	for ; i < len(data); i++ {
		switch data[i] {
		case ',', ':', ']', '}', ' ', '\t', '\n', '\r':
			return i
		}
	}
	return i
}

// Children iterates over the members of an object, with the names in their quotes, or
// over the elements of an array, whose names are nil. Other values have none. raw must
// be valid JSON.
func Children(raw []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		i := Space(raw, 0)
		if i == len(raw) || raw[i] != '{' && raw[i] != '[' {
			return
		}
		object, closing := raw[i] == '{', raw[i]+2
		for i = Space(raw, i+1); i < len(raw) && raw[i] != closing; {
			var name []byte
			if object {
				end := Skip(raw, i)
				name = raw[i:end]
				i = Space(raw, min(Space(raw, end)+1, len(raw)))
			}
			end := Skip(raw, i)
			if !yield(name, raw[i:end]) {
				return
			}
			if i = Space(raw, end); i < len(raw) && raw[i] == ',' {
				i = Space(raw, i+1)
			}
		}
	}
}

// MaxDepth is the maximum nesting that [Value] accepts.
const MaxDepth = 1000

// Value validates the value at data[i], nested depth levels deep, and returns
// its end. It allows invalid Unicode in strings and duplicate names.
func Value(data []byte, i, depth int) (int, error) {
	if i < len(data) && (data[i] == '{' || data[i] == '[') {
		if depth >= MaxDepth {
			return i, syntaxError(i, "nesting that is too deep")
		}
		return container(data, i, depth+1)
	}
	return Scalar(data, i)
}

// container validates an array or an object.
func container(data []byte, i, depth int) (end int, err error) {
	object, closing := data[i] == '{', data[i]+2 // ']' and '}' come two after
	i = Space(data, i+1)
	if i < len(data) && data[i] == closing {
		return i + 1, nil
	}
	for {
		if object {
			if i, _, err = String(data, i); err != nil {
				return i, err
			}
			if i = Space(data, i); i == len(data) || data[i] != ':' {
				return i, syntaxError(i, "a missing colon")
			}
			i = Space(data, i+1)
		}
		if i, err = Value(data, i, depth); err != nil {
			return i, err
		}
		switch i = Space(data, i); {
		case i < len(data) && data[i] == closing:
			return i + 1, nil
		case i == len(data) || data[i] != ',':
			return i, syntaxError(i, "a missing comma or bracket")
		}
		i = Space(data, i+1)
	}
}

// Document validates that data is exactly one value.
func Document(data []byte) error {
	i, err := Value(data, Space(data, 0), 0)
	if err != nil {
		return err
	}
	if i = Space(data, i); i < len(data) {
		return syntaxError(i, "something after the end of the value")
	}
	return nil
}

// Object returns raw if it is an object, or the object that the string raw
// contains, because models often encode params as a string. It decodes one
// level only. ok is false for other values, for strings with invalid Unicode,
// and for strings with more than an object. raw must be one valid JSON value
// without surrounding white space; the bytes of the object are not changed.
func Object(raw []byte) (object []byte, ok bool) {
	switch {
	case len(raw) == 0:
		return nil, false
	case raw[0] == '{':
		return raw, true
	case raw[0] != '"' || len(raw) < 2:
		return nil, false
	}
	inner, whole := Unquote(nil, raw[1:len(raw)-1])
	i := Space(inner, 0)
	if !whole || i == len(inner) || inner[i] != '{' || Document(inner) != nil {
		return nil, false
	}
	return inner, true
}

// Kind describes the type of raw in words, such as "a string".
func Kind(raw []byte) string {
	i := Space(raw, 0)
	if i == len(raw) {
		return "nothing"
	}
	switch raw[i] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// NoObject explains to the sender why raw is not what [Object] accepts.
func NoObject(raw []byte) string {
	if Kind(raw) == "a string" {
		return "it is a string that does not hold one"
	}
	return "it is " + Kind(raw)
}
