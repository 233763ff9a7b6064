package mcpserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/internal/jsonlex"
	"sallyport/mcpserver/wire"
)

// params are the parsed params of the methods that the server handles itself. The
// slices are raw and point into the body.
type params struct {
	name      string
	hasName   bool
	uri       string // empty if absent
	task      string // likewise
	arguments []byte
	cursor    []byte
	meta      []byte
	level     []byte
	state     []byte // requestState; responses goes with it
	responses []byte

	// Only for an unwrapped actions_call.
	wrapped        bool
	idempotencyKey []byte // raw; nil if absent
}

func parseParams(raw []byte) (params, *wire.Error) {
	var p params
	if raw == nil {
		return p, nil
	}
	m := wire.Members{Text: raw}
	for m.Next() {
		switch string(m.Key) {
		case "name":
			if !wire.IsString(m.Value) || p.hasName {
				return p, wire.InvalidParams("name must be one string.")
			}
			p.name, p.hasName = wire.DecodeString(m.Value), true
		case "uri":
			if !wire.IsString(m.Value) || p.uri != "" {
				return p, wire.InvalidParams("uri must be one string.")
			}
			p.uri = wire.DecodeString(m.Value)
		case "taskId":
			if !wire.IsString(m.Value) || p.task != "" {
				return p, wire.InvalidParams("taskId must be one string.")
			}
			p.task = wire.DecodeString(m.Value)
		case "arguments":
			if p.arguments != nil {
				return p, wire.InvalidParams("arguments must be given once.")
			}
			p.arguments = m.Value
		case "cursor":
			p.cursor = m.Value
		case "level":
			p.level = m.Value
		case "requestState":
			p.state = m.Value
		case "inputResponses":
			p.responses = m.Value
		case "_meta":
			if !wire.IsObject(m.Value) || p.meta != nil {
				return p, wire.InvalidParams("_meta must be one object.")
			}
			p.meta = m.Value
		}
	}
	if m.Err != nil { // cannot happen: the envelope was valid
		return p, wire.InvalidParams("params must be an object.")
	}
	return p, nil
}

// object returns the arguments as an object. Some models send the object as a
// string, or omit it if it is empty.
func (p *params) object() ([]byte, bool) {
	if p.arguments == nil || wire.IsNull(p.arguments) {
		return []byte("{}"), true
	}
	return jsonlex.Object(p.arguments)
}

// checkVersion rejects unsupported protocol versions. Clients with sessions may omit
// the header.
func (s *Server) checkVersion(version string) *wire.Error {
	if version == "" || slices.Contains(s.versions, version) {
		return nil
	}
	data, _ := json.Marshal(map[string]any{"supported": s.versions, "requested": version}) // strings always encode
	return &wire.Error{
		Status: http.StatusBadRequest, Code: wire.CodeUnsupportedVersion,
		Message: "Protocol version " + strconv.Quote(wire.Truncate(version, 32)) + " is not supported.", Data: data,
	}
}

// checkStatelessHeaders checks what every stateless request must carry: the headers,
// which proxies use for routing, must match the body.
func checkStatelessHeaders(h http.Header, e *wire.Envelope, p *params) *wire.Error {
	version := h.Get(wire.VersionHeader)
	metaVersion := wire.Member(p.meta, mcp.MetaKeyProtocolVersion)
	switch {
	case !wire.IsString(metaVersion):
		return missingMeta(mcp.MetaKeyProtocolVersion)
	case wire.DecodeString(metaVersion) != version:
		return wire.HeaderMismatch("The header %s and _meta %s differ.", wire.VersionHeader, mcp.MetaKeyProtocolVersion)
	}
	if info := wire.Member(p.meta, mcp.MetaKeyClientInfo); info != nil && !wire.IsObject(info) {
		return missingMeta(mcp.MetaKeyClientInfo)
	}
	if !wire.IsObject(wire.Member(p.meta, mcp.MetaKeyClientCapabilities)) {
		return missingMeta(mcp.MetaKeyClientCapabilities)
	}
	switch method := h.Get("Mcp-Method"); {
	case method == "":
		return wire.HeaderMismatch("The header Mcp-Method is missing.")
	case method != e.Method:
		return wire.HeaderMismatch("The header Mcp-Method and the body's method differ.")
	}
	want, what := p.name, "name"
	switch e.Method {
	case methodCall, methodPrompt:
	case methodRead:
		want, what = p.uri, "uri"
	case methodTask, methodTaskUpdate, methodTaskCancel:
		want, what = p.task, "taskId"
	default:
		return nil
	}
	switch name, ok := wire.HeaderValue(h.Get("Mcp-Name")); {
	case name == "":
		return wire.HeaderMismatch("The header Mcp-Name is missing.")
	case !ok || name != want:
		return wire.HeaderMismatch("The header Mcp-Name and the %s in the body differ.", what)
	}
	return nil
}

func missingMeta(key string) *wire.Error {
	return &wire.Error{Status: http.StatusBadRequest, Code: wire.CodeInvalidParams, Message: "The _meta field " + key + " is missing or invalid."}
}

// statelessResult splits a result into lead and rest, which together have the
// members that the stateless protocol requires and older sources omit: the result
// type and, of resources, the cache fields. Nothing else changes.
func statelessResult(method string, result []byte) (rest, lead []byte) {
	missing := ""
	kind := wire.Member(result, "resultType")
	if kind == nil {
		missing = `,"resultType":"complete"`
	}
	if method == methodRead && (kind == nil || string(kind) == `"complete"`) {
		if wire.Member(result, "ttlMs") == nil {
			missing += `,"ttlMs":0`
		}
		if wire.Member(result, "cacheScope") == nil {
			missing += `,"cacheScope":"private"`
		}
		result = wire.ReplaceMember(result, "cacheScope", []byte(`"private"`)) // whatever the source declares
	}
	if missing == "" {
		return result, nil
	}
	m := wire.Members{Text: result}
	some := m.Next()
	switch {
	case m.Err != nil: // not an object: leave it
		return result, nil
	case !some:
		return []byte("}"), []byte("{" + missing[1:])
	}
	return result[bytes.IndexByte(result, '{')+1:], []byte("{" + missing[1:] + ",")
}

// sessionResult returns a result without the members that only the stateless protocol
// has and newer sources send: the result type, the cache fields of resources and, in
// _meta, the server. Clients with sessions do not know them. Nothing else changes.
func sessionResult(method string, result []byte) []byte {
	if !bytes.Contains(result, []byte(`"resultType"`)) || string(wire.Member(result, "resultType")) != `"complete"` {
		return result
	}
	drop := []string{"resultType"}
	if method == methodRead {
		drop = append(drop, "ttlMs", "cacheScope")
	}
	if meta := wire.Member(result, "_meta"); wire.Member(meta, mcp.MetaKeyServerInfo) != nil {
		if meta = wire.RemoveMembers(meta, mcp.MetaKeyServerInfo); len(meta) > len("{}") {
			result = wire.ReplaceMember(result, "_meta", meta)
		} else {
			drop = append(drop, "_meta")
		}
	}
	return wire.RemoveMembers(result, drop...)
}
