package routes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/view"
	"sallyport/ingest/event"
)

// InvocationEvent is the data of an invocation event. Only the first three fields are
// known if the row is not visible yet.
type InvocationEvent struct {
	ID           string          `json:"id"`
	Status       action.Status   `json:"status"`
	Session      string          `json:"session_id"`
	Source       string          `json:"source_id,omitempty"`
	SourceName   string          `json:"source_name,omitempty"`
	Action       string          `json:"action,omitempty"`
	Risk         action.Risk     `json:"risk,omitempty"`
	Mode         action.Mode     `json:"mode,omitempty"`
	Summary      string          `json:"summary,omitempty"`
	CreatedAt    *time.Time      `json:"created_at,omitempty"`
	ExpiresAt    *time.Time      `json:"expires_at,omitempty"`
	ApprovedBy   string          `json:"approved_by,omitempty"` // who decided, also for a denial
	ApprovedAt   *time.Time      `json:"approved_at,omitempty"`
	DeniedReason string          `json:"denied_reason,omitempty"`
	DeniedNote   string          `json:"denied_note,omitempty"`
	Grant        string          `json:"grant_id,omitempty"`
	Error        *action.Failure `json:"error,omitempty"`
	api.CallerView
}

// The names of further events that the token of a session gets of its calls.
const (
	approvalRequested = "action_approval_request" // the call is pending
	approvalResult    = "action_approval_result"  // approved, denied or expired
	callCompleted     = "action_completed"        // completed or failed
)

// sessionEvent returns the further name of an event of a call; empty: none.
func (e *InvocationEvent) sessionEvent() string {
	switch e.Status {
	case action.StatusPending:
		return approvalRequested
	case action.StatusApproved, action.StatusDenied, action.StatusExpired:
		if e.Mode == action.ModeRequireApproval {
			return approvalResult
		}
	case action.StatusCompleted, action.StatusFailed:
		return callCompleted
	case action.StatusExecuting:
	}
	return ""
}

// RunEvent is the data of a run's event.
type RunEvent struct {
	ID     string          `json:"id"`
	Status event.RunStatus `json:"status"`
}

func (s *handlers) eventRoutes() {
	dashboard.HandleStream(s.Server, api.StreamEvents, func(_ context.Context, p *dashboard.Principal, _ *api.None) (*dashboard.StreamResponse, error) {
		return &dashboard.StreamResponse{Body: func(hc huma.Context) {
			r, w := humago.Unwrap(hc)
			st := &stream{server: s, r: r, w: w, out: http.NewResponseController(w), principal: p, hints: make(chan action.Hint, dashboard.EventBuffer), callers: map[string]api.CallerView{}}
			st.run()
		}}, nil
	})
	op := s.API.OpenAPI().Paths["/api/v1/events"].Get
	op.Responses["200"] = &huma.Response{
		Description: "A stream of events",
		Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}},
	}
}

// stream is one client of the event stream.
type stream struct {
	server     *handlers
	r          *http.Request
	w          http.ResponseWriter
	out        *http.ResponseController
	principal  *dashboard.Principal
	hints      chan action.Hint
	overflowed atomic.Bool // a hint was dropped

	callers map[string]api.CallerView // by session; only the goroutine of run uses it
}

// maxCallers bounds the sessions that a stream remembers. It forgets all of them then.
const maxCallers = 1000

// run sends until the client leaves, its credential ends, or the server
// closes.
func (st *stream) run() {
	cancel := st.server.Hints.Subscribe(st.enqueue)
	defer cancel()
	st.w.Header().Set("Content-Type", "text/event-stream")
	st.w.Header().Set("X-Accel-Buffering", "no")
	if !st.send("retry: 2000\nevent: ready\ndata: {}\n\n") {
		return
	}
	tick := time.NewTicker(st.server.KeepAlive)
	defer tick.Stop()
	for st.next(tick.C) {
	}
}

// enqueue is called by the publisher and never blocks it.
func (st *stream) enqueue(h action.Hint) {
	if !st.visible(h) {
		return
	}
	select {
	case st.hints <- h:
	default:
		st.overflowed.Store(true)
	}
}

// visible reports whether the client may see a hint.
func (st *stream) visible(h action.Hint) bool {
	if h.Organization != st.principal.Organization {
		return false
	}
	own := st.principal.Session
	switch h.Kind {
	case action.HintSignal, action.HintResource: // for MCP sessions only
		return false
	case action.HintRun, action.HintLogin: // for people only
		return own == nil
	case action.HintCatalog, action.HintPolicy, action.HintReload:
		return true
	}
	return own == nil || h.Session == own.ID
}

func (st *stream) next(tick <-chan time.Time) bool {
	select {
	case <-st.r.Context().Done():
		return false
	case <-st.server.Done():
		return false
	case <-tick:
		return st.stillValid() && st.send(": keep-alive\n\n")
	case h := <-st.hints:
		if h.Kind == action.HintLogin {
			return st.stillValid()
		}
		if st.overflowed.Swap(false) {
			for len(st.hints) > 0 { // the client reloads everything; only this goroutine receives
				<-st.hints
			}
			clear(st.callers)
			return st.send("event: reload\ndata: {}\n\n")
		}
		return st.send(st.format(h))
	}
}

// stillValid checks the credential again, so that a stream does not outlive it.
// Otherwise it tells the client, and the stream closes.
func (st *stream) stillValid() bool {
	if _, err := st.server.Identify(st.r); err != nil {
		st.send("event: ended\ndata: {}\n\n")
		return false
	}
	return true
}

func (st *stream) format(h action.Hint) string {
	var data any = struct{}{}
	further := ""
	switch h.Kind {
	case action.HintInvocation:
		e := st.describe(h)
		if data = e; st.principal.Session != nil {
			further = e.sessionEvent()
		}
	case action.HintRun:
		data = RunEvent{ID: h.Run, Status: event.RunStatus(h.Status)}
	case action.HintSession:
		delete(st.callers, h.Session)
		data = map[string]string{"session_id": h.Session}
	case action.HintReload:
		clear(st.callers)
	}
	text, _ := json.Marshal(data) // strings and times: cannot fail
	message := fmt.Sprintf("event: %s\ndata: %s\n\n", h.Kind, text)
	if further != "" {
		message += fmt.Sprintf("event: %s\ndata: %s\n\n", further, text)
	}
	return message
}

func (st *stream) describe(h action.Hint) InvocationEvent {
	e := InvocationEvent{ID: h.Invocation, Status: h.Status, Session: h.Session}
	inv, err := st.server.Calls.Invocation(st.r.Context(), h.Organization, h.Invocation)
	if err != nil {
		return e // the row may not be visible yet; the hint suffices
	}
	return InvocationEvent{
		ID: inv.ID, Status: cmp.Or(h.Status, inv.Status), Session: inv.Session,
		Source: inv.Source, SourceName: inv.SourceName, Action: inv.Action, Risk: inv.Risk, Mode: inv.Mode, Summary: inv.Summary,
		CreatedAt: &inv.CreatedAt, ExpiresAt: inv.ExpiresAt, ApprovedBy: inv.ApprovedBy, ApprovedAt: inv.ApprovedAt,
		DeniedReason: inv.DeniedReason, DeniedNote: inv.DeniedNote, Grant: inv.Grant, Error: inv.Error,
		CallerView: st.caller(inv),
	}
}

// caller returns the session of a call, which it reads once: a session makes many.
func (st *stream) caller(inv action.Invocation) api.CallerView {
	if known, ok := st.callers[inv.Session]; ok {
		return known
	}
	from, err := st.server.Origins(st.r.Context(), st.principal, []action.Invocation{inv})
	if err != nil {
		return api.CallerView{}
	}
	if len(st.callers) >= maxCallers {
		clear(st.callers)
	}
	st.callers[inv.Session] = view.CallerOf(from[inv.Session])
	return st.callers[inv.Session]
}

// send writes with a deadline of ten seconds, so that a client that does not read
// is disconnected.
func (st *stream) send(text string) bool {
	_ = st.out.SetWriteDeadline(time.Now().Add(10 * time.Second)) // not every writer supports deadlines
	if _, err := st.w.Write([]byte(text)); err != nil {
		return false
	}
	return st.out.Flush() == nil
}
