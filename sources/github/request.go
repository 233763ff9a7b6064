package github

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/sources"
)

// apiVersion is the REST API version that this module implements.
const apiVersion = "2022-11-28"

// request is an API request.
type request struct {
	method string // default GET
	path   []string
	query  url.Values
	body   any // nil for none
	about  target
	// noRename marks a write, or a read before a write: redirects to a renamed
	// repository are rejected.
	noRename   bool
	idempotent bool // a write that can be repeated
}

// target describes the object of a request in error messages.
type target struct {
	repository         // empty: none
	description string // such as "issue octocat/hello#1"
	hint        string // how to find the right object, such as "list_issues shows those that are"
}

// send sends the request and decodes a successful response into out.
func (r request) send(ctx context.Context, c *sources.Conn, out any) (http.Header, error) {
	header, err := r.roundTrip(ctx, c, out)
	if r.noRename && r.method == "" {
		err = sources.AsNotExecuted(err)
	}
	return header, err
}

func (r request) roundTrip(ctx context.Context, c *sources.Conn, out any) (http.Header, error) {
	req, err := r.build(c)
	if err != nil {
		return nil, err
	}
	resp, err := c.HTTP.Do(ctx, req)
	if err != nil {
		return nil, err
	}
	switch {
	case resp.Status >= 500, resp.Status == http.StatusRequestTimeout: // a proxy can report this for a request that reached GitHub
		return nil, action.Errorf(action.ErrOutcomeUnknown, sources.FaultFailed, "GitHub failed (%d %s); look there whether it was done before you try again.", resp.Status, http.StatusText(resp.Status))
	case resp.Status >= 400:
		return nil, refusal(resp, r.about)
	case resp.Status >= 300:
		return nil, r.movedError(ctx, c, resp)
	}
	if err := json.Unmarshal(resp.Body, out); err != nil {
		return nil, invalidResponse(err)
	}
	return resp.Header, nil
}

// invalidResponse is the error for a successful response without the expected
// content.
func invalidResponse(err error) error {
	return action.Errorf(action.ErrOutcomeUnknown, sources.FaultProtocol,
		"GitHub's answer cannot be read; check that the integration's base URL leads to its API (https://HOST/api/v3 on an Enterprise server).").WithCause(err)
}

func (r request) build(c *sources.Conn) (*outbound.Request, error) {
	req := &outbound.Request{
		Method: r.method, Path: outbound.Path(r.path...), Query: r.query, Limited: rateLimited,
		Header: http.Header{
			"Accept":               {"application/vnd.github+json"},
			"Authorization":        {"Bearer " + c.Token},
			"X-Github-Api-Version": {apiVersion},
		},
		NoRedirect: r.noRename,
	}
	if r.method == "" {
		req.Method, req.Repeatable = http.MethodGet, true
		return req, nil
	}
	req.Serial, req.Repeatable = true, r.idempotent
	req.Header.Set("Content-Type", "application/json")
	var err error
	req.Body, err = sources.Encode(r.body)
	return req, err
}

// movedError refuses a write that was redirected to another repository, because
// approval covered the named one. The repository was renamed, or the issue
// transferred.
func (r request) movedError(ctx context.Context, c *sources.Conn, resp *outbound.Response) error {
	no := &sources.Refusal{
		Code: "repository_moved", Status: resp.Status,
		Message: "The repository " + r.about.String() + " has another name now, and nothing was changed; ask for its new name with get_repo, and call again with that.",
	}
	var now struct {
		Name string `json:"full_name"`
	}
	_, err := request{path: r.about.path(), about: r.about}.send(ctx, c, &now)
	switch {
	case err != nil, now.Name == "":
	case strings.EqualFold(now.Name, r.about.String()):
		no.Code = "moved"
		no.Message = "The " + r.about.describe() + " is in another repository now, and nothing was changed; get_issue still finds it and tells where in html_url."
	default:
		no.Message = "The repository " + r.about.String() + " is called " + sources.Printable(now.Name, 200) + " now, and nothing was changed; call again with that owner and repo."
	}
	return no
}
