package mcpserver

import (
	"encoding/json"
	"errors"

	"sallyport/action"
	"sallyport/internal/jsonlex"
)

// list answers one of the four list methods with the definitions as their
// sources wrote them.
func (s *Server) list(x *exchange, p *params) {
	after, bad := cursorOf(p)
	if bad != nil {
		x.fail(bad)
		return
	}
	now := s.cfg.Now()
	v := s.views.of(&x.who, now)
	list, err := s.listed(x, v, after == "")
	if err != nil {
		s.cfg.Log.Error("listing", "method", x.method, "session", x.who.ID, "error", err)
		x.fail(listProblem(err))
		return
	}
	definitions, next := list.page(after)
	m := []byte("]")
	if next != "" {
		m = jsonlex.Quote(append(m, `,"nextCursor":`...), next)
	}
	if x.modern {
		m = append(m, s.cacheFields...)
	}
	id := x.id
	// The list is long and shared: it goes out from where it is.
	_ = newReply(x.w).end(200, []byte(`{"jsonrpc":"2.0","id":`), id, // a client that left asks again
		[]byte(`,"result":{"`+listMember(x.method)+`":[`), definitions, m, []byte(`}}`))
}

// listed returns the list that a method asks for, and notes that the client
// takes it from its beginning.
func (s *Server) listed(x *exchange, v *view, whole bool) (*pages, error) {
	took := func(k kind, version string) {
		if x.mcp != nil && whole {
			x.mcp.took(k, version)
		}
	}
	if x.method == methodList {
		t, err := v.current(x.r.Context(), s.cfg.Gate, &x.who, s.cfg.Now())
		if err != nil {
			return nil, err
		}
		took(kindTools, t.told)
		return &t.pages, nil
	}
	o, err := v.offers(x.r.Context(), s.cfg.Gate, &x.who)
	if err != nil {
		return nil, err
	}
	switch x.method {
	case methodPrompts:
		took(kindPrompts, o.promptsVersion)
		return &o.prompts, nil
	case methodTemplates:
		return &o.templates, nil
	}
	took(kindResources, o.resourcesVersion)
	return &o.resources, nil
}

// listMember is the member of a result that has the list.
func listMember(method string) string {
	switch method {
	case methodResources:
		return "resources"
	case methodTemplates:
		return "resourceTemplates"
	case methodPrompts:
		return "prompts"
	}
	return "tools"
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
