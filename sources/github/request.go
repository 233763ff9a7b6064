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

// apiVersion is what the requests and answers here are written for; GitHub
// changes others under a name of their own.
const apiVersion = "2022-11-28"

// request is one to GitHub.
type request struct {
	method string // empty: GET
	path   []string
	query  url.Values
	body   any // nil: none
	about  about
	// fixed: it is of a write, or what the write looks at first, and its
	// repository must not turn out to be another one.
	fixed bool
	again bool // a write that changes nothing more when it comes twice
}

// about is what a request is about, for whoever has to be told that it failed.
type about struct {
	repository        // empty: none
	what       string // such as "issue octocat/hello#1"
	hint       string // what to do when it is not there: "list_issues shows those that are"
}

// send sends the request and reads a good answer into out.
func (r request) send(ctx context.Context, c *sources.Conn, out any) (http.Header, error) {
	header, err := r.exchange(ctx, c, out)
	if r.fixed && r.method == "" {
		err = sources.AsNotExecuted(err)
	}
	return header, err
}

func (r request) exchange(ctx context.Context, c *sources.Conn, out any) (http.Header, error) {
	req, err := r.build(c)
	if err != nil {
		return nil, err
	}
	resp, err := c.HTTP.Do(ctx, req)
	if err != nil {
		return nil, err
	}
	switch {
	case resp.Status >= 500, resp.Status == http.StatusRequestTimeout: // a proxy may say so of what it passed on
		return nil, action.Errorf(action.ErrOutcomeUnknown, sources.FaultFailed, "GitHub failed (%d %s); look there whether it was done before you try again.", resp.Status, http.StatusText(resp.Status))
	case resp.Status >= 400:
		return nil, refusal(resp, r.about)
	case resp.Status >= 300:
		return nil, r.moved(ctx, c, resp)
	}
	if err := json.Unmarshal(resp.Body, out); err != nil {
		return nil, unreadable(err)
	}
	return resp.Header, nil
}

// unreadable is of a good answer that does not say what GitHub's would.
func unreadable(err error) error {
	return action.Errorf(action.ErrOutcomeUnknown, sources.FaultProtocol,
		"GitHub's answer cannot be read; check that the integration's base URL leads to its API (https://HOST/api/v3 on an Enterprise server).").WithCause(err)
}

func (r request) build(c *sources.Conn) (*outbound.Request, error) {
	req := &outbound.Request{
		Method: r.method, Path: outbound.Path(r.path...), Query: r.query, Limited: limited,
		Header: http.Header{
			"Accept":               {"application/vnd.github+json"},
			"Authorization":        {"Bearer " + c.Token},
			"X-Github-Api-Version": {apiVersion},
		},
		NoRedirect: r.fixed,
	}
	if r.method == "" {
		req.Method, req.Repeatable = http.MethodGet, true
		return req, nil
	}
	req.Serial, req.Repeatable = true, r.again
	req.Header.Set("Content-Type", "application/json")
	var err error
	req.Body, err = sources.Encode(r.body)
	return req, err
}

// moved says that a write was led to another repository than the one whose name
// it bears: that is one which nobody allowed. The repository is called otherwise
// now, or its issue was transferred.
func (r request) moved(ctx context.Context, c *sources.Conn, resp *outbound.Response) error {
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
		no.Message = "The " + r.about.thing() + " is in another repository now, and nothing was changed; get_issue still finds it and tells where in html_url."
	default:
		no.Message = "The repository " + r.about.String() + " is called " + sources.Printable(now.Name, 200) + " now, and nothing was changed; call again with that owner and repo."
	}
	return no
}
