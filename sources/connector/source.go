// Package connector is a source whose actions are provided by a remote MCP
// server, reached over streamable HTTP in either era of the protocol, with
// sessions (up to 2025-11-25) or without (2026-07-28), or over the HTTP+SSE
// transport that preceded it.
//
// The SDK makes the handshake, where the eras differ most. Everything else
// bypasses it: requests are sent and answers, notifications and questions are
// read as raw JSON, because the SDK's types alter numbers, drop fields and
// reject unknown content.
//
// It guarantees: results, errors, progress, log messages, questions, replies
// and definitions are passed on byte for byte, except that the injected
// credential is redacted wherever the server echoes it; the credential is sent
// only to the host that it was set for; an error says correctly whether the
// server can have received the call, and a call that it can have received is
// never sent again; every answer is bounded in size and time. The _meta of a
// caller never reaches the server.
//
// It declares to the server only the client features that the configuration
// permits, and without sessions only those that the caller's client supports as
// well; in a session the attempt shows it. Questions become [action.Caller.Ask]
// in both eras. So does an error that wants links opened, after which the call
// is sent once more. Pings are answered here, and other requests are refused.
// Agents share a session unless the server may ask questions or keeps state:
// then each agent has its own. Notifications about changed lists, and about
// resources with subscribers, are read from every stream, and kept while there
// is no listener; the notification that a link was completed is not passed on.
// A circuit breaker pauses requests to a server that fails repeatedly or limits
// the rate.
package connector

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/sources"
)

// Source is a remote MCP server. It is safe for concurrent use.
type Source struct {
	cfg  Config
	url  *url.URL
	http *http.Client // bound to the URL's host; without credential

	ids     atomic.Int64                                     // of requests
	headers atomic.Pointer[map[string][]sources.HeaderParam] // by tool, of the last list
	cleaner atomic.Pointer[cleaner]                          // of the last credential

	features action.ClientFeatures // what MayAsk comes to
	circuit  circuit

	ctx     context.Context // of handshakes and of listening
	cancel  context.CancelFunc
	running sync.WaitGroup // calls, and what they leave in the background
	streams sync.WaitGroup // streams of sessions

	mu             sync.Mutex // the fields below
	closed         bool
	slots          map[sessionKey]*sessionSlot
	sse            bool                 // the last handshake was over HTTP+SSE
	era            string               // protocol version to begin the next handshake with; empty: the newest
	capabilities   sources.Capabilities // of the last handshake
	serverName     string               // likewise: its name in serverInfo
	instructions   string               // likewise: the server's instructions
	handshakeSteps []sources.Step       // of the last one that was for all
	listSteps      []sources.Step       // of the last list

	subscriptions subscriptionSet
	notices       noticeQueue
}

// New returns the source. It sends nothing before the first List or Call.
func New(c Config) (*Source, error) {
	c, u, err := c.complete()
	if err != nil {
		return nil, err
	}
	s := &Source{cfg: c, url: u, http: guard.Client(c.Guard, u), features: action.AskFeatures(c.MayAsk), slots: map[sessionKey]*sessionSlot{}}
	s.circuit = circuit{after: c.TripAfter, first: c.Backoff, now: time.Now}
	s.subscriptions.sending, s.subscriptions.timeout = make(chan struct{}, 1), subscribeTimeout
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// ID implements [sources.Source].
func (s *Source) ID() string { return s.cfg.ID }

// Close refuses new calls, waits for running ones, and closes the sessions.
func (s *Source) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
	s.mu.Lock()
	seats := s.slots
	s.slots = map[sessionKey]*sessionSlot{}
	s.mu.Unlock()
	errs := make(chan error, len(seats))
	for _, at := range seats {
		go func() {
			if at.session == nil {
				errs <- nil
				return
			}
			at.session.cancel()
			errs <- at.session.sdk.Close()
		}()
	}
	var err error
	for range seats {
		err = errors.Join(err, <-errs)
	}
	s.streams.Wait()
	s.http.CloseIdleConnections()
	return err
}

// begin registers a call that Close waits for; done ends it.
func (s *Source) begin() (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, action.Errorf(action.ErrUnavailable, sources.FaultConfig, "The connector was changed or removed. Retry.")
	}
	s.running.Add(1)
	return s.running.Done, nil
}

// Config configures a [Source].
type Config struct {
	ID  string // source ID, "connector:<uuid>"; required
	URL string // required

	// Secret returns the credential and the host, with its port if any, that it
	// was set for. It is called for every request. Nil: there is none.
	Secret func(ctx context.Context) (value, host string, err error)
	Header string // header for the credential; empty: Authorization
	Prefix string // precedes the credential, such as "Bearer "
	// Headers are sent unchanged with every request. They contain no secret.
	Headers map[string]string
	// Refused reports that the server answered 401 or 403 to the secret used,
	// with these challenges. With again, the secret is read again and the
	// request sent once more. If Refused fails, so does the request, with its
	// error. Nil: the request fails.
	Refused func(ctx context.Context, used string, status int, challenges []string) (again bool, err error)

	// MayAsk are the kinds of question that the server can ask callers; empty:
	// none.
	MayAsk []action.AskKind
	// PerAgent gives each agent session a session of its own at the server, as
	// MayAsk does.
	PerAgent bool
	// Protocol is the only version of MCP to speak; empty: the newest that the
	// server speaks, but the newest with sessions where MayAsk or PerAgent need
	// them and the server has them.
	Protocol string

	// Traceparent returns the W3C trace context of a request, which is sent in
	// the header and in _meta. Empty: no trace. Nil: never.
	Traceparent func(ctx context.Context) string

	Guard   guard.Config // restricts outbound connections; zero: public addresses only
	Version string       // of the gateway, sent to the server; empty: "dev"

	ConnectTimeout time.Duration // of the handshake; zero: 10 s
	MaxAnswer      int64         // bytes of one answer; zero: 16 MiB
	MaxListing     int64         // bytes of all pages of a list; zero: 32 MiB
	MaxTools       int           // in a list, further tools are dropped; zero: 2,000
	IdleAgent      time.Duration // idle timeout of an agent's own session; zero: 10 min
	TripAfter      int           // consecutive failures that open the circuit; zero: 5
	Backoff        time.Duration // first pause after a failure, which doubles; zero: 1 s
	Log            *slog.Logger  // bodies are never logged; nil: slog.Default
}

func (c Config) complete() (Config, *url.URL, error) {
	if c.ID == "" {
		return c, nil, errors.New("connector: Config.ID is required")
	}
	u, err := guard.CheckURL(c.URL)
	if err != nil {
		return c, nil, err
	}
	c.Header, c.Version, c.Log = cmp.Or(c.Header, "Authorization"), cmp.Or(c.Version, "dev"), cmp.Or(c.Log, slog.Default())
	if err := action.CheckHeaders(c.Header, c.Prefix, c.Headers); err != nil {
		fault := *action.Public(err)
		fault.Code = sources.FaultConfig
		return c, nil, &fault
	}
	c.ConnectTimeout, c.Backoff = cmp.Or(c.ConnectTimeout, 10*time.Second), cmp.Or(c.Backoff, time.Second)
	c.MaxAnswer, c.MaxListing = cmp.Or(c.MaxAnswer, 16<<20), cmp.Or(c.MaxListing, 32<<20)
	c.MaxTools, c.TripAfter = cmp.Or(c.MaxTools, 2_000), cmp.Or(c.TripAfter, 5)
	c.IdleAgent = cmp.Or(c.IdleAgent, 10*time.Minute)
	return c, u, nil
}
