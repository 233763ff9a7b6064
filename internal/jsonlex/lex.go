package jsonlex

import "fmt"

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
		return i, syntaxError(i, "the text ends where a value is due")
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
