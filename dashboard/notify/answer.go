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

// answer is what an endpoint said to a request.
type answer struct {
	ok   bool
	only bool          // this message was refused; others may be taken
	code int           // of HTTP; zero: none
	wait time.Duration // it wants to be left alone so long; zero: it does not say
	said string        // for people
	ref  string        // where Slack has the message
}

// keptAnswer is how much of an answer is read.
const keptAnswer = 4 << 10

// request posts JSON. No text for people holds the URL: it may be what lets
// others post there.
func (s *Sender) request(ctx context.Context, target string, body []byte, header http.Header) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if header != nil {
		req.Header = header
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", s.UserAgent)
	hidden := []string{target, req.URL.RequestURI()}
	resp, err := s.Do(req)
	if err != nil {
		return answer{said: s.failure(err, hidden)}, nil
	}
	defer resp.Body.Close()
	a := answer{code: resp.StatusCode, said: fmt.Sprintf("The endpoint answered %d", resp.StatusCode), wait: retryAfter(resp.Header, s.Now())}
	switch {
	case a.code >= 200 && a.code < 300:
		a.ok = true
		a.said += "."
		return a, nil
	case a.code >= 300 && a.code < 400:
		a.said += ", and redirects are not followed: set the URL that it leads to."
		return a, nil
	}
	a.only = onlyThis(a.code)
	told, _ := io.ReadAll(io.LimitReader(resp.Body, keptAnswer)) // what came is enough
	if text := plain(s.JSON.RedactText(string(told), hidden), longText); text != "" {
		a.said += " and said: " + text
	}
	return a, nil
}

// onlyThis reports whether a status of HTTP is about what was sent, and not
// about the endpoint, who sends, or how much.
func onlyThis(code int) bool {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusRequestTimeout, http.StatusGone, http.StatusTooManyRequests:
		return false
	}
	return code >= 400 && code < 500
}

// failure tells people why there was no answer.
func (s *Sender) failure(err error, hidden []string) string {
	var told *action.Error
	var of *url.Error
	switch {
	case errors.As(err, &told):
		return plain(s.JSON.RedactText(told.Message, hidden), longText)
	case errors.Is(err, context.DeadlineExceeded):
		return "The endpoint did not answer within " + s.Timeout.String() + "."
	case errors.As(err, &of):
		err = of.Err
	}
	return plain("The endpoint could not be reached: "+s.JSON.RedactText(err.Error(), hidden), longText)
}

// maxPause is how long an endpoint may ask to be left alone.
const maxPause = time.Hour

// retryAfter reads for how long an endpoint wants to be left alone.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(seconds, 0), int(maxPause/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxPause)
	}
	return 0
}
