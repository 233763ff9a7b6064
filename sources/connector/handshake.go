package connector

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
	"sallyport/sources"
)

// The protocol versions at which behaviour changes.
const (
	stateless  = "2026-07-28" // no sessions; every request tells its version
	lastLegacy = "2025-11-25"
)

// session is the result of a handshake. Without protocol sessions it is valid
// indefinitely, otherwise until the server drops it.
type session struct {
	sdk          *mcp.ClientSession
	sse          *sseSession // nil: over streamable HTTP
	key          sessionKey
	id           string // Mcp-Session-Id; empty: the server gave none
	version      string
	stateless    bool
	capabilities sources.Capabilities
	listChanges  listChanges
	serverName   string // serverInfo.name; empty: the server did not give it
	instructions string // the server's instructions to models

	ctx    context.Context // of streams that last as long as the session
	cancel context.CancelFunc

	subscribed map[string]bool // resources that it tells of; guarded by the turn of wishes

	// Guarded by the source's mutex.
	level        string      // of the log messages that are asked for; empty: none yet
	settingLevel bool        // it is being told
	levelFailed  bool        // it could not be told
	users        int         // calls that use it
	calls        []*exchange // of callers, the latest last
	dropped      bool        // no new call may use it
	used         time.Time   // last
	idle         *time.Timer // ends it when nobody uses it
}

// listChanges are the lists whose changes a server announces.
type listChanges struct{ tools, resources, prompts bool }

// agree makes the handshake in the version that the connector is pinned to, in
// that of the last handshake, or else in the newest that serves: with sessions, if
// the connector needs them. Some servers of both eras can ask questions only in
// sessions, and only sessions keep the state of agents apart.
func (s *Source) agree(ctx context.Context, p sessionKey, era string) (*session, error) {
	pinned := s.cfg.Protocol
	if pinned == "" && (era != "" || s.features == 0 && !s.cfg.PerAgent) {
		return s.handshake(ctx, p, era, s.features)
	}
	ses, err := s.handshake(ctx, p, cmp.Or(pinned, lastLegacy), s.features)
	switch {
	case err == nil && pinned != "" && ses.stateless != (pinned >= stateless):
		s.closeSession(ses)
		return nil, action.Errorf(action.ErrUnavailable, sources.FaultConfig,
			"The connector is pinned to version %s of the protocol, but the server speaks %s. Pin it to that if possible, or remove the pin.", pinned, sources.Printable(ses.version, 20))
	case pinned != "":
	case err == nil && ses.id == "":
		s.closeSession(ses)
		return s.handshake(ctx, p, "", s.features) // it issues no session
	case err != nil && slices.Contains([]string{sources.FaultProtocol, sources.FaultRefused, sources.FaultTransport}, code(err)):
		return s.handshake(ctx, p, "", s.features) // it has no sessions
	}
	return ses, err
}

// handshake makes the handshake over streamable HTTP, and over HTTP+SSE if the
// server refuses it with a 4xx status, or if it did so the last time.
func (s *Source) handshake(ctx context.Context, p sessionKey, era string, can action.ClientFeatures) (*session, error) {
	if s.speaksSSE() {
		ses, _, err := s.handshakeOver(ctx, true, nil, p, era, can)
		if !errors.Is(err, errNoSSE) {
			return ses, err
		}
	}
	ses, seen, err := s.handshakeOver(ctx, false, nil, p, era, can)
	if err == nil || seen.err != nil || seen.status/100 != 4 || refusesCaller(seen.status) {
		return ses, err
	}
	old, _, failed := s.handshakeOver(ctx, true, seen, p, era, can)
	if errors.Is(failed, errNoSSE) {
		return nil, err
	}
	return old, failed
}

func (s *Source) speaksSSE() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sse
}

// handshakeOver makes the handshake over one transport, a second time when the
// first was refused and there is another credential. before is the handshake
// that led to this one; nil: none.
func (s *Source) handshakeOver(ctx context.Context, overSSE bool, before *handshakeTrace, p sessionKey, era string, can action.ClientFeatures) (*session, *handshakeTrace, error) {
	for renewed := false; ; renewed = true {
		seen := &handshakeTrace{deadlineErr: ctx.Err, timings: connectTimings{began: time.Now()}}
		if before != nil { // it made the connection
			before.mu.Lock()
			seen.timings = before.timings
			before.mu.Unlock()
		}
		var sse *sseSession
		if overSSE {
			sse = newSSESession(s, p != sessionKey{})
		}
		ses, err := s.connectSDK(ctx, sse, seen, era, can)
		if err == nil {
			s.setHandshakeSteps(p, seen.steps(ses.version))
			return ses, seen, nil
		}
		if errors.Is(seen.err, errNoSSE) {
			return nil, seen, errNoSSE
		}
		s.setHandshakeSteps(p, seen.steps(""))
		again, refusal := s.refused(ctx, seen.used, seen.status, seen.header)
		switch {
		case refusal != nil:
			return nil, seen, refusal
		case !again || renewed:
			return nil, seen, s.handshakeFault(ctx, seen, err)
		}
	}
}

// setHandshakeSteps keeps the steps of a handshake that is for all.
func (s *Source) setHandshakeSteps(p sessionKey, steps []sources.Step) {
	if p != (sessionKey{}) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handshakeSteps, s.listSteps = steps, nil
}

// connectSDK makes the handshake: server/discover, and initialize if that is
// not supported, as over HTTP+SSE.
func (s *Source) connectSDK(ctx context.Context, sse *sseSession, seen *handshakeTrace, era string, can action.ClientFeatures) (ses *session, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the handshake panicked: %v", p)
		}
		if err != nil && sse != nil {
			sse.close(nil)
			seen.streamEnded(sse)
		}
	}()
	if sse != nil && (era == "" || era >= stateless) {
		era = lastLegacy
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "sallyport", Version: s.cfg.Version}, &mcp.ClientOptions{
		Capabilities: sdkCapabilities(can), Logger: slog.New(slog.DiscardHandler),
	})
	sdk, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: s.url.String(), HTTPClient: s.client(sse, nil, seen), DisableStandaloneSSE: true, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: era})
	if err != nil {
		return nil, err
	}
	answers := seen.finish()
	agreed := sdk.InitializeResult()
	ses = &session{sdk: sdk, sse: sse, id: sdk.ID(), version: agreed.ProtocolVersion, stateless: agreed.ProtocolVersion >= stateless}
	if agreed.ServerInfo != nil {
		ses.serverName = agreed.ServerInfo.Name[:min(len(agreed.ServerInfo.Name), maxServerName)]
	}
	ses.instructions = agreed.Instructions[:min(len(agreed.Instructions), maxInstructions)]
	ses.setCapabilities(agreed.Capabilities)
	ses.capabilities.Tasks = ses.version == lastLegacy && runsTasks(answers)
	ses.ctx, ses.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if sse != nil {
		context.AfterFunc(ses.ctx, func() { sse.close(nil) })
	}
	return ses, nil
}

// Limits of what is kept of a server, in bytes.
const (
	maxInstructions = 8 << 10
	maxServerName   = 200
)

// setCapabilities reads what the server can do.
func (ses *session) setCapabilities(c *mcp.ServerCapabilities) {
	if c == nil {
		return
	}
	ses.capabilities.Completions, ses.capabilities.Logging = c.Completions != nil, c.Logging != nil //nolint:staticcheck // servers still log
	if c.Tools != nil {
		ses.listChanges.tools = c.Tools.ListChanged
	}
	if c.Resources != nil {
		ses.capabilities.Resources, ses.capabilities.Subscribe = true, c.Resources.Subscribe
		ses.listChanges.resources = c.Resources.ListChanged
	}
	if c.Prompts != nil {
		ses.capabilities.Prompts, ses.listChanges.prompts = true, c.Prompts.ListChanged
	}
}

// handshakeTrace records what happens on the wire during a handshake, which the
// SDK's errors do not always say. It also stops a handshake that timed out: the
// SDK would still notify the server, which can take as long again.
type handshakeTrace struct {
	mu          sync.Mutex
	deadlineErr func() error // nil: the handshake is done
	status      int
	header      http.Header // of the last answer
	used        string      // the secret of the last request
	err         error
	bodies      []*recordedBody // what was answered, until it is done
	timings     connectTimings
}

func (s *handshakeTrace) observe(resp *http.Response, err error, used string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.used = err, used
	if resp != nil {
		s.status, s.header = resp.StatusCode, resp.Header
	}
}

// streamEnded observes the end of the stream that carries the answers.
func (s *handshakeTrace) streamEnded(sse *sseSession) {
	sse.mu.Lock()
	failure := sse.failure
	sse.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = cmp.Or(s.err, failure)
}

func (s *handshakeTrace) timedOut() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deadlineErr == nil {
		return nil
	}
	return s.deadlineErr()
}

// finish ends the handshake and returns what was answered to it.
func (s *handshakeTrace) finish() (answers [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.bodies {
		answers = append(answers, a.bytes)
	}
	s.deadlineErr, s.bodies = nil, nil
	return answers
}

// handshakeFault says what is wrong when no session came about. Nothing was
// executed.
func (s *Source) handshakeFault(ctx context.Context, seen *handshakeTrace, err error) error {
	seen.mu.Lock()
	defer seen.mu.Unlock()
	cause := s.redactError(err)
	content := seen.header.Get("Content-Type")
	switch {
	case seen.err != nil:
		return s.transportError(ctx, action.ErrUnavailable, seen.err)
	case ctx.Err() != nil:
		return s.transportError(ctx, action.ErrUnavailable, context.Cause(ctx))
	case seen.status >= 300:
		if e := s.statusFault(seen.status, seen.header); e != nil {
			e.Kind, e.Err, e.RetryAfter = action.ErrUnavailable, cause, retryAfter(seen.header)
			return e
		}
	case !strings.HasPrefix(content, "application/json") && !strings.HasPrefix(content, "text/event-stream"):
		return action.Errorf(action.ErrUnavailable, sources.FaultTransport,
			"The server answers, but not as an MCP server over streamable HTTP. Check the URL, which often ends in /mcp.").WithCause(cause)
	}
	var large *action.Error
	if errors.As(err, &large) && large.Code == "body_too_large" || strings.Contains(err.Error(), "body_too_large") {
		return s.tooLarge(action.ErrUnavailable)
	}
	e := action.Errorf(action.ErrUnavailable, sources.FaultProtocol, "The server's answer to the handshake does not follow MCP.").WithCause(cause)
	if said := (*jsonrpc.Error)(nil); errors.As(err, &said) {
		e.Message += " It says: " + sources.Printable(s.redactError(errors.New(said.Message)).Error(), 200)
	}
	return e
}

// Steps implements [sources.Source]. What failed is the last of them.
func (s *Source) Steps() []sources.Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.handshakeSteps, s.listSteps)
}

// connectTimings are the times of the steps to reach a server. The first
// connection counts.
type connectTimings struct {
	began             time.Time
	dns, connect, tls timing
	tlsVersion        string
}

// timing is the start and end of one step.
type timing struct{ from, to time.Time }

func (l *timing) start() {
	if l.from.IsZero() {
		l.from = time.Now()
	}
}

func (l *timing) end() {
	if l.to.IsZero() {
		l.to = time.Now()
	}
}

func (l *timing) duration() time.Duration {
	switch {
	case l.from.IsZero():
		return 0
	case l.to.IsZero(): // it never ended
		return time.Since(l.from)
	}
	return l.to.Sub(l.from)
}

// withTrace has the steps of a request noted.
func (s *handshakeTrace) withTrace(ctx context.Context) context.Context {
	if s == nil {
		return ctx
	}
	note := func(f func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		f()
	}
	j := &s.timings
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart:     func(httptrace.DNSStartInfo) { note(j.dns.start) },
		DNSDone:      func(httptrace.DNSDoneInfo) { note(j.dns.end) },
		ConnectStart: func(string, string) { note(j.connect.start) },
		ConnectDone: func(_, _ string, err error) {
			if err == nil {
				note(j.connect.end)
			}
		},
		TLSHandshakeStart: func() { note(j.tls.start) },
		TLSHandshakeDone: func(state tls.ConnectionState, err error) {
			note(j.tls.end)
			if err == nil {
				note(func() { j.tlsVersion = tls.VersionName(state.Version) })
			}
		},
	})
}

// steps are those of the handshake, which agreed on the version; without one
// it failed, and the step in which it did is the last.
func (s *handshakeTrace) steps(version string) []sources.Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := &s.timings
	list := []sources.Step{
		{Name: "dns", Took: j.dns.duration()},
		{Name: "connect", Took: j.connect.duration()},
		{Name: "tls", Took: j.tls.duration(), Detail: j.tlsVersion},
	}
	rest := time.Since(j.began)
	for _, step := range list {
		rest -= step.Took
	}
	list = append(list, sources.Step{Name: "handshake", Took: max(rest, 0), Detail: version})
	failed := func(n int) []sources.Step {
		list[n-1].Failed = true
		return list[:n]
	}
	reached := func(l timing) bool { return !l.from.IsZero() && !l.to.IsZero() }
	switch {
	case version != "":
		return list
	case reached(j.tls) && j.tlsVersion != "":
		return failed(4)
	case !j.tls.from.IsZero():
		return failed(3)
	case reached(j.connect):
		return failed(4)
	case !j.connect.from.IsZero():
		return failed(2)
	default:
		return failed(1)
	}
}

// maxRecordedBody is how much of an answer to a handshake is kept beside the SDK's
// reading of it, which has no tasks.
const maxRecordedBody = 256 << 10

// recordedBody records a response body as it is read.
type recordedBody struct {
	io.ReadCloser
	trace *handshakeTrace
	bytes []byte // guarded by the sight's mutex
}

// record keeps what is read of a body while the handshake is under way.
func (s *handshakeTrace) record(body io.ReadCloser) io.ReadCloser {
	if s == nil {
		return body
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deadlineErr == nil {
		return body
	}
	a := &recordedBody{ReadCloser: body, trace: s}
	s.bodies = append(s.bodies, a)
	return a
}

func (a *recordedBody) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	a.trace.mu.Lock()
	defer a.trace.mu.Unlock()
	if a.trace.deadlineErr != nil {
		a.bytes = append(a.bytes, p[:min(n, maxRecordedBody-len(a.bytes))]...)
	}
	return n, err
}

// runsTasks reports whether one of the answers, JSON or events, declares that
// tools are called as tasks where they want it.
func runsTasks(answers [][]byte) bool {
	for _, answer := range answers {
		if declaresTasks(answer) {
			return true
		}
		for line := range bytes.Lines(answer) {
			if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && declaresTasks(data) {
				return true
			}
		}
	}
	return false
}

func declaresTasks(message []byte) bool {
	var m struct {
		Result struct {
			Capabilities struct {
				Tasks struct {
					Requests struct {
						Tools struct {
							Call *struct{} `json:"call"`
						} `json:"tools"`
					} `json:"requests"`
				} `json:"tasks"`
			} `json:"capabilities"`
		} `json:"result"`
	}
	return json.Unmarshal(message, &m) == nil && m.Result.Capabilities.Tasks.Requests.Tools.Call != nil
}
