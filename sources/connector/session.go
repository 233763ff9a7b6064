package connector

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
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

// session is what a handshake agreed on. Without sessions it stays good for
// ever; with them, until the server forgets it.
type session struct {
	sdk       *mcp.ClientSession
	place     place
	id        string // Mcp-Session-Id; empty: the server gave none
	version   string
	stateless bool
	offers    sources.Capabilities
	lists     changing
	says      string // the server's instructions to models

	life context.Context // of streams that last as long as the session
	end  context.CancelFunc

	told map[string]bool // resources that it tells of; guarded by the turn of wishes

	// Guarded by the source's mutex.
	level    string      // of the log messages that are asked for; empty: none yet
	leveling bool        // it is being told
	mute     bool        // it could not be told
	users    int         // calls that use it
	calls    []*exchange // of callers, the latest last
	dropped  bool        // no new call may use it
	used     time.Time   // last
	idle     *time.Timer // ends it when nobody uses it
}

// changing are the lists of which a server tells that they change.
type changing struct{ tools, resources, prompts bool }

// shake makes the handshake, a second time when the first was refused and
// there is another credential.
func (s *Source) shake(ctx context.Context, p place, era string, can action.ClientFeatures) (*session, error) {
	for renewed := false; ; renewed = true {
		seen := &sight{expired: ctx.Err, journey: journey{began: time.Now()}}
		ses, err := s.greet(ctx, seen, era, can)
		if err == nil {
			s.note(p, seen.steps(ses.version))
			return ses, nil
		}
		s.note(p, seen.steps(""))
		again, refusal := s.refused(ctx, seen.used, seen.status, seen.header)
		switch {
		case refusal != nil:
			return nil, refusal
		case !again || renewed:
			return nil, s.handshakeFault(ctx, seen, err)
		}
	}
}

// note keeps the steps of a handshake that is for all.
func (s *Source) note(p place, steps []sources.Step) {
	if p != (place{}) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shaken, s.listed = steps, nil
}

// greet says server/discover, and initialize where that is not known.
func (s *Source) greet(ctx context.Context, seen *sight, era string, can action.ClientFeatures) (ses *session, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the handshake panicked: %v", p)
		}
	}()
	client := mcp.NewClient(&mcp.Implementation{Name: "sallyport", Version: s.cfg.Version}, &mcp.ClientOptions{
		Capabilities: sdkCapabilities(can), Logger: slog.New(slog.DiscardHandler),
	})
	sdk, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: s.url.String(), HTTPClient: s.client(nil, seen), DisableStandaloneSSE: true, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: era})
	if err != nil {
		return nil, err
	}
	answers := seen.done()
	agreed := sdk.InitializeResult()
	ses = &session{sdk: sdk, id: sdk.ID(), version: agreed.ProtocolVersion, stateless: agreed.ProtocolVersion >= stateless}
	ses.says = agreed.Instructions[:min(len(agreed.Instructions), maxSays)]
	ses.offer(agreed.Capabilities)
	ses.offers.Tasks = ses.version == lastLegacy && runsTasks(answers)
	ses.life, ses.end = context.WithCancel(context.WithoutCancel(ctx))
	return ses, nil
}

// maxSays is how much of a server's instructions is kept, in bytes.
const maxSays = 8 << 10

// offer reads what the server can do.
func (ses *session) offer(c *mcp.ServerCapabilities) {
	if c == nil {
		return
	}
	ses.offers.Completions, ses.offers.Logging = c.Completions != nil, c.Logging != nil //nolint:staticcheck // servers still log
	if c.Tools != nil {
		ses.lists.tools = c.Tools.ListChanged
	}
	if c.Resources != nil {
		ses.offers.Resources, ses.offers.Subscribe = true, c.Resources.Subscribe
		ses.lists.resources = c.Resources.ListChanged
	}
	if c.Prompts != nil {
		ses.offers.Prompts, ses.lists.prompts = true, c.Prompts.ListChanged
	}
}

// sight is what was seen on the wire of a handshake, whose errors do not
// always tell. It also ends a handshake that is out of time: the SDK would go
// on to tell the server so, which may take as long again.
type sight struct {
	mu      sync.Mutex
	expired func() error // nil: the handshake is done
	status  int
	header  http.Header // of the last answer
	used    string      // the secret of the last request
	err     error
	said    []*overheard // what was answered, until it is done
	journey journey
}

func (s *sight) look(resp *http.Response, err error, used string) {
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

func (s *sight) over() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expired == nil {
		return nil
	}
	return s.expired()
}

// done ends the handshake and returns what was answered to it.
func (s *sight) done() (answers [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.said {
		answers = append(answers, a.bytes)
	}
	s.expired, s.said = nil, nil
	return answers
}

// handshakeFault says what is wrong when no session came about. Nothing was
// executed.
func (s *Source) handshakeFault(ctx context.Context, seen *sight, err error) error {
	seen.mu.Lock()
	defer seen.mu.Unlock()
	cause := s.scrub(err)
	content := seen.header.Get("Content-Type")
	switch {
	case seen.err != nil:
		return s.lost(ctx, action.ErrUnavailable, seen.err)
	case ctx.Err() != nil:
		return s.lost(ctx, action.ErrUnavailable, context.Cause(ctx))
	case seen.status >= 300:
		if (seen.status == http.StatusNotFound || seen.status == http.StatusMethodNotAllowed || seen.status == http.StatusBadRequest) && s.isOld(ctx) {
			return action.Errorf(action.ErrUnavailable, sources.FaultTransport,
				"This is an old event-stream endpoint (HTTP+SSE), which the protocol gave up; use the server's streamable HTTP endpoint, whose URL often ends in /mcp.").WithCause(cause)
		}
		if e := s.statusFault(seen.status, seen.header); e != nil {
			e.Kind, e.Err, e.RetryAfter = action.ErrUnavailable, cause, retryAfter(seen.header)
			return e
		}
	case !strings.HasPrefix(content, "application/json") && !strings.HasPrefix(content, "text/event-stream"):
		return action.Errorf(action.ErrUnavailable, sources.FaultTransport,
			"The server answers, but not as an MCP server over streamable HTTP does; check the URL, which often ends in /mcp.").WithCause(cause)
	}
	var large *action.Error
	if errors.As(err, &large) && large.Code == "body_too_large" || strings.Contains(err.Error(), "body_too_large") {
		return s.tooLarge(action.ErrUnavailable)
	}
	e := action.Errorf(action.ErrUnavailable, sources.FaultProtocol, "The server's answer to the handshake is not what MCP wants.").WithCause(cause)
	if said := (*jsonrpc.Error)(nil); errors.As(err, &said) {
		e.Message += " It says: " + sources.Printable(s.scrub(errors.New(said.Message)).Error(), 200)
	}
	return e
}

// isOld reports whether the URL is that of the transport which streamable HTTP
// replaced: a GET opens an event stream that begins with an endpoint.
func (s *Source) isOld(ctx context.Context) bool {
	ctx, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url.String(), nil)
	if err != nil {
		return false
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := s.client(nil, nil).Do(r)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return false
	}
	line, _ := bufio.NewReaderSize(io.LimitReader(resp.Body, 1<<10), 1<<10).ReadString('\n')
	return strings.TrimSpace(strings.TrimPrefix(line, "event:")) == "endpoint"
}
