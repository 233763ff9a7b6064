package connector

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
	"sallyport/internal/jsonlex"
	"sallyport/sources"
)

// request is a request before its session is known.
type request struct {
	method    string
	params    json.RawMessage // an object, without _meta; nil: {}
	name      string          // of its subject, for a header; empty: none
	arguments json.RawMessage // of a tool: headers repeat some of them
	headers   []sources.HeaderParam
	caller    action.Caller         // nil: none
	features  action.ClientFeatures // client features to declare
	responses []byte                // members with answers to questions; can be empty
	trace     string                // W3C trace context; empty: none
}

// Keys of _meta.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
)

// traceparent is a header, and a key of _meta.
const traceparent = "traceparent"

// body encodes the request as JSON-RPC. The params are copied unchanged.
func (r *request) body(id int64, ses *session, version string) []byte {
	b := make([]byte, 0, 512+len(r.params)+len(r.responses))
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendInt(b, id, 10)
	b = append(b, `,"method":`...)
	b = jsonlex.Quote(b, r.method)
	b = append(b, `,"params":{`...)
	start := len(b)
	params := bytes.TrimSpace(r.params)
	if len(params) >= 2 { // the text between the braces
		params = bytes.TrimSpace(params[1 : len(params)-1])
	}
	for _, members := range [][]byte{params, r.responses, r.meta(id, ses, version)} {
		if len(members) == 0 {
			continue
		}
		if len(b) > start {
			b = append(b, ',')
		}
		b = append(b, members...)
	}
	return append(b, "}}"...)
}

// meta returns the member _meta, or nothing.
func (r *request) meta(id int64, ses *session, version string) []byte {
	b := []byte(`"_meta":{`)
	start := len(b)
	add := func(name string) {
		if len(b) > start {
			b = append(b, ',')
		}
		b = append(jsonlex.Quote(b, name), ':')
	}
	if r.caller != nil {
		add("progressToken")
		b = jsonlex.Quote(b, progressToken(id))
	}
	if ses.stateless {
		add(metaVersion)
		b = jsonlex.Quote(b, ses.version)
		add(metaClient)
		b = append(b, `{"name":"sallyport","version":`...)
		b = append(jsonlex.Quote(b, version), '}')
		add(metaCapabilities)
		b = appendCapabilities(b, r.features)
		if level := r.level(); level != "" && ses.capabilities.Logging {
			add(metaLogLevel)
			b = jsonlex.Quote(b, level)
		}
	}
	if r.trace != "" {
		add(traceparent)
		b = jsonlex.Quote(b, r.trace)
	}
	if len(b) == start {
		return nil
	}
	return append(b, '}')
}

// progressToken is the progress token of a request.
func progressToken(id int64) string { return "sallyport-" + strconv.FormatInt(id, 10) }

// setHeaders sets the headers that the transport requires.
func (r *request) setHeaders(h http.Header, ses *session) {
	sessionHeaders(h, ses)
	if r.trace != "" {
		h.Set(traceparent, r.trace)
	}
	if !ses.stateless {
		return
	}
	h.Set("Mcp-Method", r.method)
	if r.name != "" {
		h.Set("Mcp-Name", r.name)
	}
	if len(r.headers) == 0 {
		return
	}
	d := json.NewDecoder(bytes.NewReader(r.arguments))
	d.UseNumber()
	var arguments any
	if d.Decode(&arguments) != nil {
		return
	}
	for _, p := range r.headers {
		if value, ok := headerValue(arguments, p.Path); ok {
			h.Set("Mcp-Param-"+p.Header, value)
		}
	}
}

func sessionHeaders(h http.Header, ses *session) {
	h.Set("Mcp-Protocol-Version", ses.version)
	if ses.id != "" {
		h.Set("Mcp-Session-Id", ses.id)
	}
}

// headerValue returns the argument at a path as a header value.
func headerValue(v any, path []string) (string, bool) {
	for _, name := range path {
		obj, _ := v.(map[string]any)
		v = obj[name]
	}
	switch v := v.(type) {
	case string:
		return encodeHeader(v), true
	case bool:
		return strconv.FormatBool(v), true
	case json.Number:
		const safe = 1<<53 - 1 // what every reader can hold
		n, err := strconv.ParseInt(string(v), 10, 64)
		return strconv.FormatInt(n, 10), err == nil && -safe <= n && n <= safe
	}
	return "", false
}

// encodeHeader encodes a value that a header cannot carry unchanged.
func encodeHeader(s string) string {
	const before, after = "=?base64?", "?="
	plain := strings.TrimSpace(s) == s && !(strings.HasPrefix(s, before) && strings.HasSuffix(s, after))
	for _, c := range []byte(s) {
		plain = plain && ' ' <= c && c <= '~'
	}
	if plain {
		return s
	}
	return before + base64.StdEncoding.EncodeToString([]byte(s)) + after
}

// message is one raw JSON-RPC message of the server.
type message struct {
	id, method, params, result, problem json.RawMessage
}

func parseMessage(raw []byte) (m message, ok bool) {
	members, ok := sources.Members(raw)
	if !ok {
		return m, false
	}
	m.id = sources.Lookup(raw, members, "id")
	m.method = sources.Lookup(raw, members, "method")
	m.params = sources.Lookup(raw, members, "params")
	m.result = sources.Lookup(raw, members, "result")
	m.problem = sources.Lookup(raw, members, "error")
	if string(m.problem) == "null" {
		m.problem = nil
	}
	return m, true
}

// member returns a member of an object, or nil.
func member(object json.RawMessage, name string) json.RawMessage {
	members, _ := sources.Members(object)
	return sources.Lookup(object, members, name)
}

// answers reports whether the message is the response to a request.
func (m *message) answers(id int64) bool {
	return m.method == nil && string(m.id) == strconv.FormatInt(id, 10)
}

// clientCapabilities say what a server may ask. An empty object is a feature.
type clientCapabilities struct {
	Elicitation *elicitationCapability `json:"elicitation,omitempty"`
	Sampling    *samplingCapability    `json:"sampling,omitempty"`
	Roots       *struct{}              `json:"roots,omitempty"`
}

type elicitationCapability struct {
	Form *struct{} `json:"form,omitempty"`
	URL  *struct{} `json:"url,omitempty"`
}

type samplingCapability struct {
	Tools   *struct{} `json:"tools,omitempty"`
	Context *struct{} `json:"context,omitempty"`
}

// appendCapabilities says what may be asked in a request without session.
func appendCapabilities(b []byte, can action.ClientFeatures) []byte {
	var c clientCapabilities
	if can&(action.ClientElicitsForm|action.ClientElicitsURL) != 0 {
		c.Elicitation = &elicitationCapability{Form: capability(can, action.ClientElicitsForm), URL: capability(can, action.ClientElicitsURL)}
	}
	if can.Has(action.ClientSamples) {
		c.Sampling = &samplingCapability{Tools: capability(can, action.ClientSamplesTools), Context: capability(can, action.ClientSamplesContext)}
	}
	c.Roots = capability(can, action.ClientListsRoots)
	raw, err := json.Marshal(c)
	if err != nil {
		return append(b, "{}"...)
	}
	return append(b, raw...)
}

func capability(can, feature action.ClientFeatures) *struct{} {
	if !can.Has(feature) {
		return nil
	}
	return &struct{}{}
}

// sdkCapabilities says the same in a handshake.
func sdkCapabilities(can action.ClientFeatures) *mcp.ClientCapabilities {
	c := &mcp.ClientCapabilities{}
	if err := json.Unmarshal(appendCapabilities(nil, can), c); err != nil {
		return c
	}
	if can.Has(action.ClientListsRoots) {
		c.RootsV2 = &mcp.RootCapabilities{} //nolint:staticcheck // servers of the older era ask for roots
	}
	return c
}
