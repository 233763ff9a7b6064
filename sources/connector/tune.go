package connector

import (
	"context"
	"errors"
	"mime"
	"net/http"

	"sallyport/action"
)

// tune opens the stream of a session.
func (s *Source) tune(ctx context.Context, ses *session) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "text/event-stream")
	sessionHeaders(r.Header, ses)
	return s.openStream(ctx, r, ses)
}

// openStream sends a request whose answer is a stream that goes on.
func (s *Source) openStream(ctx context.Context, r *http.Request, ses *session) (*http.Response, error) {
	cred, err := s.credential(ctx)
	if err != nil {
		return nil, err
	}
	client := s.client(&cred, nil)
	client.Transport.(*authorizer).open = true //nolint:forcetypeassert // it was made so
	resp, err := client.Do(r)
	if err != nil {
		return nil, s.lost(ctx, action.ErrUnavailable, err)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && kind == "text/event-stream" {
		return resp, nil
	}
	resp.Body.Close() //nolint:errcheck,gosec // it is not the stream
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		if _, err := s.refused(ctx, cred.used(), status, resp.Header); err != nil {
			return nil, err
		}
		return nil, s.statusFault(status, resp.Header)
	case status == http.StatusNotFound && ses.id != "":
		return nil, errSessionGone
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status >= 500 && status != http.StatusNotImplemented:
		e := s.statusFault(status, resp.Header)
		e.RetryAfter = retryAfter(resp.Header)
		s.circuit.hush(e)
		return nil, e
	}
	return nil, errDeaf
}

// follow reads a stream to its end, however long that takes: a peer that is
// dead is noticed by the transport. Each event is bounded.
func (s *Source) follow(resp *http.Response, hear func(m *message, method string)) error {
	defer resp.Body.Close()
	body := &refill{body: resp.Body, limit: s.cfg.MaxAnswer, left: s.cfg.MaxAnswer}
	err := readEvents(body, func(ev event) bool {
		body.left = body.limit
		m, ok := parseMessage(ev.data)
		if !ok || m.method == nil && m.id == nil {
			return true
		}
		method, _ := unquoted(m.method)
		hear(&m, method)
		return true
	})
	if err == nil {
		err = errors.New("the stream ended")
	}
	return err
}

// refill bounds how much may be read until it is filled again.
type refill struct {
	body interface {
		Read([]byte) (int, error)
	}
	left, limit int64
}

func (r *refill) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errors.New("an event is too large")
	}
	n, err := r.body.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}
