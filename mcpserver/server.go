package mcpserver

import (
	"context"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
)

// The methods that are ours.
const (
	methodList        = "tools/list"
	methodCall        = "tools/call"
	methodResources   = "resources/list"
	methodTemplates   = "resources/templates/list"
	methodRead        = "resources/read"
	methodPrompts     = "prompts/list"
	methodPrompt      = "prompts/get"
	methodComplete    = "completion/complete"
	methodListen      = "subscriptions/listen" // of the stateless era, as the next three are of the older one
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"
	methodLevel       = "logging/setLevel"
	methodCancelled   = "notifications/cancelled"
)

// Server is the http.Handler of /mcp. [Server.Run] must run beside it.
type Server struct {
	cfg         Config
	edge        edge
	versions    []string // of the protocol, newest first
	cacheFields []byte
	bare        *toolset // our own tools, for when there is no list

	modern   http.Handler // the SDK's
	ids      sessionIDs
	sessions sessions
	views    views
	bodies   sync.Pool // of *[]byte
	states   states
	watches  watches
	released released

	standings standings
	doubts    doubts

	calls  calls
	posted allowances

	closing context.Context // ends when Drain is done: event streams end with it
	close   context.CancelFunc

	hinted hinted
}

// New returns a server. It fails when something required is missing.
func New(cfg Config) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	e, err := newEdge(&cfg)
	if err != nil {
		return nil, err
	}
	ids, err := newSessionIDs(cfg.SessionKey, cfg.SessionLife)
	if err != nil {
		return nil, err
	}
	states, err := newStates(cfg.SessionKey)
	if err != nil {
		return nil, err
	}
	own := ownTools(cfg.RequestGrant != nil)
	s := &Server{
		cfg: cfg, edge: e, ids: ids, modern: newModern(cfg.MaxBody), versions: mcp.SupportedProtocolVersions(), cacheFields: cacheFields(cfg.Version),
		bare:      newToolset(nil, own, "", false, false),
		sessions:  newSessions(),
		views:     views{own: own, search: cfg.Tools == action.ListSearch, beside: newOwnOffers(cfg.Snapshot != nil), all: map[viewKey]*view{}},
		states:    states,
		released:  newReleased(),
		standings: standings{of: map[string]*standing{}},
		doubts:    doubts{of: map[doubt]bool{}, nudge: make(chan struct{}, 1)},
		calls:     calls{all: map[*call]bool{}},
		posted:    allowances{of: map[allowanceKey]allowance{}},
		hinted:    hinted{organizations: map[string]bool{}, nudge: make(chan struct{}, 1)},
	}
	s.closing, s.close = context.WithCancel(context.Background())
	return s, nil
}

// exchange is one HTTP request and whose it is.
type exchange struct {
	w      http.ResponseWriter
	r      *http.Request
	who    action.Session
	bearer string   // by which that is known
	modern bool     // of the stateless era
	mcp    *session // of the older era; nil when it has none
	envelope
}

// ServeHTTP lets a request in, if it may come in, and finds who handles it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := s.admit(w, r)
	if x == nil {
		return
	}
	switch r.Method {
	case http.MethodPost:
		s.post(x)
	case http.MethodGet, http.MethodDelete:
		s.getOrDelete(x)
	default:
		notAllowed(w, "GET, POST, DELETE")
	}
}

// admit returns the exchange that a request begins, or answers it and returns
// nil.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) *exchange {
	if !s.edge.hostAllowed(r) {
		plain(w, http.StatusForbidden, "This Host is not served here; the gateway's --allow-host lists those that are.")
		return nil
	}
	if !s.edge.originAllowed(r) {
		plain(w, http.StatusForbidden, "This Origin may not call the gateway.")
		return nil
	}
	who, bearer, ok := s.authenticate(r.Context(), w, r)
	if !ok {
		return nil
	}
	return &exchange{w: w, r: r, who: *who, bearer: bearer, modern: r.Header.Get(versionHeader) >= modernVersion}
}

func notAllowed(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow)
	plain(w, http.StatusMethodNotAllowed, "Method not allowed; allowed: "+allow+".")
}

// post handles one message.
func (s *Server) post(x *exchange) {
	if !jsonContent(x.r.Header.Get("Content-Type")) {
		plain(x.w, http.StatusUnsupportedMediaType, "The Content-Type must be application/json.")
		return
	}
	buf, status := s.readBody(x)
	if status != 0 {
		s.recycle(buf)
		return
	}
	defer func() {
		if x.mcp != nil {
			x.mcp.leave(s.cfg.Now())
		}
	}()
	rest := s.message(x, *buf)
	s.recycle(buf) // a call may be held for minutes
	if rest != nil {
		rest()
	}
}

// message handles a message, but for what is left to do when its body is not
// needed any more.
func (s *Server) message(x *exchange, body []byte) (rest func()) {
	e, p := parseEnvelope(body)
	x.envelope = e
	if p == nil {
		p = s.checkVersion(x.r.Header.Get(versionHeader))
	}
	if p != nil {
		x.fail(p)
		return nil
	}
	if !s.enterSession(x) {
		return nil
	}
	switch x.method {
	case methodCancelled:
		s.cancelled(x)
	case "":
		s.replied(x)
	case methodList, methodCall, methodResources, methodTemplates, methodRead, methodPrompts, methodPrompt,
		methodComplete, methodListen, methodSubscribe, methodUnsubscribe, methodLevel,
		methodTask, methodTaskUpdate, methodTaskCancel:
		return s.ours(x)
	default:
		s.pass(x, body)
	}
	return nil
}

// ours handles the methods that are ours.
func (s *Server) ours(x *exchange) (rest func()) {
	if x.id == nil {
		x.fail(wrongEnvelope(x.method + " needs an id."))
		return nil
	}
	p, bad := parseParams(x.params)
	if bad == nil && x.modern {
		bad = checkModern(x.r.Header, &x.envelope, &p)
	}
	if bad != nil {
		x.fail(bad)
		return nil
	}
	switch x.method {
	case methodCall:
		return s.begin(x, &p)
	case methodPrompt:
		if ownPrompt(p.name) {
			s.getPrompt(x, &p)
			return nil
		}
		return s.begin(x, &p)
	case methodRead:
		if read := s.ownResource(p.uri); read != nil {
			read(x, p.uri)
			return nil
		}
		return s.begin(x, &p)
	case methodComplete:
		s.complete(x)
	case methodListen:
		if x.modern {
			return s.listen(x, &p)
		}
		x.fail(noMethod(x.method))
	case methodTask, methodTaskUpdate, methodTaskCancel:
		if x.modern {
			s.tasks(x, &p)
		} else {
			x.fail(noMethod(x.method))
		}
	case methodSubscribe, methodUnsubscribe, methodLevel:
		s.ofSession(x, &p)
	default:
		s.list(x, &p)
	}
	return nil
}

// ofSession handles the methods that only sessions have.
func (s *Server) ofSession(x *exchange, p *params) {
	switch {
	case x.modern:
		x.fail(noMethod(x.method))
	case x.method == methodSubscribe:
		s.subscribe(x, p)
	case x.method == methodUnsubscribe:
		s.endSubscription(x, p)
	default:
		s.setLevel(x, p)
	}
}

// fail answers with an error.
func (x *exchange) fail(p *problem) {
	_ = x.answer(newReply(x.w), p.message()) // a client that left needs no answer
}

// refuse answers with a message that says why not.
func (x *exchange) refuse(m message) {
	_ = x.answer(newReply(x.w), m) // a client that left needs no answer
}

// answer sends the answer to the request. The error is nil when it got out.
func (x *exchange) answer(a *reply, m message) error {
	if x.method != methodCall {
		m = m.asFault()
	}
	id := x.id
	if id == nil {
		id = []byte("null")
	}
	status := m.httpStatus(x.modern)
	if m.fault != nil {
		return a.end(status, []byte(`{"jsonrpc":"2.0","id":`), id, []byte(`,"error":`), m.fault, []byte(`}`))
	}
	result, lead := m.result, []byte(nil)
	if x.modern {
		result, lead = asModern(x.method, result)
	}
	return a.end(status, []byte(`{"jsonrpc":"2.0","id":`), id, []byte(`,"result":`), lead, result, []byte(`}`))
}
