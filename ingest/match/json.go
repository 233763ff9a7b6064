package match

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// decodeJSON decodes JSON of bounded nesting with number lexemes kept; nil if it is
// not JSON.
func decodeJSON(raw []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

// pointerValue returns the value at a JSON Pointer (RFC 6901), or nil. The empty
// pointer returns nil.
func pointerValue(v any, pointer string) any {
	if !strings.HasPrefix(pointer, "/") {
		return nil
	}
	for _, step := range strings.Split(pointer[1:], "/") {
		switch of := v.(type) {
		case map[string]any:
			v = of[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
		case []any:
			i, err := strconv.ParseUint(step, 10, 31)
			if err != nil || i >= uint64(len(of)) {
				return nil
			}
			v = of[i]
		default:
			return nil
		}
	}
	return v
}

// scalar returns a string, number or boolean as text, and an empty string for
// others.
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// plainID returns an untrusted id that is safe in keys and rows, or an empty string.
func plainID(id string) string {
	if len(id) > MaxID || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return id
}
