package mcpserver

import (
	"encoding/json"

	"sallyport/internal/jsonlex"
)

// capabilitiesURI is the resource that tells a session what it may do.
const (
	capabilitiesURI  = "sallyport://capabilities"
	capabilitiesType = "application/json"
)

// readCapabilities answers with what the session that asks may do.
func (s *Server) readCapabilities(x *exchange) {
	snapshot, err := s.cfg.Snapshot(x.r.Context(), &x.who)
	if err == nil {
		var text []byte
		if text, err = json.Marshal(snapshot); err == nil {
			b := []byte(`{"contents":[{"uri":"` + capabilitiesURI + `","mimeType":"` + capabilitiesType + `","text":`)
			b = append(jsonlex.Quote(b, text), `}]}`...)
			_ = x.answer(newReply(x.w), message{result: b}) // a client that left needs no answer
			return
		}
	}
	s.cfg.Log.Error("reading capabilities", "session", x.who.ID, "error", err)
	x.fail(listProblem(err))
}
