package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
)

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

// AsModern returns the result of a method as the stateless era gets it.
func AsModern(method string, result []byte) []byte {
	rest, lead := asModern(method, result)
	return append(append([]byte(nil), lead...), rest...)
}

// HeaderValue decodes the value of an Mcp header.
func HeaderValue(v string) (string, bool) { return headerValue(v) }

// DecodeCursor decodes a cursor.
func DecodeCursor(c string) (string, bool) { return decodeCursor(c) }

// EncodeCursor encodes one.
func EncodeCursor(last string) string { return encodeCursor(last) }

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
	for _, old := range s.sessions.takeAll() {
		s.end(old)
	}
}

// Held counts the sessions of principals and those who hold views: as many as
// there are sessions, when nothing leaks.
func (s *Server) Held() (sessions, holders int) {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	for _, of := range s.sessions.of {
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

// Allowances counts the principals that had something told to peers, once for
// each kind.
func (s *Server) Allowances() int {
	s.posted.mu.Lock()
	defer s.posted.mu.Unlock()
	return len(s.posted.of)
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

// Linked counts the sessions that the SDK knows, of all servers.
func (s *Server) Linked() (n int) {
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
	known := s.sessions.find(nameOfSession(id))
	if known == nil {
		return 0
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	return len(known.subscribed)
}

// ToldAfterOpening is what a stream says first whose client took one version of
// the tools, when another is known by then.
func ToldAfterOpening(took, known string) string {
	v := &view{announced: versions{kindTools: known}}
	st := newStream(nil, [kinds]bool{kindTools: true}, nil)
	v.join(st, versions{kindTools: took})
	events, _ := st.take()
	return string(bytes.Join(events, nil))
}

// Asked is what a requestState says.
type Asked = asked

// SealState and OpenState are what is done with one.
func SealState(key []byte, a *Asked) string {
	k, err := newStates(key)
	if err != nil {
		panic(err)
	}
	text, _ := k.seal(a)
	return text
}

func OpenState(key []byte, text string, now time.Time) (Asked, bool) {
	k, err := newStates(key)
	if err != nil {
		panic(err)
	}
	return k.open(text, now)
}

// CallDigest tells calls apart.
func CallDigest(method, name string, arguments []byte) []byte {
	return callDigest(method, name, arguments)
}

// QuestionID and ParseQuestionID are how replies find their questions.
func QuestionID(round, key string) string { return questionID(round, key) }

func ParseQuestionID(raw []byte) (round, key string, ok bool) { return parseQuestionID(raw) }

// Question is how a client is asked.
func Question(source string, q *action.Question) []byte { return appendQuestion(nil, source, q) }

// Wish is what an agent asks for.
type Wish struct {
	Tool, Source string
	Any          bool
	Scope        action.GrantScope
	MaxCalls     *int64
	Lasts        time.Duration
	Pins         map[string]json.RawMessage
	Reason       string
}

// ParseWish reads the arguments of grant_request.
func ParseWish(raw []byte) (Wish, error) {
	w, err := parseWish(raw)
	if err != nil {
		return Wish{}, err
	}
	return Wish{w.tool, w.source, w.any, w.scope, w.maxCalls, w.lasts, w.pins, w.reason}, nil
}

// SessionName is the hash by which peers know a session.
func SessionName(id string) string { return nameOfSession(id).String() }

// MintSessionID returns an id for a client.
func MintSessionID(key []byte, p *mcp.InitializeParams, version string, issued time.Time) string {
	ids, err := newSessionIDs(key, time.Hour)
	if err != nil {
		panic(err)
	}
	return ids.mint(&identity{
		issued: issued, version: version, can: capabilitiesOf(p.Capabilities),
		client: p.ClientInfo.Name, release: p.ClientInfo.Version,
	})
}

// SignSessionID returns the id that says what raw says, whatever that is.
func SignSessionID(key, raw []byte) string {
	ids, err := newSessionIDs(key, time.Hour)
	if err != nil {
		panic(err)
	}
	return idEncoding().EncodeToString(append(raw[:len(raw):len(raw)], ids.mac(raw)...))
}

// ReadSessionID reads an id.
func ReadSessionID(key []byte, id string, now time.Time) (*mcp.ServerSessionState, bool) {
	ids, err := newSessionIDs(key, time.Hour)
	if err != nil {
		panic(err)
	}
	who, ok := ids.read(id, now)
	return who.state(), ok
}

// ParseIdentity reads what is signed of an id, and writes it again.
func ParseIdentity(b []byte) ([]byte, bool) {
	who, ok := parseIdentity(b)
	if !ok {
		return nil, false
	}
	return who.appendTo(nil, [16]byte(b[1:17])), true
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

// Standings counts the principals that have something open.
func (s *Server) Standings() int {
	s.standings.mu.Lock()
	defer s.standings.mu.Unlock()
	return len(s.standings.of)
}

// Released is how many of n subscriptions wait to be ended at a source that
// takes none, when those of another source are taken.
func Released(n int) (kept, of int) {
	r := newReleased()
	r.add(&subscription{key: watchKey{source: "other"}})
	for range n {
		if r.add(&subscription{key: watchKey{source: "hangs"}}) {
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
