package mcpserver

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
	"sallyport/mcpserver/token"
	"sallyport/mcpserver/wire"
)

// The methods that the server handles itself. The SDK handles the others.
const (
	methodList        = "tools/list"
	methodCall        = "tools/call"
	methodResources   = "resources/list"
	methodTemplates   = "resources/templates/list"
	methodRead        = "resources/read"
	methodPrompts     = "prompts/list"
	methodPrompt      = "prompts/get"
	methodComplete    = "completion/complete"
	methodListen      = "subscriptions/listen" // stateless only; the next three are for sessions only
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"
	methodLevel       = "logging/setLevel"
	methodCancelled   = "notifications/cancelled"
)

// Server is the http.Handler of /mcp. [Server.Run] must run beside it.
type Server struct {
	cfg          Config
	allowlist    allowlist
	versions     []string // of the protocol, newest first
	cacheFields  []byte
	builtinsOnly *toolset // the list without sources, used when no list can be made

	statelessSDK  http.Handler // the SDK's
	ids           token.SessionIDs
	sessions      sessions
	views         views
	bodies        sync.Pool // of *[]byte
	requestStates token.RequestStates
	subscribers   subscriberIndex
	unsubscribes  unsubscribeQueue

	principals principalRegistry
	rechecks   recheckQueue

	calls  calls
	limits rateLimiter

	closing context.Context // canceled at the end of Drain, which closes event streams
	close   context.CancelFunc

	changed changedOrganizations
}

// New returns a server. It fails if a required field of cfg is missing.
func New(cfg Config) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	e, err := newAllowlist(&cfg)
	if err != nil {
		return nil, err
	}
	ids, err := token.NewSessionIDs(cfg.SessionKey, cfg.SessionLife)
	if err != nil {
		return nil, err
	}
	states, err := token.NewRequestStates(cfg.SessionKey)
	if err != nil {
		return nil, err
	}
	own := builtinTools(cfg.RequestGrant != nil)
	s := &Server{
		cfg: cfg, allowlist: e, ids: ids, statelessSDK: newStatelessHandler(cfg.MaxBody), versions: mcp.SupportedProtocolVersions(), cacheFields: cacheFields(cfg.Version),
		builtinsOnly:  newToolset(nil, own, "", false, false),
		sessions:      sessions{all: map[token.SessionHash]*session{}, byPrincipal: map[string]map[*session]bool{}, ended: map[token.SessionHash]int64{}},
		views:         views{builtins: own, searchByDefault: cfg.Tools == action.ListSearch, builtinOfferings: newBuiltinOfferings(cfg.Snapshot != nil), all: map[viewKey]*view{}},
		requestStates: states,
		unsubscribes:  newUnsubscribeQueue(),
		principals:    principalRegistry{byID: map[string]*principalState{}},
		rechecks:      recheckQueue{pending: map[recheck]bool{}, wake: make(chan struct{}, 1)},
		calls:         calls{all: map[*call]bool{}},
		limits:        rateLimiter{windows: map[rateKey]rateWindow{}},
		changed:       changedOrganizations{organizations: map[string]bool{}, wake: make(chan struct{}, 1)},
	}
	s.closing, s.close = context.WithCancel(context.Background())
	return s, nil
}

// exchange is one HTTP request and its principal.
type exchange struct {
	w         http.ResponseWriter
	r         *http.Request
	who       action.Session
	bearer    string   // the token that authenticated it
	stateless bool     // the request follows the stateless protocol
	session   *session // nil without an MCP session
	wire.Envelope
}

// ServeHTTP admits a request and routes it by its HTTP method.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := s.admit(w, r)
	if x == nil {
		return
	}
	switch r.Method {
	case http.MethodPost:
		s.handlePost(x)
	case http.MethodGet, http.MethodDelete:
		s.handleGetOrDelete(x)
	default:
		wire.MethodNotAllowed(w, "GET, POST, DELETE")
	}
}

// admit checks host, origin and bearer. It returns nil if it answered the request.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) *exchange {
	if !s.allowlist.hostAllowed(r) {
		wire.WriteText(w, http.StatusForbidden, "This Host is not allowed. Add it to the gateway's --allow-host.")
		return nil
	}
	if !s.allowlist.originAllowed(r) {
		wire.WriteText(w, http.StatusForbidden, "This Origin is not allowed. Add it to the gateway's --allow-origin.")
		return nil
	}
	who, bearer, ok := s.authenticate(r.Context(), w, r)
	if !ok {
		return nil
	}
	return &exchange{w: w, r: r, who: *who, bearer: bearer, stateless: r.Header.Get(wire.VersionHeader) >= wire.StatelessVersion}
}

// handlePost handles one JSON-RPC message.
func (s *Server) handlePost(x *exchange) {
	if !wire.IsJSON(x.r.Header.Get("Content-Type")) {
		wire.WriteText(x.w, http.StatusUnsupportedMediaType, "The Content-Type must be application/json.")
		return
	}
	buf, status := s.readBody(x)
	if status != 0 {
		s.putBody(buf)
		return
	}
	defer func() {
		if x.session != nil {
			x.session.release(s.cfg.Now())
		}
	}()
	rest := s.dispatch(x, *buf)
	s.putBody(buf) // a call may be pending for minutes
	if rest != nil {
		rest()
	}
}

// dispatch routes a message by its method. It returns the part of the work that no
// longer needs the body.
func (s *Server) dispatch(x *exchange, body []byte) (rest func()) {
	e, p := wire.ParseEnvelope(body)
	x.Envelope = e
	if p == nil {
		p = s.checkVersion(x.r.Header.Get(wire.VersionHeader))
	}
	if p != nil {
		x.sendError(p)
		return nil
	}
	if !s.loadSession(x) {
		return nil
	}
	switch x.Method {
	case methodCancelled:
		s.cancelled(x)
	case "":
		s.handleReply(x)
	case methodList, methodCall, methodResources, methodTemplates, methodRead, methodPrompts, methodPrompt,
		methodComplete, methodListen, methodSubscribe, methodUnsubscribe, methodLevel,
		methodTask, methodTaskUpdate, methodTaskCancel:
		return s.handleOwn(x)
	default:
		s.forward(x, body)
	}
	return nil
}

// handleOwn handles the methods that do not go to the SDK.
func (s *Server) handleOwn(x *exchange) (rest func()) {
	if x.ID == nil {
		x.sendError(wire.InvalidRequest(x.Method + " needs an id."))
		return nil
	}
	p, bad := parseParams(x.Params)
	if bad == nil && x.stateless {
		bad = checkStatelessHeaders(x.r.Header, &x.Envelope, &p)
	}
	if bad != nil {
		x.sendError(bad)
		return nil
	}
	switch x.Method { // methods of the other protocol
	case methodListen, methodTask, methodTaskUpdate, methodTaskCancel:
		if !x.stateless {
			x.sendError(wire.MethodNotFound(x.Method))
			return nil
		}
	case methodSubscribe, methodUnsubscribe, methodLevel:
		if x.stateless {
			x.sendError(wire.MethodNotFound(x.Method))
			return nil
		}
	}
	switch x.Method {
	case methodCall:
		return s.startCall(x, &p)
	case methodPrompt:
		if slices.Contains(promptTypes(), action.SessionType(p.name)) {
			s.getPrompt(x, &p)
			return nil
		}
		return s.startCall(x, &p)
	case methodRead:
		switch {
		case s.cfg.Snapshot != nil && (p.uri == capabilitiesURI || strings.HasPrefix(p.uri, nextCapabilities)):
			s.readCapabilities(x, p.uri)
		case p.uri == guideURI, strings.HasPrefix(p.uri, guidePrefix):
			s.readGuide(x, p.uri)
		default:
			return s.startCall(x, &p)
		}
	case methodComplete:
		s.complete(x)
	case methodListen:
		return s.listen(x, &p)
	case methodTask, methodTaskUpdate, methodTaskCancel:
		s.tasks(x, &p)
	case methodSubscribe:
		s.handleSubscribe(x, &p)
	case methodUnsubscribe:
		s.handleUnsubscribe(x, &p)
	case methodLevel:
		s.setLevel(x, &p)
	default:
		s.list(x, &p)
	}
	return nil
}

// sendError answers with an error.
func (x *exchange) sendError(p *wire.Error) {
	_ = x.sendTo(wire.NewWriter(x.w), p.Response()) // a client that left needs no answer
}

// send answers with a response.
func (x *exchange) send(m wire.Response) {
	_ = x.sendTo(wire.NewWriter(x.w), m) // a client that left needs no answer
}

// sendTo writes the response to a. The error is nil if everything was flushed.
func (x *exchange) sendTo(a *wire.Writer, m wire.Response) error {
	if x.Method != methodCall {
		m = m.AsError()
	}
	id := x.ID
	if id == nil {
		id = []byte("null")
	}
	status := m.HTTPStatus(x.stateless)
	if m.Error != nil {
		return a.End(status, []byte(`{"jsonrpc":"2.0","id":`), id, []byte(`,"error":`), m.Error, []byte(`}`))
	}
	result, lead := m.Result, []byte(nil)
	if x.stateless {
		result, lead = statelessResult(x.Method, result)
	} else {
		result = sessionResult(x.Method, result)
	}
	return a.End(status, []byte(`{"jsonrpc":"2.0","id":`), id, []byte(`,"result":`), lead, result, []byte(`}`))
}
