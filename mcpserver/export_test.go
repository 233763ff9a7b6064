package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"time"

	"sallyport/action"
	"sallyport/mcpserver/token"
	"sallyport/mcpserver/wire"
)

// What the fuzz tests and the tests of the pool look at.

// StatelessResult returns the result of a method as the stateless era gets it.
func StatelessResult(method string, result []byte) []byte {
	rest, lead := statelessResult(method, result)
	return append(append([]byte(nil), lead...), rest...)
}

// SessionResult returns the result of a method as clients with sessions get it.
func SessionResult(method string, result []byte) []byte { return sessionResult(method, result) }

// Draining reports whether a shutdown began.
func (s *Server) Draining() bool { return s.calls.draining() }

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

// Forget forgets every session, as if all had rested for long.
func (s *Server) Forget() {
	for _, old := range s.sessions.removeWhere(func(*session) bool { return true }) {
		s.closeSession(old)
	}
}

// Held counts the sessions of principals and those who hold views: as many as
// there are sessions, when nothing leaks.
func (s *Server) Held() (sessions, holders int) {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	for _, of := range s.sessions.byPrincipal {
		sessions += len(of)
	}
	s.views.mu.Lock()
	defer s.views.mu.Unlock()
	for _, v := range s.views.all {
		holders += v.holders
	}
	return sessions, holders
}

// Ended counts the sessions that are remembered as ended.
func (s *Server) Ended() int {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	return len(s.sessions.ended)
}

// RateWindows counts the principals that had something told to peers, once for
// each kind.
func (s *Server) RateWindows() int {
	s.limits.mu.Lock()
	defer s.limits.mu.Unlock()
	return len(s.limits.windows)
}

// Expire forgets what is due.
func (s *Server) Expire() { s.expire() }

// StreamAfterEnd is why the event stream ends of a session that ended before it
// opened.
func StreamAfterEnd() error {
	s := &session{}
	s.close()
	ctx, _ := s.openStream(context.Background(), newStream(nil, [kinds]bool{}, nil))
	return ctx.Err()
}

// Streams counts the event streams.
func (s *Server) Streams() (n int) {
	s.views.mu.Lock()
	defer s.views.mu.Unlock()
	for _, v := range s.views.all {
		v.mu.Lock()
		n += len(v.streams)
		v.mu.Unlock()
	}
	return n
}

// SDKSessions counts the sessions that the SDK knows, of all servers.
func (s *Server) SDKSessions() (n int) {
	s.views.mu.Lock()
	defer s.views.mu.Unlock()
	for _, v := range s.views.all {
		v.mu.Lock()
		if v.server != nil {
			for range v.server.Sessions() {
				n++
			}
		}
		v.mu.Unlock()
	}
	return n
}

// Subscribed counts the subscriptions of a session that are known here.
func (s *Server) Subscribed(id string) int {
	known := s.sessions.find(token.HashSessionID(id))
	if known == nil {
		return 0
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	return len(known.subscribed)
}

// FirstEvents is what a stream says first whose client took one version of
// the tools, when another is known by then.
func FirstEvents(took, known string) string {
	v := &view{announced: versions{kindTools: known}}
	st := newStream(nil, [kinds]bool{kindTools: true}, nil)
	v.addStream(st, versions{kindTools: took})
	events, _ := st.drain()
	return string(bytes.Join(events, nil))
}

// QuestionID and ParseQuestionID are how replies find their questions.
func QuestionID(round, key string) string { return questionID(round, key) }

func ParseQuestionID(raw []byte) (round, key string, ok bool) { return parseQuestionID(raw) }

// Question is how a client is asked.
func Question(source string, q *action.Question) []byte { return appendQuestion(nil, source, q) }

// GrantArguments is what an agent asks for.
type GrantArguments struct {
	Tool, Source string
	Any          bool
	Scope        action.GrantScope
	MaxCalls     *int64
	Duration     time.Duration
	Pins         map[string]json.RawMessage
	Reason       string
}

// ParseGrantArguments reads the arguments of grant_request.
func ParseGrantArguments(raw []byte) (GrantArguments, error) {
	w, err := parseGrantArguments(raw)
	if err != nil {
		return GrantArguments{}, err
	}
	return GrantArguments{w.tool, w.source, w.any, w.scope, w.maxCalls, w.duration, w.pins, w.reason}, nil
}

// SessionHash is the hash by which peers know a session.
func SessionHash(id string) string { return token.HashSessionID(id).String() }

// ForwardedProgress returns what a client is sent for a notification of a source,
// after hold progress or without.
func ForwardedProgress(params []byte, held bool) string {
	w := httptest.NewRecorder()
	p := &progress{token: []byte("1"), reply: wire.NewWriter(w)}
	if held {
		p.lastValue = 3
	}
	_ = p.forward(params)
	return w.Body.String()
}

// Principals counts the principals that have something open.
func (s *Server) Principals() int {
	s.principals.mu.Lock()
	defer s.principals.mu.Unlock()
	return len(s.principals.byID)
}

// QueuedUnsubscribes is how many of n subscriptions wait to be ended at a source that
// takes none, when those of another source are taken.
func QueuedUnsubscribes(n int) (kept, of int) {
	r := newUnsubscribeQueue()
	r.add(&subscription{key: resourceKey{source: "other"}})
	for range n {
		if r.add(&subscription{key: resourceKey{source: "hangs"}}) {
			kept++
		}
	}
	for range n { // what hangs is taken once and never done
		sub := r.next()
		if sub == nil {
			return kept, n
		}
		if sub.key.source == "other" {
			r.done(sub)
		}
	}
	return -1, n
}

// SameView tells whether two sessions share their lists.
func SameView(a, b *action.Session) bool {
	var v views
	return v.keyOf(a) == v.keyOf(b)
}

// AnnouncedTools is the version of the tools that an organization's one view
// tells its streams of.
func (s *Server) AnnouncedTools(organization string) string {
	s.views.mu.Lock()
	defer s.views.mu.Unlock()
	for key, w := range s.views.all {
		if key.organization == organization {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.announced[kindTools]
		}
	}
	return ""
}
