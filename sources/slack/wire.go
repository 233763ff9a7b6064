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

// call is one request to a method. With a body it is a POST of JSON, which
// methods that only read do not take; else a GET with the query.
type call struct {
	method     string
	query      url.Values
	body       []byte
	repeatable bool // sent twice it does no more than once
}

// message reports whether the call sends one. All others can be repeated.
func (k call) message() bool { return !k.repeatable }

// ask sends a call, reads a success into out, and returns the answer's header.
func ask(ctx context.Context, c *sources.Conn, k call, out any) (http.Header, error) {
	r := &outbound.Request{
		Method: http.MethodGet, Path: "/" + k.method, Query: k.query, Body: k.body,
		Header:     http.Header{"Authorization": {"Bearer " + c.Token}, "Accept": {"application/json"}},
		Repeatable: k.repeatable, Limited: limited,
	}
	if k.body != nil {
		r.Method = http.MethodPost
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
	}
	resp, err := c.HTTP.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := success(resp, k.message()); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(resp.Body, out); err != nil {
		return nil, uncertain(resp.Status, err.Error(), k.message())
	}
	return resp.Header, nil
}

// verdict is what every answer has. The HTTP status says nothing but 429.
type verdict struct {
	OK       *bool  `json:"ok"`
	Error    string `json:"error"`
	Needed   string `json:"needed"`
	Provided string `json:"provided"`
}

func read(resp *outbound.Response) (v verdict) {
	if json.Unmarshal(resp.Body, &v) != nil {
		return verdict{}
	}
	return v
}

// limited recognizes both ways in which Slack asks for fewer requests. Neither
// posted anything.
func limited(resp *outbound.Response) (time.Duration, bool) {
	v := read(resp)
	told := v.OK != nil && !*v.OK && (v.Error == "ratelimited" || v.Error == "rate_limited")
	if !told && resp.Status != http.StatusTooManyRequests {
		return 0, false
	}
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil {
		return 0, true
	}
	return time.Duration(min(max(seconds, 0), maxWait)) * time.Second, true
}

// maxWait keeps a nonsensical wait from overflowing, in seconds.
const maxWait = 24 * 60 * 60
