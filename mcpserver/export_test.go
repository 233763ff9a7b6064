package mcpserver

import "net/http/httptest"

// What the fuzz tests and the tests of the pool look at.

// ParseEnvelope takes a message apart.
func ParseEnvelope(body []byte) (id []byte, method string, params []byte, code int) {
	e, p := parseEnvelope(body)
	if p != nil {
		return e.id, e.method, e.params, p.code
	}
	return e.id, e.method, e.params, 0
}

// ValidJSON reports whether raw is one JSON value.
func ValidJSON(raw []byte) bool { return validJSON(raw) }

// Members returns the members of an object, or nil when it is none.
func Members(raw []byte) (keys []string, values [][]byte, err error) {
	m := members{text: raw}
	for m.next() {
		keys, values = append(keys, string(m.key)), append(values, m.value)
	}
	return keys, values, m.err
}

// ResultType returns a result as the stateless era gets it.
func ResultType(result []byte) []byte {
	rest, lead := withResultType(result)
	return append(append([]byte(nil), lead...), rest...)
}

// HeaderValue decodes the value of an Mcp header.
func HeaderValue(v string) (string, bool) { return headerValue(v) }

// DecodeCursor decodes a cursor.
func DecodeCursor(c string) (string, bool) { return decodeCursor(c) }

// EncodeCursor encodes one.
func EncodeCursor(last string) string { return encodeCursor(last) }

// Views and Sessions count what is kept.
func (s *Server) Views() (n int) {
	s.views.mu.Lock()
	defer s.views.mu.Unlock()
	return len(s.views.all)
}

// Servers counts the SDK's servers.
func (s *Server) Servers() (n int) {
	s.views.mu.Lock()
	defer s.views.mu.Unlock()
	for _, v := range s.views.all {
		v.mu.Lock()
		if v.server != nil {
			n++
		}
		v.mu.Unlock()
	}
	return n
}

// Sessions counts the MCP sessions.
func (s *Server) Sessions() int {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	return len(s.sessions.all)
}

// SourceProgress returns what a client is sent for a notification of a source,
// after hold progress or without.
func SourceProgress(params []byte, held bool) string {
	w := httptest.NewRecorder()
	p := &progress{token: []byte("1"), reply: newReply(w)}
	if held {
		p.told = 3
	}
	_ = p.source(params)
	return w.Body.String()
}
