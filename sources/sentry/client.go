package sentry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
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
		"The server at %s is not Sentry's API. Ask an admin to check the base URL of the connection.", c.HTTP.Base().Host).WithCause(err)
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
	now, err := http.ParseTime(r.Header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	wait := reset - float64(now.Unix())
	if !(wait > soon.Seconds()) { // also true for NaN
		return soon, true
	}
	return time.Duration(min(wait, maxWait.Seconds()) * float64(time.Second)), true
}

// responseError converts an unsuccessful response to an error.
func responseError(r *outbound.Response, a request) error {
	if r.Status >= 500 {
		return action.Errorf(action.ErrOutcomeUnknown, sources.FaultFailed,
			"Sentry failed (HTTP %d). Retry later, and read an issue before you repeat a change of it.", r.Status)
	}
	code, text, fields := parseError(r.Body)
	refusal := &sources.Refusal{Code: code, Status: r.Status, Detail: text}
	switch {
	case r.Status == http.StatusUnauthorized && strings.HasSuffix(code, "-required"):
		// sso-required, sudo-required, 2fa-required: the credential is valid.
		refusal.Message = "Sentry requires its user to sign in there in another way first. Ask an admin to connect Sentry with a token of an internal integration."
	case r.Status == http.StatusUnauthorized:
		refusal.Credential = true
		refusal.Message = "Sentry no longer accepts the credential of this connection. Ask an admin to connect Sentry again."
	case r.Status == http.StatusForbidden:
		refusal.Message = fmt.Sprintf("The credential of this connection may not do that: it lacks the scope %s, or access to the project; have an admin connect Sentry with it.", a.scope)
	case r.Status == http.StatusNotFound:
		refusal.Message = a.missing
	case r.Status >= 300 && r.Status < 400:
		refusal.Message = "Sentry redirects this request. Ask an admin to set the base URL of the connection to the organization's region, such as https://de.sentry.io."
	case len(fields) > 0:
		refusal.Message = fmt.Sprintf("Sentry rejected %s. Correct it and call again.", strings.Join(fields, " and "))
	case a.query.Has("query"):
		refusal.Message = fmt.Sprintf("Sentry refuses this (HTTP %d); check query, which must be in Sentry's search syntax, and the other params.", r.Status)
	default:
		refusal.Message = fmt.Sprintf("Sentry refuses this (HTTP %d); check the params.", r.Status)
	}
	return refusal
}

// parseError returns the code and the text of an error, bounded and printable,
// and the params it concerns. Sentry sends {"detail": "text"}, {"detail":
// {"code", "message"}}, a bare string, or an object of invalid fields. The text
// can hold user content and is for people only.
func parseError(body []byte) (code, text string, params []string) {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return "", "", nil
	}
	if fields, ok := v.(object); ok {
		if v, ok = fields["detail"]; !ok {
			return "", sources.Printable(string(body), maxErrorText), paramNames(fields)
		}
	}
	switch v := v.(type) {
	case string:
		text = v
	case object:
		code, _ = v["code"].(string)
		text, _ = v["message"].(string)
	}
	return sources.ValidID(code), sources.Printable(text, maxErrorText), nil
}

const maxErrorText = 300

// paramNames returns the params that correspond to the fields.
func paramNames(fields object) (params []string) {
	known := map[string]string{
		"query": "query", "sort": "sort", "statsPeriod": "statsPeriod", "environment": "environment",
		"project": "project_slug", "cursor": "cursor", "limit": "limit", "per_page": "limit",
	}
	for _, name := range mutableParams {
		known[name] = name
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if name, ok := known[field]; ok {
			params = append(params, name)
		}
	}
	return params
}
