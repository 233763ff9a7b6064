package sentry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/sources"
)

// request is one request to Sentry's API.
type request struct {
	method  string   // default GET
	path    []string // segments below /api/0
	query   url.Values
	body    json.RawMessage // nil for none
	scope   string          // the scope it requires
	missing string          // the message for a 404
}

// send sends a request and decodes the response into out. Every request is
// idempotent: it reads, or it sets state.
func send(ctx context.Context, c *sources.Conn, a request, out any) (http.Header, error) {
	header := http.Header{"Authorization": {"Bearer " + c.Token}, "Accept": {"application/json"}}
	if a.body != nil {
		header.Set("Content-Type", "application/json")
	}
	if a.method == "" {
		a.method = http.MethodGet
	}
	resp, err := c.HTTP.Do(ctx, &outbound.Request{
		Method: a.method, Path: "/api/0" + outbound.Path(a.path...) + "/", // the API redirects without a trailing slash
		Query: a.query, Header: header, Body: a.body, Limited: rateLimited,
		Repeatable: true, NoRedirect: a.method != http.MethodGet, // the approval covers this issue only
	})
	if err != nil {
		return nil, err
	}
	if resp.Status < 200 || resp.Status > 299 {
		return nil, responseError(resp, a)
	}
	if err := decode(resp.Body, out); err != nil {
		return nil, invalidResponse(c, err)
	}
	return resp.Header, nil
}

// invalidResponse is the error for a successful response that does not come
// from Sentry.
func invalidResponse(c *sources.Conn, err error) error {
	return action.Errorf(action.ErrOutcomeUnknown, sources.FaultProtocol,
		"What answered at %s is not Sentry's API; have an admin check the base URL of the connection.", c.HTTP.Base().Host).WithCause(err)
}

// decode keeps numbers as written.
func decode(body []byte, out any) error {
	if string(bytes.TrimSpace(body)) == "null" {
		return errors.New("null")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	return d.Decode(out)
}

// nextCursor returns the cursor of the next page, or "". Sentry always sends a
// next link; its results attribute says whether there is a next page.
func nextCursor(h http.Header) string {
	for _, link := range strings.Split(strings.Join(h.Values("Link"), ","), "<")[1:] {
		_, params, _ := strings.Cut(link, ">")
		if linkParam(params, "rel") == "next" && linkParam(params, "results") == "true" {
			return linkParam(params, "cursor")
		}
	}
	return ""
}

// linkParam returns a parameter of a Link header.
func linkParam(params, name string) string {
	_, rest, _ := strings.Cut(params, "; "+name+`="`)
	text, _, _ := strings.Cut(rest, `"`)
	return text
}

// maxWait bounds the wait for a reset; a larger value indicates a wrong clock.
const maxWait = time.Hour

// rateLimited recognizes Sentry's two limits, which share a status. For the
// limit per window, wait until the window resets. For the concurrency limit,
// retry soon, with jitter to avoid a thundering herd.
func rateLimited(r *outbound.Response) (time.Duration, bool) {
	if r.Status != http.StatusTooManyRequests {
		return 0, false
	}
	soon := time.Second + rand.N(500*time.Millisecond)
	reset, err := strconv.ParseFloat(r.Header.Get("X-Sentry-Rate-Limit-Reset"), 64)
	if left, parseErr := strconv.Atoi(r.Header.Get("X-Sentry-Rate-Limit-Remaining")); err != nil || parseErr == nil && left > 0 {
		return soon, true
	}
	wait := reset - float64(responseTime(r).Unix())
	if !(wait > soon.Seconds()) { // also true for NaN
		return soon, true
	}
	return time.Duration(min(wait, maxWait.Seconds()) * float64(time.Second)), true
}

// responseTime returns the server's time of the response.
func responseTime(r *outbound.Response) time.Time {
	if t, err := http.ParseTime(r.Header.Get("Date")); err == nil {
		return t
	}
	return time.Now()
}
