package slack

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sallyport/internal/outbound"
	"sallyport/sources"
)

// call is one API request: a POST with a JSON body, or a GET with a query for
// read methods, which accept no JSON.
type call struct {
	method     string
	query      url.Values
	body       []byte
	repeatable bool // safe to retry
}

// postsMessage reports whether the call posts a message. All other calls can be
// retried.
func (k call) postsMessage() bool { return !k.repeatable }

// callAPI sends a call, decodes a successful response into out and returns the
// response header.
func callAPI(ctx context.Context, c *sources.Conn, k call, out any) (http.Header, error) {
	r := &outbound.Request{
		Method: http.MethodGet, Path: "/" + k.method, Query: k.query, Body: k.body,
		Header:     http.Header{"Authorization": {"Bearer " + c.Token}, "Accept": {"application/json"}},
		Repeatable: k.repeatable, Limited: rateLimited,
	}
	if k.body != nil {
		r.Method = http.MethodPost
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
	}
	resp, err := c.HTTP.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := checkResponse(resp, k.postsMessage()); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(resp.Body, out); err != nil {
		return nil, outcomeUnknown(resp.Status, err.Error(), k.postsMessage())
	}
	return resp.Header, nil
}

// apiResponse holds the fields of every response. Apart from 429, the HTTP
// status is not meaningful.
type apiResponse struct {
	OK       *bool  `json:"ok"`
	Error    string `json:"error"`
	Needed   string `json:"needed"`
	Provided string `json:"provided"`
}

func parseResponse(resp *outbound.Response) (v apiResponse) {
	if json.Unmarshal(resp.Body, &v) != nil {
		return apiResponse{}
	}
	return v
}

// rateLimited recognizes both of Slack's rate limit responses. Neither posts
// the message.
func rateLimited(resp *outbound.Response) (time.Duration, bool) {
	v := parseResponse(resp)
	flagged := v.OK != nil && !*v.OK && (v.Error == "ratelimited" || v.Error == "rate_limited")
	if !flagged && resp.Status != http.StatusTooManyRequests {
		return 0, false
	}
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil {
		return 0, true
	}
	return time.Duration(min(max(seconds, 0), maxWait)) * time.Second, true
}

// maxWait bounds Retry-After, in seconds, to prevent overflow.
const maxWait = 24 * 60 * 60
