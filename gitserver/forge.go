package gitserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"sallyport/action"
	"sallyport/internal/redact"
)

// Bytes returns how many bytes were sent to forges and received from them, by the
// name of the direction.
func (s *Server) Bytes() map[string]*atomic.Int64 {
	return map[string]*atomic.Int64{"sent": &s.sent, "received": &s.received}
}

// knownRemote is a remote as it was at a time.
type knownRemote struct {
	*Remote
	readAt time.Time
}

// A clone is several requests; what is at most a second old serves reads.
const (
	remoteAge  = time.Second
	maxRemotes = 1_000
)

// remote returns the remote of a request. Its credential is read for each use.
func (s *Server) remote(x *exchange) (*Remote, error) {
	key, now := x.session.ID+"\n"+x.repository, s.Now()
	s.mu.Lock()
	known, ok := s.remotes[key]
	s.mu.Unlock()
	if ok && now.Sub(known.readAt) < remoteAge && !now.Before(known.readAt) {
		return known.Remote, nil
	}
	r, err := s.Remote(x.r.Context(), x.session, x.host, x.path)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.remotes) >= maxRemotes {
		clear(s.remotes)
	}
	s.remotes[key] = knownRemote{r, now}
	return r, nil
}

// forgeRequest is a request to a forge.
type forgeRequest struct {
	method  string
	service string // below the repository, such as info/refs?service=git-upload-pack
	header  http.Header
	body    io.Reader
	length  int64 // of the body; negative: unknown
	access  Access
}

// send sends a request and returns the answer to it, whose status is 200. An error
// says whether the forge may have executed it; it has no credential in it.
func (r *Remote) send(ctx context.Context, q *forgeRequest) (*http.Response, error) {
	user, password, err := r.Credential(ctx, q.access)
	if err != nil {
		return nil, err
	}
	u := *r.URL
	service, query, _ := strings.Cut(q.service, "?")
	u.Path += ".git/" + service
	u.RawQuery = query
	request, err := http.NewRequestWithContext(ctx, q.method, u.String(), q.body)
	if err != nil {
		return nil, err
	}
	request.ContentLength = q.length
	if q.length == 0 {
		request.Body = nil
	}
	for _, name := range []string{"Content-Type", "Content-Encoding", "Git-Protocol", "Accept"} {
		if v := q.header.Get(name); v != "" {
			request.Header.Set(name, v)
		}
	}
	request.Header.Set("User-Agent", "git/sallyport") // forges serve Git's protocol to agents that begin so
	if user != "" {
		request.SetBasicAuth(user, password)
	}
	resp, err := r.Client.Do(request)
	if err != nil {
		return nil, unanswered(r, err, password)
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		_ = resp.Body.Close()
		return nil, refusedByForge(r, resp.StatusCode, string(redact.NewReplacer(password).Replace(text)))
	}
	return resp, nil
}

// unanswered returns the error of a request without an answer.
func unanswered(r *Remote, err error, password string) error {
	kind, code := action.ErrOutcomeUnknown, "upstream_unreachable"
	var known *action.Error
	if errors.As(err, &known) {
		kind, code = known.Kind, known.Code
	}
	e := action.Errorf(kind, code, "%s did not answer. Retry later.", r.URL.Host)
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without the URL
	}
	e.Err = errors.New(string(redact.NewReplacer(password).Replace([]byte(err.Error()))))
	return e
}

// refusedByForge returns the error of an answer other than 200. A client must never
// see 401: it would ask its user for a credential of the gateway.
func refusedByForge(r *Remote, status int, text string) error {
	repository := strings.TrimPrefix(r.URL.Path, "/")
	format, code := "%s answered a request for %s with %d. Retry later.", "upstream_failed"
	kind := action.ErrUnavailable
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return (&action.Error{Kind: action.ErrForbidden, Code: "upstream_refused", Message: fmt.Sprintf(
			"%s does not permit this at %s (%d). The gateway's credential for it may lack a permission, or has expired: tell the user.", r.URL.Host, repository, status,
		)}).WithCause(errors.New(text))
	case http.StatusNotFound:
		return action.NewError("repository_not_found", r.URL.Host, repository)
	case http.StatusTooManyRequests:
		code = "upstream_rate_limited"
	}
	return action.Errorf(kind, code, format, r.URL.Host, repository, status).WithCause(errors.New(text))
}

// idle is how long a forge may be silent.
const idle = 2 * time.Minute

// idleReader ends a body whose sender is silent for too long.
type idleReader struct {
	io.ReadCloser
	timer *time.Timer
}

func newIdleReader(body io.ReadCloser) *idleReader {
	return &idleReader{body, time.AfterFunc(idle, func() { _ = body.Close() })}
}

func (r *idleReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.timer.Reset(idle)
	return n, err
}

func (r *idleReader) Close() error {
	r.timer.Stop()
	return r.ReadCloser.Close()
}
