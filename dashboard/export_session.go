package dashboard

import (
	"context"
	"encoding/json"
	"errors"

	"sallyport/action"
)

// exportedCall is a call with what is known of the session that made it.
type exportedCall struct {
	action.Invocation
	CreatedBy  string `json:"session_created_by,omitempty"`
	Group      string `json:"group,omitempty"`
	Task       string `json:"task,omitempty"`
	Automation string `json:"automation_id,omitempty"`
}

// callers looks sessions up, and remembers them for one export.
type callers struct {
	server *Server
	known  map[string]action.Session
}

// maxCallers bounds the memory of an export; past it, it starts anew.
const maxCallers = 1000

// of returns a call with its session's facts; without, when the session is no
// more.
func (c *callers) of(ctx context.Context, inv action.Invocation) (exportedCall, error) {
	s, ok := c.known[inv.Session]
	if !ok {
		var err error
		if s, err = c.server.session(ctx, inv.Organization, inv.Session); err != nil && !errors.Is(err, action.ErrNotFound) {
			return exportedCall{}, err
		}
		if len(c.known) >= maxCallers {
			clear(c.known)
		}
		c.known[inv.Session] = s
	}
	return exportedCall{inv, s.CreatedBy, s.Group, s.Task, s.Automation}, nil
}

// exportCalls hands over calls as they are exported.
func (s *Server) exportCalls(ctx context.Context, f action.InvocationFilter, yield func(exportedCall) error) error {
	from := callers{s, map[string]action.Session{}}
	return s.Calls.Export(ctx, f, func(inv action.Invocation) error {
		call, err := from.of(ctx, inv)
		if err != nil {
			return err
		}
		return yield(call)
	})
}

// steps writes how a call was decided into a cell.
func steps(list []action.Step) string {
	if len(list) == 0 {
		return ""
	}
	text, _ := json.Marshal(list) // plain strings always encode
	return string(text)
}
