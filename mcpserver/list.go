package mcpserver

import (
	"encoding/json"
	"errors"

	"sallyport/action"
	"sallyport/internal/jsonlex"
)

// listTools answers tools/list with the definitions as their sources wrote
// them.
func (s *Server) listTools(x *exchange, p *params) {
	after, bad := cursorOf(p)
	if bad != nil {
		x.fail(bad)
		return
	}
	now := s.cfg.Now()
	list, err := s.views.of(&x.who, now).current(x.r.Context(), s.cfg.Gate, &x.who, now)
	if err != nil {
		s.cfg.Log.Error("listing tools", "session", x.who.ID, "error", err)
		x.fail(listProblem(err))
		return
	}
	if x.mcp != nil && after == "" {
		x.mcp.took(list.version)
	}
	definitions, next := list.page(after)
	m := []byte(nil)
	if next != "" {
		m = jsonlex.Quote(append(m, `,"nextCursor":`...), next)
	}
	if x.modern {
		m = append(m, s.cacheFields...)
	}
	id := x.id
	// The list is long and shared: it goes out from where it is.
	_ = newReply(x.w).end(200, []byte(`{"jsonrpc":"2.0","id":`), id, // a client that left asks again
		[]byte(`,"result":{"tools":[`), definitions, []byte(`]`), m, []byte(`}}`))
}

// cacheFields are what every list carries in the stateless era. A list is the
// principal's own, and stale at once: a policy may change at any time.
func cacheFields(version string) []byte {
	info, _ := json.Marshal(map[string]string{"name": serverName, "version": version}) // strings always encode
	return []byte(`,"ttlMs":0,"cacheScope":"private","resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":` + string(info) + `}`)
}

// cursorOf returns the name after which the page begins.
func cursorOf(p *params) (after string, bad *problem) {
	if p.cursor == nil || isNull(p.cursor) {
		return "", nil
	}
	if isString(p.cursor) {
		if last, ok := decodeCursor(decodeString(p.cursor)); ok {
			return last, nil
		}
	}
	return "", invalidParams("The cursor is not one of this server's; list again without it.")
}

// listProblem maps an error of the Gate for a request that has no tool result.
func listProblem(err error) *problem {
	var e *action.Error
	if errors.As(err, &e) && e.Kind != nil {
		return &problem{code: codeInternal, text: e.Message}
	}
	return internalProblem()
}
