package linear

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"sallyport/action"
	"sallyport/sources"
)

// codeLimited is Linear's code of an answer that wants fewer requests.
const codeLimited = "RATELIMITED"

// problem is one error of an answer.
type problem struct {
	Message    string `json:"message"`
	Extensions struct {
		Code    string `json:"code"`
		Type    string `json:"type"`
		Message string `json:"userPresentableMessage"`
		Meta    struct {
			Result struct {
				Duration float64 `json:"duration"` // milliseconds
			} `json:"rateLimitResult"`
		} `json:"meta"`
		Validation []invalid `json:"validationErrors"`
		Exception  struct {
			Validation []invalid `json:"validationErrors"`
		} `json:"exception"`
	} `json:"extensions"`
}

// invalid is one input field that Linear does not take.
type invalid struct {
	Property string `json:"property"`
}

// refusal says what an answer that is no success means. What Linear itself
// could not do may have been done all the same.
func (a answer) refusal(status int) error {
	if len(a.Errors) == 0 {
		return plainRefusal(status)
	}
	p := a.Errors[0]
	if p.uncertain(status) {
		return uncertain(status, p.detail())
	}
	r := &sources.Refusal{Code: cmp.Or(p.Extensions.Code, p.Extensions.Type), Status: status, Detail: p.detail()}
	switch kind := strings.ToLower(p.Extensions.Type); {
	case kind == "authentication error" || r.Code == "AUTHENTICATION_ERROR" || status == http.StatusUnauthorized:
		r.Credential, r.Message = true, badCredential
	case kind == "forbidden" || r.Code == "FORBIDDEN" || status == http.StatusForbidden:
		r.Message = noAccess
	case kind == "feature not accessible" || r.Code == "FEATURE_NOT_ACCESSIBLE":
		r.Message = "The workspace's plan has no such feature; do it without, or ask an admin of the workspace."
	case kind == "usage limit exceeded" || r.Code == "USAGE_LIMIT_EXCEEDED":
		r.Message = "The workspace has used up its plan, such as its number of issues; an admin of the workspace must free or extend it."
	case p.missing() != "":
		r.Message = notFound(p.missing())
	case len(p.params()) > 0:
		r.Message = fmt.Sprintf("%s has a value that Linear does not take; correct it and call again. Ids are UUIDs, as the other actions return them.", strings.Join(p.params(), " and "))
	default:
		r.Message = "Linear does not take this request as it is; check the params against what get_issue and list_issues return."
	}
	return r
}

const (
	badCredential = "Linear does not accept the credential of this integration any more; a person must connect it again."
	noAccess      = "The credential may not do this: it lacks the scope (read, write) or access to the team; use another team's issue, or ask an admin to connect Linear with more rights."
)

// plainRefusal is of an answer without errors in it: a proxy's, or no Linear's.
func plainRefusal(status int) error {
	r := &sources.Refusal{Status: status}
	switch {
	case status == http.StatusUnauthorized:
		r.Credential, r.Message = true, badCredential
	case status == http.StatusForbidden:
		r.Message = noAccess
	case status >= http.StatusBadRequest && status < http.StatusInternalServerError && status != http.StatusRequestTimeout:
		r.Message = "What answers is not Linear's API; an admin must check the base URL of the integration."
	default:
		return uncertain(status, "")
	}
	return r
}

func uncertain(status int, detail string) error {
	return action.Errorf(action.ErrOutcomeUnknown, "upstream_failed",
		"Linear failed within itself (status %d), and whether it did what was asked is not known. Look before calling again.", status).WithCause(fmt.Errorf("linear: %.300s", detail))
}

// uncertain reports whether the error is Linear's own trouble.
func (p problem) uncertain(status int) bool {
	switch strings.ToLower(p.Extensions.Type) {
	case "internal error", "network error", "lock timeout", "bootstrap error":
		return true
	}
	return p.Extensions.Code == "INTERNAL_SERVER_ERROR" || status >= http.StatusInternalServerError
}

func (p problem) detail() string {
	return strings.TrimSpace(p.Message + " " + p.Extensions.Message)
}

// missing returns what kind of thing was not found, if that is the trouble.
func (p problem) missing() string {
	kind, found := strings.CutPrefix(p.Message, "Entity not found: ")
	if !found {
		return ""
	}
	word := strings.IndexFunc(kind, func(r rune) bool { return r < 'A' || r > 'z' })
	if word < 0 {
		word = len(kind)
	}
	return cmp.Or(kind[:word], "entity")
}

// params returns those of ours that Linear's input fields are, which have the
// same names.
func (p problem) params() (names []string) {
	for _, v := range append(p.Extensions.Validation, p.Extensions.Exception.Validation...) {
		switch v.Property {
		case "teamId", "projectId", "stateId", "assigneeId", "labelIds", "addedLabelIds", "removedLabelIds",
			"issueId", "priority", "title", "description", "body":
			names = append(names, v.Property)
		case "id":
			names = append(names, "issueId")
		}
	}
	return names
}

// notFound says what to do about a thing that is not there, or that the
// credential may not see: Linear does not tell these apart.
func notFound(kind string) string {
	switch kind {
	case "Issue":
		return "There is no such issue, or this credential may not see it; correct issueId, or find the issue with list_issues."
	case "Team":
		return "There is no such team, or this credential may not see it; correct teamId: list_issues shows each issue's team with its id and key."
	case "WorkflowState":
		return "There is no such state; correct stateId: get_issue lists the states of the issue's team, with their ids."
	case "User":
		return "There is no such user; correct assigneeId: list_issues shows assignees with their ids."
	case "IssueLabel":
		return "There is no such label for this team; correct the label ids: list_issues shows labels with their ids."
	case "Project":
		return "There is no such project, or this credential may not see it; correct projectId: list_issues shows each issue's project with its id."
	}
	return "One of the ids names nothing that this credential may see; correct it: get_issue and list_issues show ids."
}
