package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// MethodNotAllowed answers 405 and names the allowed methods.
func MethodNotAllowed(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow)
	WriteText(w, http.StatusMethodNotAllowed, "Method not allowed; allowed: "+allow+".")
}

// WriteText answers in plain text: some clients show the body to the model verbatim.
func WriteText(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // the client disconnected
}

// IsJSON reports whether a Content-Type header means JSON.
func IsJSON(value string) bool {
	if value == "application/json" {
		return true
	}
	base, _, err := mime.ParseMediaType(value)
	return err == nil && base == "application/json"
}

// Accepts reports what the client accepts. Without an Accept header, it accepts
// JSON.
func Accepts(r *http.Request) (json, stream bool) {
	values := r.Header["Accept"]
	if len(values) == 1 && values[0] == "application/json, text/event-stream" {
		return true, true
	}
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			base, _, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(base)) {
			case "application/json", "application/*":
				json = true
			case "text/event-stream", "text/*":
				stream = true
			case "*/*":
				json, stream = true, true
			}
		}
	}
	return json, stream
}

// StatelessVersion is the first protocol version without sessions.
const StatelessVersion = "2026-07-28"

// VersionHeader carries the protocol version of a request.
const VersionHeader = "Mcp-Protocol-Version"

// ParamHeader maps an argument to the header that repeats it.
type ParamHeader struct {
	path   []string
	header string // canonical
}

// ParamHeaders finds the x-mcp-header annotations of an input schema. Most schemas
// have none and are not parsed.
func ParamHeaders(schema json.RawMessage) []ParamHeader {
	if !bytes.Contains(schema, []byte("x-mcp-header")) {
		return nil
	}
	return collectParamHeaders(schema, nil)
}

func collectParamHeaders(schema []byte, path []string) []ParamHeader {
	var found []ParamHeader
	m := Members{Text: Member(schema, "properties")}
	for m.Next() {
		here := append(slices.Clone(path), string(m.Key))
		if h := Member(m.Value, "x-mcp-header"); IsString(h) && DecodeString(h) != "" {
			found = append(found, ParamHeader{here, http.CanonicalHeaderKey("Mcp-Param-" + DecodeString(h))})
		}
		found = append(found, collectParamHeaders(m.Value, here)...)
	}
	return found
}

// CheckParamHeaders compares the Mcp-Param headers with the arguments of a tool.
// Headers that the tool does not declare are ignored. A wrapped call may leave
// headers out: its client knows only the schema of actions_call.
func CheckParamHeaders(h http.Header, wanted []ParamHeader, arguments []byte, wrapped bool) *Error {
	for _, w := range wanted {
		value := arguments
		for _, key := range w.path {
			value = Member(value, key)
		}
		header := h.Get(w.header)
		if value == nil || IsNull(value) {
			if header != "" {
				return HeaderMismatch("The header %s is given, the argument %s is not.", w.header, strings.Join(w.path, "."))
			}
			continue
		}
		if header == "" && wrapped {
			continue
		}
		if header == "" {
			return HeaderMismatch("The header %s is missing for the argument %s.", w.header, strings.Join(w.path, "."))
		}
		if text, ok := HeaderValue(header); !ok || !sameValue(text, value) {
			return HeaderMismatch("The header %s and the argument %s differ.", w.header, strings.Join(w.path, "."))
		}
	}
	return nil
}

// HeaderValue decodes the base64 form of values that cannot be sent as a header.
func HeaderValue(v string) (string, bool) {
	inner, ok := strings.CutPrefix(v, "=?base64?")
	if !ok {
		return v, true
	}
	if inner, ok = strings.CutSuffix(inner, "?="); !ok {
		return v, true
	}
	b, err := base64.StdEncoding.DecodeString(inner)
	return string(b), err == nil
}

// sameValue compares a header with a raw string, boolean or integer. Numbers are
// compared numerically, within the range that every client represents exactly.
func sameValue(text string, raw []byte) bool {
	switch {
	case IsString(raw):
		return text == DecodeString(raw)
	case IsNumber(raw):
		a, okA := safeInteger(text)
		b, okB := safeInteger(string(raw))
		return okA && okB && a == b
	}
	return (text == "true" || text == "false") && text == string(raw)
}

func safeInteger(s string) (float64, bool) {
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && f == math.Trunc(f) && math.Abs(f) <= 1<<53-1
}

// Truncate shortens untrusted text that is quoted in a response.
func Truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
