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

// ask is one request to Sentry's API.
type ask struct {
	method  string   // empty: GET
	path    []string // segments below /api/0
	query   url.Values
	body    json.RawMessage // nil: none
	scope   string          // that it takes
	missing string          // the sentence for a 404
}

// send asks, and decodes the answer into out. All that this module asks may be
// asked twice: it reads, or it sets states.
func send(ctx context.Context, c *sources.Conn, a ask, out any) (http.Header, error) {
	header := http.Header{"Authorization": {"Bearer " + c.Token}, "Accept": {"application/json"}}
	if a.body != nil {
		header.Set("Content-Type", "application/json")
	}
	if a.method == "" {
		a.method = http.MethodGet
	}
	resp, err := c.HTTP.Do(ctx, &outbound.Request{
		Method: a.method, Path: "/api/0" + outbound.Path(a.path...) + "/", // without the last slash it is redirected
		Query: a.query, Header: header, Body: a.body, Limited: limited,
		Repeatable: true, NoRedirect: a.method != http.MethodGet, // a change was allowed for this one issue
	})
	if err != nil {
		return nil, err
	}
	if resp.Status < 200 || resp.Status > 299 {
		return nil, refuse(resp, a)
	}
	if err := decode(resp.Body, out); err != nil {
		return nil, notSentry(c, err)
	}
	return resp.Header, nil
}

// notSentry is a success that is none of Sentry's.
func notSentry(c *sources.Conn, err error) error {
	return action.Errorf(action.ErrOutcomeUnknown, sources.FaultProtocol,
		"What answered at %s is not Sentry's API; have an admin check the base URL of the connection.", c.HTTP.Base().Host).WithCause(err)
}

// decode keeps numbers as they were written.
func decode(body []byte, out any) error {
	if string(bytes.TrimSpace(body)) == "null" {
		return errors.New("null")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	return d.Decode(out)
}

// next returns the cursor of the next page, empty when there is none. Sentry
// names a next page in any case, and tells by results whether there is one.
func next(h http.Header) string {
	for _, link := range strings.Split(strings.Join(h.Values("Link"), ","), "<")[1:] {
		_, params, _ := strings.Cut(link, ">")
		if value(params, "rel") == "next" && value(params, "results") == "true" {
			return value(params, "cursor")
		}
	}
	return ""
}

// value returns a parameter of a link.
func value(params, name string) string {
	_, rest, _ := strings.Cut(params, "; "+name+`="`)
	text, _, _ := strings.Cut(rest, `"`)
	return text
}

// maxWait is believed of a time of reset; more is a clock that is wrong.
const maxWait = time.Hour

// limited reads Sentry's two limits under one status. Of requests in a window:
// it tells when the window ends. Of requests at a time: one of them ends soon,
// and those that wait must not come back all at once.
func limited(r *outbound.Response) (time.Duration, bool) {
	if r.Status != http.StatusTooManyRequests {
		return 0, false
	}
	soon := time.Second + rand.N(500*time.Millisecond)
	reset, err := strconv.ParseFloat(r.Header.Get("X-Sentry-Rate-Limit-Reset"), 64)
	if left, unread := strconv.Atoi(r.Header.Get("X-Sentry-Rate-Limit-Remaining")); err != nil || unread == nil && left > 0 {
		return soon, true
	}
	wait := reset - float64(at(r).Unix())
	if !(wait > soon.Seconds()) { // not a number, too
		return soon, true
	}
	return time.Duration(min(wait, maxWait.Seconds()) * float64(time.Second)), true
}

// at returns when an answer was made, by the clock that made it.
func at(r *outbound.Response) time.Time {
	if t, err := http.ParseTime(r.Header.Get("Date")); err == nil {
		return t
	}
	return time.Now()
}
