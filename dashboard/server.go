package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/action"
	"sallyport/api"
)

// Server serves the API and the page. It is safe for concurrent use.
type Server struct {
	Config
	public         *url.URL
	hosts          map[string]bool
	roles          map[string]api.Access
	API            huma.API // describes and serves the operations
	statistics     *statisticsCache
	linkLimiter    *rateLimiter // of new links, by person
	attemptLimiter *rateLimiter // of invalid codes, by client address
	http           http.Handler

	oidc       *oidcProvider // nil: disabled
	hostTokens *hostVerifier // nil: disabled

	mounted map[string]api.Access // who may use each mounted route

	closing   chan struct{} // closed when streams and waits must end
	closeOnce sync.Once
}

// Part adds routes to a server: the JSON API or the web page.
type Part func(s *Server, mux *http.ServeMux) error

// New returns a server with the given parts, the sign-in, /healthz and /readyz.
// The parts together must serve every route that has a role.
func New(c Config, parts ...Part) (*Server, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	public, err := url.Parse(c.PublicURL)
	if err != nil {
		return nil, err
	}
	s := &Server{
		Config: c, public: public, closing: make(chan struct{}),
		hosts: allowedHosts(public, c.AllowedHosts), roles: roleTable(), mounted: map[string]api.Access{}, statistics: newStatisticsCache(),
		linkLimiter: newRateLimiter(linkEvery, linksAtOnce), attemptLimiter: newRateLimiter(tryEvery, triesAtOnce),
	}
	if s.oidc, err = newOIDCProvider(c.OIDC, s.Now); err != nil {
		return nil, err
	}
	if s.hostTokens, err = newHostVerifier(c.UserJWT, s.Now); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	if err := s.mount(mux, parts); err != nil {
		return nil, err
	}
	s.http = s.guard(mux)
	return s, nil
}

// Handler returns the server as one handler.
func (s *Server) Handler() http.Handler { return s.http }

// Close ends event streams and waiting requests, so that the HTTP server can
// shut down. It may be called more than once.
func (s *Server) Close() { s.closeOnce.Do(func() { close(s.closing) }) }

// Done is closed when event streams and waits must end.
func (s *Server) Done() <-chan struct{} { return s.closing }

// Now returns the current time in UTC.
func (s *Server) Now() time.Time { return s.Config.Now().UTC() }

// Hint notifies the other parts of the gateway of a change.
func (s *Server) Hint(kind action.HintKind, organization, session string) {
	s.Hints.Publish(action.Hint{Kind: kind, Organization: organization, Session: session})
}

// UntilClosing returns a context that ends with ctx or when the server closes.
func (s *Server) UntilClosing(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-s.closing:
			cancel(action.ErrCallerGone)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(context.Canceled); <-done }
}
