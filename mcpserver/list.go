package mcpserver

import (
	"encoding/json"
	"errors"

	"sallyport/action"
	"sallyport/internal/jsonlex"
	"sallyport/mcpserver/wire"
)

// list answers the four list methods with the definitions as their sources wrote
// them.
func (s *Server) list(x *exchange, p *params) {
	after, bad := cursorParam(p)
	if bad != nil {
		x.sendError(bad)
		return
	}
	now := s.cfg.Now()
	v := s.views.of(&x.who, now)
	list, err := s.requestedList(x, v, after == "")
	if err != nil {
		s.cfg.Log.Error("a list could not be read", "method", x.Method, "session", x.who.ID, "error", err)
		x.sendError(listProblem(err))
		return
	}
	definitions, next := list.page(after)
	m := []byte("]")
	if next != "" {
		m = jsonlex.Quote(append(m, `,"nextCursor":`...), next)
	}
	if x.stateless {
		m = append(m, s.cacheFields...)
	}
	id := x.ID
	// The list is large and shared, so it is written without a copy.
	_ = wire.NewWriter(x.w).End(200, []byte(`{"jsonrpc":"2.0","id":`), id, // a client that disconnected lists again
		[]byte(`,"result":{"`+listMember(x.Method)+`":[`), definitions, m, []byte(`}}`))
}

// requestedList returns the list of a method and records that the client fetched it
// from the start.
func (s *Server) requestedList(x *exchange, v *view, whole bool) (*pages, error) {
	took := func(k kind, version string) {
		if x.session != nil && whole {
			x.session.recordVersion(k, version)
		}
	}
	if x.Method == methodList {
		t, err := v.current(x.r.Context(), s.cfg.Gate, &x.who, s.cfg.Now())
		if err != nil {
			return nil, err
		}
		took(kindTools, t.announcedVersion)
		return &t.pages, nil
	}
	o, err := v.offerings(x.r.Context(), s.cfg.Gate, &x.who)
	if err != nil {
		return nil, err
	}
	switch x.Method {
	case methodPrompts:
		took(kindPrompts, o.promptsVersion)
		return &o.prompts, nil
	case methodTemplates:
		return &o.templates, nil
	}
	took(kindResources, o.resourcesVersion)
	return &o.resources, nil
}

// listMember is the name of the result's member with the list.
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

// cacheFields are in every list of the stateless protocol. A list is private to the
// principal and stale at once, because policy may change at any time.
func cacheFields(version string) []byte {
	info, _ := json.Marshal(map[string]string{"name": serverName, "version": version}) // strings always encode
	return []byte(`,"ttlMs":0,"cacheScope":"private","resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":` + string(info) + `}`)
}

// cursorParam returns the name after which the page starts.
func cursorParam(p *params) (after string, bad *wire.Error) {
	if p.cursor == nil || wire.IsNull(p.cursor) {
		return "", nil
	}
	if wire.IsString(p.cursor) {
		if last, ok := action.ParseCursor(wire.DecodeString(p.cursor)); ok {
			return last, nil
		}
	}
	return "", wire.InvalidParams("The cursor is not valid; list again without it.")
}

// listProblem maps an error of the Gate for a request without a tool result.
func listProblem(err error) *wire.Error {
	var e *action.Error
	if errors.As(err, &e) && e.Kind != nil {
		return &wire.Error{Code: wire.CodeInternal, Message: e.Message}
	}
	return wire.InternalError()
}

// kind is a kind of list.
type kind int

// The kinds of list, in the order of their notifications.
const (
	kindTools kind = iota
	kindPrompts
	kindResources // with the templates
	kinds
)

// versions are the versions of a session's lists; empty if unknown.
type versions [kinds]string

// notification is the method that announces a change.
func (k kind) notification() string {
	return [kinds]string{"notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed"}[k]
}

func (k kind) listenFilter() string {
	return [kinds]string{"toolsListChanged", "promptsListChanged", "resourcesListChanged"}[k]
}

// announcedKinds are the kinds of list whose changes are announced.
func (o serverFeatures) announcedKinds() (wants [kinds]bool) {
	for k := range kinds {
		wants[k] = o.announces(k)
	}
	return wants
}

// announces reports whether changes of the list are announced.
func (o serverFeatures) announces(k kind) bool {
	return [kinds]bool{true, o.prompts, o.resourceChanges}[k]
}
