// Package gitserver is the gateway as a Git remote over smart HTTP: clients fetch
// from and push to the repositories of a forge under a session's token, and the
// credential of the forge stays in the gateway.
//
// It guarantees: every fetch and push is a call of the Gate (git:fetch, git:push),
// so that policy decides it and the audit log has it; a fetch is streamed, with
// nothing buffered; the session's token goes to no forge, and the forge's
// credential goes to its own host only and reaches no client.
//
// It does not store repositories, and serves neither SSH nor Git LFS.
package gitserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/action"
	"sallyport/internal/defaults"
	"sallyport/internal/gitpush"
	"sallyport/internal/token"
)

// Gate runs calls. Its implementation is gate.Gate.
type Gate interface {
	Call(ctx context.Context, c *action.Call) (*action.Outcome, error)
	Explain(ctx context.Context, s *action.Session, source, name string, params json.RawMessage) (action.Explained, error)
}

// Config configures a [Server]. The functions are required.
type Config struct {
	// Authenticate returns the live session of a token.
	Authenticate func(ctx context.Context, token string) (*action.Session, error)
	// Session returns a session by its ID. Callers do not modify it.
	Session func(ctx context.Context, id string) (*action.Session, error)
	// Remote returns how the session reaches a repository of a host.
	Remote func(ctx context.Context, s *action.Session, host, repository string) (*Remote, error)

	// Rules returns what applies to a push; an error of kind ErrForbidden if the
	// settings of the integration forbid it.
	Rules func(ctx context.Context, s *action.Session, r *Remote, p *gitpush.Params) (Rules, error)
	// Suspicious reports whether a line looks as if it had a credential in it.
	Suspicious func(line string) bool
	// Person returns the display name of a user.
	Person func(ctx context.Context, organization, id string) string
	Folder string // of pushes that wait

	MaxStreams int              `default:"16"`        // requests of one session at a time
	MaxPush    int64            `default:"104857600"` // bytes of a pack that is pushed: 100 MiB
	Idle       time.Duration    `default:"2m"`        // how long a client may neither read nor send
	Now        func() time.Time `default:"time.Now"`
	Log        *slog.Logger     `default:"discard"`
}

// Remote is a repository at a forge, and the credential for it.
type Remote struct {
	URL         *url.URL     // of the repository, without .git
	Client      *http.Client // for the host of URL
	Integration string       // ID; empty: the credential is a secret
	Revision    string       // changes when the credential would be another one
	// Credential returns the user and password of requests; without a user, they
	// are sent without a credential.
	Credential func(ctx context.Context, a Access) (user, password string, err error)
}

// Access is what a credential is for.
type Access struct {
	Write     bool
	Workflows bool // files that GitHub protects by a permission of their own
}

// Server serves the repositories. It is safe for concurrent use.
type Server struct {
	Config
	gate    Gate
	program string // git; empty: not installed, so that pushes are refused

	sent, received atomic.Int64 // bytes

	mu      sync.Mutex
	streams map[string]int            // requests in progress, by session
	waiting map[string][]*fetchStream // fetches that the Gate has not started yet, by session and params
	names   refNames
	remotes map[string]knownRemote // by session and repository
	held    map[string]int         // uses of quarantines, by folder
	open    map[string]bool        // quarantines of calls that wait without a client

	indexing chan struct{} // a semaphore: packs that are read at a time
}

// New returns a server. [Server.Use] must be called before it serves.
func New(c Config) (*Server, error) {
	if c.Authenticate == nil || c.Session == nil || c.Remote == nil || c.Rules == nil || c.Suspicious == nil || c.Person == nil || c.Folder == "" {
		return nil, errors.New("gitserver.Config: the functions and Folder are required")
	}
	defaults.Set(&c)
	s := &Server{
		Config: c, streams: map[string]int{}, waiting: map[string][]*fetchStream{}, names: newRefNames(), remotes: map[string]knownRemote{},
		held: map[string]int{}, open: map[string]bool{}, indexing: make(chan struct{}, maxIndexing),
	}
	var err error
	if s.program, _, err = FindProgram(context.Background()); err != nil {
		s.Log.Warn(err.Error())
	}
	return s, nil
}

// maxIndexing is the number of packs that are read at a time.
const maxIndexing = 4

// Use sets the Gate, whose catalog has [Server.Actions].
func (s *Server) Use(g Gate) { s.gate = g }

// The names of the actions.
const (
	fetchAction = "fetch"
	pushAction  = "push"
)

// exchange is a request of an authenticated session for a repository.
type exchange struct {
	w          http.ResponseWriter
	r          *http.Request
	session    *action.Session
	host       string // as in the URL
	path       string // of the repository, without .git
	service    string // what it asks for, such as info/refs
	idle       time.Duration
	repository string // host and path
	failure    error  // internal, of a request that has its answer
}

// services are the ends of the URLs that the server knows.
var services = [...]string{"/info/refs", "/git-upload-pack", "/git-receive-pack"}

// segment is a part of a repository's path. None begins with a dot, so that no path
// leaves its place.
var segment = regexp.MustCompile(`^[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,99}$`)

// hostPattern is a host with an optional port.
var hostPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?(:[0-9]{1,5})?$`)

// lfsPath is in the URLs of the API of Git LFS, whose errors are JSON.
const lfsPath = "/info/lfs"

// maxSegments bounds the depth of a path: GitLab allows 20 groups.
const maxSegments = 22

// parse splits a path below /git/ into its parts.
func (x *exchange) parse(path string) error {
	rest := strings.TrimPrefix(path, "/git/")
	if strings.Contains(rest, lfsPath) {
		return refusal(http.StatusNotImplemented, "Git LFS is not available through the gateway. Push and fetch without it: set GIT_LFS_SKIP_SMUDGE=1, and keep large files out of the commits.")
	}
	for _, service := range services {
		if found, ok := strings.CutSuffix(rest, service); ok {
			x.service, rest = service[1:], found
		}
	}
	host, path, _ := strings.Cut(rest, "/")
	x.host, x.path = strings.ToLower(host), strings.TrimSuffix(path, ".git")
	parts := strings.Split(x.path, "/")
	valid := x.service != "" && hostPattern.MatchString(x.host) && len(parts) <= maxSegments
	for _, part := range parts {
		valid = valid && segment.MatchString(part)
	}
	if !valid {
		return refusal(http.StatusNotFound, "This is not the URL of a repository. It has the form GATEWAY/git/HOST/OWNER/NAME.git, such as /git/github.com/octocat/hello.git.")
	}
	x.repository = x.host + "/" + x.path
	return nil
}

// ServeHTTP serves one request of a Git client.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	x := &exchange{w: w, r: r, idle: s.Idle}
	if err := s.serve(x); err != nil {
		s.refuse(x, err)
	}
	if x.failure != nil {
		s.Log.Error("a push failed", "repository", x.repository, "error", x.failure)
	}
}

func (s *Server) serve(x *exchange) (err error) {
	if x.r.Header.Get("Origin") != "" {
		return refusal(http.StatusForbidden, "Browsers cannot use this URL; use git.")
	}
	if x.session, err = s.Authenticate(x.r.Context(), credential(x.r)); err != nil {
		return err
	}
	if err := x.parse(x.r.URL.EscapedPath()); err != nil {
		return err
	}
	if !s.enter(x.session.ID) {
		return action.NewError("too_many_streams", s.MaxStreams)
	}
	defer s.leave(x.session.ID)
	switch service := x.r.URL.Query().Get("service"); x.r.Method + " " + x.service {
	case "GET info/refs":
		switch service {
		case "git-upload-pack":
			return s.advertiseFetch(x)
		case "git-receive-pack":
			return s.advertisePush(x)
		}
		return refusal(http.StatusForbidden, "This client is too old: the gateway serves smart HTTP only. Use Git 1.6.6 or later.")
	case "POST git-upload-pack":
		return s.fetch(x)
	case "POST git-receive-pack":
		return s.push(x)
	}
	x.w.Header().Set("Allow", "GET, POST")
	return refusal(http.StatusMethodNotAllowed, "This is a Git remote; use git clone, fetch or push.")
}

// enter counts a request of the session; false if it has too many.
func (s *Server) enter(session string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[session] >= s.MaxStreams {
		return false
	}
	s.streams[session]++
	return true
}

func (s *Server) leave(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[session]--; s.streams[session] == 0 {
		delete(s.streams, session)
	}
}

// credential returns the session's token: as a bearer token, or as the password of
// any user.
func credential(r *http.Request) string {
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}
	return token.Bearer(r.Header.Get("Authorization"))
}

// refusedRequest is a refusal with a status of HTTP.
type refusedRequest struct {
	status  int
	message string
}

func (r *refusedRequest) Error() string { return r.message }

func refusal(status int, format string, args ...any) error {
	return &refusedRequest{status, fmt.Sprintf(format, args...)}
}

// refuse answers with an error. Git prints the text of a response of type
// text/plain, and git-lfs that of JSON.
func (s *Server) refuse(x *exchange, err error) {
	status, e := http.StatusInternalServerError, action.Public(err)
	message := e.Message
	var refused *refusedRequest
	switch {
	case errors.As(err, &refused):
		status, message = refused.status, refused.message
	case errors.Is(err, action.ErrUnauthenticated):
		status = http.StatusUnauthorized
		x.w.Header().Set("Www-Authenticate", `Basic realm="sallyport"`)
	case errors.Is(err, action.ErrTooMany):
		status = http.StatusTooManyRequests
	case errors.Is(err, action.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, action.ErrForbidden), errors.Is(err, action.ErrConflict), errors.Is(err, action.ErrInvalid):
		status = http.StatusForbidden
	case errors.Is(err, action.ErrUnavailable), errors.Is(err, action.ErrOutcomeUnknown):
		status = http.StatusBadGateway
	case x.r.Context().Err() != nil:
		return // nobody reads the answer
	default:
		s.Log.Error("a Git request failed", "repository", x.repository, "error", err)
	}
	contentType := "text/plain; charset=utf-8"
	if strings.Contains(x.r.URL.Path, lfsPath) {
		contentType = "application/vnd.git-lfs+json"
		text, _ := json.Marshal(map[string]string{"message": message}) // cannot fail
		message = string(text)
	}
	x.w.Header().Set("Content-Type", contentType)
	x.w.Header().Set("X-Content-Type-Options", "nosniff")
	x.w.WriteHeader(status)
	_, _ = io.WriteString(x.w, message+"\n") // the client may be gone
}

// moreTime extends the deadlines of the client.
func (x *exchange) moreTime() {
	c := http.NewResponseController(x.w)
	_ = c.SetReadDeadline(time.Now().Add(x.idle)) // not supported in tests with a recorder
	_ = c.SetWriteDeadline(time.Now().Add(x.idle))
}
