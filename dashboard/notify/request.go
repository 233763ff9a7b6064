package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sallyport/action"
)

// response is the result of one request to an endpoint.
type response struct {
	ok              bool
	messageRejected bool          // the endpoint rejected this message; it may accept others
	status          int           // HTTP status; zero without a response
	retryAfter      time.Duration // that the endpoint requested; zero if it did not
	detail          string        // for people
	ref             string        // of the message in Slack
}

// maxResponse bounds how much of a response body is read, in bytes.
const maxResponse = 4 << 10

// request posts JSON. The URL may be a secret that lets anyone post there, so
// no text for people contains it.
func (s *Sender) request(ctx context.Context, target string, body []byte, header http.Header) (response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return response{}, err
	}
	if header != nil {
		req.Header = header
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", s.UserAgent)
	hidden := []string{target, req.URL.RequestURI()}
	resp, err := s.Do(req)
	if err != nil {
		return response{detail: s.failureText(err, hidden)}, nil
	}
	defer resp.Body.Close()
	a := response{status: resp.StatusCode, detail: fmt.Sprintf("The endpoint answered %d", resp.StatusCode), retryAfter: retryAfter(resp.Header, s.Now())}
	switch {
	case a.status >= 200 && a.status < 300:
		a.ok = true
		a.detail += "."
		return a, nil
	case a.status >= 300 && a.status < 400:
		a.detail += ", and redirects are not followed: set the URL that it leads to."
		return a, nil
	}
	a.messageRejected = rejectsMessage(a.status)
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxResponse)) // a partial body is enough
	if said := plain(s.JSON.RedactText(string(text), hidden), maxText); said != "" {
		a.detail += " and said: " + said
	}
	return a, nil
}

// rejectsMessage reports whether an HTTP status is about this message, and not
// about the endpoint, the credential or the rate.
func rejectsMessage(code int) bool {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusRequestTimeout, http.StatusGone, http.StatusTooManyRequests:
		return false
	}
	return code >= 400 && code < 500
}

// failureText explains to people why there was no response.
func (s *Sender) failureText(err error, hidden []string) string {
	var actionErr *action.Error
	var urlErr *url.Error
	switch {
	case errors.As(err, &actionErr):
		return plain(s.JSON.RedactText(actionErr.Message, hidden), maxText)
	case errors.Is(err, context.DeadlineExceeded):
		return "The endpoint did not answer within " + s.Timeout.String() + "."
	case errors.As(err, &urlErr):
		err = urlErr.Err
	}
	return plain("The endpoint could not be reached: "+s.JSON.RedactText(err.Error(), hidden), maxText)
}

// maxRetryAfter bounds the pause that an endpoint may request.
const maxRetryAfter = time.Hour

// retryAfter returns the pause that a response requests.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(seconds, 0), int(maxRetryAfter/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
