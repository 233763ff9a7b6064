package dashboard

import (
	"context"
	"errors"
	"fmt"

	"sallyport/action"
)

// listed adds to the error of something that is not there where all that is
// can be seen.
func listed(p *Principal, err error) error {
	e := action.Public(err)
	if !errors.Is(err, action.ErrNotFound) {
		return err
	}
	var path string
	switch e.Code {
	case "invocation_not_found", "unknown_invocation", "no_such_invocation":
		path = "/api/v1/invocations"
		if p.Session != nil {
			path = "/api/v1/sessions/" + p.Session.ID + "/actions/invocations"
		}
	case "grant_not_found":
		path = "/api/v1/grants"
	case "grant_request_not_found":
		path = "/api/v1/grant-requests"
	case "env_request_not_found":
		path = "/api/v1/env-requests"
	case "upload_not_found":
		if p.Session == nil {
			return err
		}
		path = "/api/v1/sessions/" + p.Session.ID + "/evidence"
	case "gate_not_found":
		path = "/api/v1/gates"
	case "session_not_found":
		path = "/api/v1/sessions"
	case "integration_not_found":
		path = "/api/v1/integrations"
	case "no_such_source":
		if p.Session == nil {
			return err
		}
		out := *e // agents do not learn what there is beside what they may call
		out.Message = "No source is called so; GET /api/v1/sessions/" + p.Session.ID + "/actions/available lists what you may call."
		return &out
	default:
		return err
	}
	out := *e
	out.Message += " GET " + path + " lists those that there are."
	return &out
}

// undecided says why an invocation could not be decided; it looks whether
// there is a request for a grant of that id, as both wait in one inbox.
func (s *Server) undecided(ctx context.Context, p *Principal, id string, err error) error {
	if !errors.Is(err, action.ErrNotFound) {
		return named(err, id)
	}
	if _, missing := s.Policy.GrantRequest(ctx, p.Organization, id); missing != nil {
		return named(err, id)
	}
	return &action.Error{
		Kind: action.ErrNotFound, Code: "is_grant_request",
		Message: fmt.Sprintf("This is a request for a grant, and no held call; decide it under /api/v1/grant-requests/%s.", id),
	}
}
