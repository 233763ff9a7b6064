package mcpserver

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// modernVersion is the first protocol version of the stateless era.
const modernVersion = "2026-07-28"

const versionHeader = "Mcp-Protocol-Version"

// checkVersion refuses a version that we do not speak. Clients of the older
// era may leave the header out.
func (s *Server) checkVersion(version string) *problem {
	if version == "" || slices.Contains(s.versions, version) {
		return nil
	}
	data, _ := json.Marshal(map[string]any{"supported": s.versions, "requested": version}) // strings always encode
	return &problem{
		status: http.StatusBadRequest, code: codeUnsupportedVersion,
		text: "Protocol version " + strconv.Quote(cut(version, 32)) + " is not supported.", data: data,
	}
}

// checkModern checks what every request of the stateless era carries: its
// headers, which proxies route by, must say what its body says.
func checkModern(h http.Header, e *envelope, p *params) *problem {
	version := h.Get(versionHeader)
	metaVersion := member(p.meta, mcp.MetaKeyProtocolVersion)
	switch {
	case !isString(metaVersion):
		return missingMeta(mcp.MetaKeyProtocolVersion)
	case decodeString(metaVersion) != version:
		return headerMismatch("The header %s and _meta %s differ.", versionHeader, mcp.MetaKeyProtocolVersion)
	}
	if info := member(p.meta, mcp.MetaKeyClientInfo); info != nil && !isObject(info) {
		return missingMeta(mcp.MetaKeyClientInfo)
	}
	if !isObject(member(p.meta, mcp.MetaKeyClientCapabilities)) {
		return missingMeta(mcp.MetaKeyClientCapabilities)
	}
	switch method := h.Get("Mcp-Method"); {
	case method == "":
		return headerMismatch("The header Mcp-Method is missing.")
	case method != e.method:
		return headerMismatch("The header Mcp-Method and the body's method differ.")
	}
	want, what := p.name, "name"
	switch e.method {
	case methodCall, methodPrompt:
	case methodRead:
		want, what = p.uri, "uri"
	case methodTask, methodTaskUpdate, methodTaskCancel:
		want, what = p.task, "taskId"
	default:
		return nil
	}
	switch name, ok := headerValue(h.Get("Mcp-Name")); {
	case name == "":
		return headerMismatch("The header Mcp-Name is missing.")
	case !ok || name != want:
		return headerMismatch("The header Mcp-Name and the %s in the body differ.", what)
	}
	return nil
}

func missingMeta(key string) *problem {
	return &problem{status: http.StatusBadRequest, code: codeInvalidParams, text: "The _meta field " + key + " is missing or invalid."}
}

// paramHeader says that an argument travels in a header too.
type paramHeader struct {
	path   []string
	header string // canonical
}

// paramHeaders finds the x-mcp-header annotations of an input schema. Most
// schemas have none, so most are not parsed.
func paramHeaders(schema json.RawMessage) []paramHeader {
	if !bytes.Contains(schema, []byte("x-mcp-header")) {
		return nil
	}
	return collectParamHeaders(schema, nil)
}

func collectParamHeaders(schema []byte, path []string) []paramHeader {
	var found []paramHeader
	m := members{text: member(schema, "properties")}
	for m.next() {
		here := append(slices.Clone(path), string(m.key))
		if h := member(m.value, "x-mcp-header"); isString(h) && decodeString(h) != "" {
			found = append(found, paramHeader{here, http.CanonicalHeaderKey("Mcp-Param-" + decodeString(h))})
		}
		found = append(found, collectParamHeaders(m.value, here)...)
	}
	return found
}

// checkParamHeaders compares the Mcp-Param headers of a tool with its
// arguments. Headers that the tool does not know are nobody's business. One that
// is missing is not missed of a wrapped call, whose client knows the definition
// of actions_call only.
func checkParamHeaders(h http.Header, wanted []paramHeader, arguments []byte, wrapped bool) *problem {
	for _, w := range wanted {
		value := arguments
		for _, key := range w.path {
			value = member(value, key)
		}
		header := h.Get(w.header)
		if value == nil || isNull(value) {
			if header != "" {
				return headerMismatch("The header %s is given, the argument %s is not.", w.header, strings.Join(w.path, "."))
			}
			continue
		}
		if header == "" && wrapped {
			continue
		}
		if header == "" {
			return headerMismatch("The header %s is missing for the argument %s.", w.header, strings.Join(w.path, "."))
		}
		if text, ok := headerValue(header); !ok || !sameValue(text, value) {
			return headerMismatch("The header %s and the argument %s differ.", w.header, strings.Join(w.path, "."))
		}
	}
	return nil
}

// headerValue decodes the form that values take which a header cannot carry
// as they are.
func headerValue(v string) (string, bool) {
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

// sameValue compares a header with a raw string, boolean or integer. Numbers
// are compared as such, within the range that every client counts exactly.
func sameValue(text string, raw []byte) bool {
	switch {
	case isString(raw):
		return text == decodeString(raw)
	case isNumber(raw):
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

// cut shortens foreign text that is quoted in an answer.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
