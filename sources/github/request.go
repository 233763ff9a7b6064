package github

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
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
		"GitHub's answer cannot be read. Check that the integration's base URL is that of its API (https://HOST/api/v3 on an Enterprise server).").WithCause(err)
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

// refusal converts a 4xx response to a refusal that says how to fix it.
func refusal(r *outbound.Response, at target) error {
	f := parseError(r.Body)
	no := &sources.Refusal{Status: r.Status, Detail: sources.Printable(f.text(), 1000)}
	switch r.Status {
	case http.StatusUnauthorized:
		no.Credential = true
		no.Message = "GitHub no longer accepts this integration's credential. Ask an admin to connect GitHub again."
	case http.StatusForbidden:
		no.Credential = strings.Contains(strings.ToLower(f.Message), "installation has been suspended")
		no.Message = at.forbidden(r.Header, f)
	case http.StatusNotFound:
		no.Message = fmt.Sprintf("There is no %s, or this connection may not see it; %s.", at.describe(),
			cmp.Or(at.hint, "check the params, or have an admin let the connection see it")) // GitHub hides inaccessible objects
	case http.StatusMethodNotAllowed:
		no.Message = at.unmergeable(f)
	case http.StatusConflict:
		no.Message = at.conflict(f)
	case http.StatusGone:
		no.Message = fmt.Sprintf("There is no %s: it was deleted, or issues are disabled in %s.", at.describe(), at.repository)
	case http.StatusUnprocessableEntity:
		no.Code, no.Message = unprocessable(f)
	default:
		no.Message = fmt.Sprintf("GitHub rejected the request (%d %s). Check the params.", r.Status, http.StatusText(r.Status))
	}
	return no
}

// text returns all text of an error, for logs.
func (f apiError) text() string {
	parts := []string{f.Message}
	for _, d := range f.details() {
		parts = append(parts, strings.Join(strings.Fields(strings.Join([]string{d.Resource, d.Field, d.Code, d.Message}, " ")), " "))
	}
	return strings.TrimSpace(strings.Join(parts, "; "))
}

func (f apiError) contains(text string) bool {
	return strings.Contains(strings.ToLower(f.text()), text)
}

func (a target) describe() string { return cmp.Or(a.description, "such thing") }

func (a target) forbidden(h http.Header, f apiError) string {
	switch {
	case h.Get("X-Github-Sso") != "":
		return "The organization requires single sign-on for this token. Its owner must authorize it for the organization in GitHub's settings."
	case f.contains("archived"):
		return fmt.Sprintf("The repository %s is archived and read-only. Ask someone to unarchive it, or use another.", a.repository)
	case f.contains("suspended"):
		return "The account or the installation of the GitHub App is suspended. Ask an admin to check it on GitHub."
	case f.contains("ip allow list"):
		return "The organization's IP allow list does not include the gateway's address. Ask its admin to add it."
	}
	if needed := sources.Printable(h.Get("X-Accepted-Github-Permissions"), 200); needed != "" {
		return fmt.Sprintf("This connection may not do that on GitHub; have an admin give its token or app the permission %s.", needed)
	}
	needed, has := sources.Printable(h.Get("X-Accepted-Oauth-Scopes"), 200), h.Get("X-Oauth-Scopes")
	if needed != "" && !slices.ContainsFunc(strings.Split(needed, ","), func(scope string) bool {
		return slices.Contains(strings.Split(strings.ReplaceAll(has, " ", ""), ","), strings.TrimSpace(scope))
	}) {
		return fmt.Sprintf("This connection's token lacks a scope; have an admin connect GitHub again with one of %s.", needed)
	}
	return fmt.Sprintf("This connection may not do that with %s on GitHub; have an admin give it the permission, or do it where it has it.", a.describe())
}

func (a target) unmergeable(f apiError) string {
	switch {
	case f.contains("merges are not allowed"), f.contains("merge commits are not allowed"), f.contains("rebase merging is not allowed"):
		return "The repository does not allow this way of merging; choose another /merge_method."
	case f.contains("draft"):
		return fmt.Sprintf("The %s is a draft; have it marked as ready for review first.", a.describe())
	case f.contains("review"):
		return fmt.Sprintf("The %s lacks a review that its base branch requires; have it reviewed first.", a.describe())
	case f.contains("status check"):
		return fmt.Sprintf("A check that the base branch of the %s requires has not passed; wait for it, or mend what it found.", a.describe())
	}
	return fmt.Sprintf("The %s cannot be merged now: it has conflicts, is closed, or a rule of its base branch is not met; get_pr shows its mergeable_state.", a.describe())
}

func (a target) conflict(f apiError) string {
	switch {
	case f.contains("head branch was modified"), f.contains("head sha"):
		return fmt.Sprintf("The head of the %s has moved since /sha, and nothing was merged; look at what was added with get_pr, and have it approved again with the new head_sha.", a.describe())
	case f.contains("empty"):
		return fmt.Sprintf("The repository %s has no commit yet; a first one has to be pushed before it can have branches.", a.repository)
	}
	return fmt.Sprintf("GitHub could not do that with %s as it is now (409); look at its state and call again.", a.describe())
}

// unprocessable names the params that GitHub rejects.
func unprocessable(f apiError) (code, message string) {
	details := f.details()
	for _, d := range details {
		if code == "" && isIdentifier(d.Code) {
			code = d.Code
		}
	}
	switch {
	case f.contains("reference already exists"):
		return "already_exists", "There is a branch of that name already; choose another /branch, or work on the one that is there."
	case f.contains("a pull request already exists"):
		return "already_exists", "There is an open pull request of this /head already; find it with list_prs and its head, and go on with that."
	case f.contains("no commits between"):
		return "no_commits", "There is nothing in /head that is not in /base; push a commit to /head first."
	case f.contains("object does not exist"):
		return "unknown_sha", "There is no commit with this /sha in the repository; give the full id of one that was pushed."
	case f.contains("spammed"), f.contains("submitted too quickly"):
		return code, "GitHub considers this spam. Do not send it again, and tell the user."
	}
	for _, d := range details {
		if isIdentifier(d.Field) {
			param := cmp.Or(map[string]string{"ref": "branch", "commit_id": "sha", "commit": "sha"}[d.Field], d.Field)
			problem := cmp.Or(map[string]string{
				"missing": "it names something that does not exist", "missing_field": "it is missing", "already_exists": "it already exists",
			}[d.Code], "it is not valid here; check that what it names exists and may be used")
			return code, fmt.Sprintf("GitHub rejected the param /%s: %s.", param, problem)
		}
	}
	return code, "GitHub rejected the params (422). Check the names of branches, labels, people and milestones."
}

// isIdentifier reports whether a string is an identifier and not free text.
func isIdentifier(word string) bool {
	return 0 < len(word) && len(word) <= 40 && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_") == ""
}

// Backoff when GitHub does not specify one, and its upper bound.
const (
	defaultWait = time.Minute
	maxWait     = 2 * time.Hour
)

// rateLimited distinguishes GitHub's two rate limits from a refusal, which can
// have the same status. The primary limit counts requests per hour and resets
// at a stated time. The secondary limit is on the request rate, and clients
// that ignore it are banned.
func rateLimited(r *outbound.Response) (time.Duration, bool) {
	if r.Status != http.StatusForbidden && r.Status != http.StatusTooManyRequests {
		return 0, false
	}
	seconds, err := strconv.ParseUint(r.Header.Get("Retry-After"), 10, 31)
	after, asked := time.Duration(seconds)*time.Second, err == nil
	f := parseError(r.Body)
	text := strings.ToLower(f.Message)
	secondary := strings.HasSuffix(f.Documentation, "secondary-rate-limits") || strings.HasSuffix(f.Documentation, "#abuse-rate-limits") ||
		strings.Contains(text, "secondary rate limit") || strings.Contains(text, "abuse detection")
	switch {
	case asked && (secondary || r.Status == http.StatusTooManyRequests):
		return clampWait(after), true
	case r.Header.Get("X-Ratelimit-Remaining") == "0" && !isPermissionError(r):
		return clampWait(untilReset(r.Header)), true
	case asked && !isPermissionError(r), secondary, r.Status == http.StatusTooManyRequests:
		return clampWait(max(after, defaultWait)), true
	}
	return 0, false
}

func clampWait(wait time.Duration) time.Duration { return min(max(wait, time.Second), maxWait) }

// isPermissionError reports whether a 403 states a reason other than a rate
// limit. The last request before a limit can also lack a permission.
func isPermissionError(r *outbound.Response) bool {
	return r.Status == http.StatusForbidden &&
		(r.Header.Get("X-Github-Sso") != "" || strings.HasPrefix(parseError(r.Body).Message, "Resource not accessible"))
}

// untilReset returns the time until the reset by GitHub's clock, if the
// response has a date.
func untilReset(h http.Header) time.Duration {
	reset, err := strconv.ParseInt(h.Get("X-Ratelimit-Reset"), 10, 64)
	if err != nil {
		return defaultWait
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return time.Unix(reset, 0).Sub(now)
}

// apiError is the body of an unsuccessful response.
type apiError struct {
	Message       string          `json:"message"`
	Documentation string          `json:"documentation_url"`
	Errors        json.RawMessage `json:"errors"` // of varying form
}

// errorDetail is one of the errors in an apiError.
type errorDetail struct {
	Resource string `json:"resource"`
	Field    string `json:"field"`
	Code     string `json:"code"`
	Message  string `json:"message"`
}

// parseError decodes an error, or returns an empty one.
func parseError(body []byte) apiError {
	var f apiError
	if json.Unmarshal(body, &f) != nil {
		return apiError{}
	}
	return f
}

// details returns the errors. GitHub sends some as plain strings.
func (f apiError) details() []errorDetail {
	var list []json.RawMessage
	if json.Unmarshal(f.Errors, &list) != nil {
		list = []json.RawMessage{f.Errors}
	}
	var details []errorDetail
	for _, raw := range list {
		var d errorDetail
		if json.Unmarshal(raw, &d) == nil || json.Unmarshal(raw, &d.Message) == nil {
			details = append(details, d)
		}
	}
	return details
}
