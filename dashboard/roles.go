package dashboard

import (
	"sallyport/action"
	"sallyport/api"
)

// roleTable declares who may open each page and public route; operations of the
// API declare it in package api. A person is a browser login or an API key with
// its role, but pages (all routes outside /api) accept browser logins only. A
// session is an agent with its token. A worker key opens routes for workers and
// its own identity.
//
// Handlers add: a member creates plain sessions only and renames only their own;
// a private integration is changed by its owner, a shared one by admins (see
// view.Manages); only an owner adds, changes or removes owners (see
// [Principal.Outranks]); and the store may keep the creator of a session from
// deciding for it.
func roleTable() map[string]api.Access {
	return map[string]api.Access{
		"GET /{$}":                     api.Member,
		"GET /inbox/more":              api.Member,
		"GET /inbox/cards":             api.Member,
		"GET /inbox/count":             api.Member,
		"GET /inbox/waiters":           api.Member,
		"GET /inbox/requests":          api.Member,
		"GET /inbox/{id}":              api.Member,
		"GET /inbox/{id}/grant":        api.Decider,
		"GET /inbox/{id}/params":       api.Decider,
		"GET /overview":                api.Member,
		"GET /activity":                api.Member,
		"GET /invocations/{id}":        api.Member,
		"GET /connectors":              api.Member,
		"GET /connectors/new":          api.Decider,
		"GET /connectors/{id}":         api.Member,
		"GET /integrations":            api.Member,
		"GET /integrations/{provider}": api.Member,
		"GET /secrets":                 api.Member,

		"GET /automations":         api.Member,
		"GET /automations/{id}":    api.Member,
		"GET /triggers":            api.Member,
		"GET /triggers/new":        api.Decider,
		"GET /triggers/{id}":       api.Member,
		"GET /schedules":           api.Member,
		"GET /runs":                api.Member,
		"GET /runs/{id}":           api.Member,
		"GET /events":              api.Member,
		"GET /events/{id}":         api.Member,
		"GET /events/{id}/context": api.Decider,
		"GET /deliveries":          api.Decider,
		"GET /deliveries/{id}":     api.Decider,

		"GET /policy":                 api.Member,
		"GET /policy/actions":         api.Member,
		"GET /policy/answer":          api.Member,
		"GET /policy/removed":         api.Member,
		"GET /audit":                  api.Member,
		"GET /grants":                 api.Member,
		"GET /sessions":               api.Member,
		"GET /sessions/{id}/evidence": api.Member,
		"GET /env-requests/{id}":      api.Member,
		"GET /people":                 api.Member,
		"GET /settings":               api.Member,
		"GET /settings/{rest...}":     api.Member,

		"GET /api/v1/openapi.json": api.Public,
		"GET /healthz":             api.Public,
		"GET /readyz":              api.Public,
		"GET /login":               api.Public,
		"GET /login/oidc":          api.Public,
		"GET /login/oidc/callback": api.Public,
		"POST /login":              api.Public,
		"GET /oauth/callback":      api.Public,
		"GET /oauth/client.json":   api.Public,
		"POST /logout":             api.Public,
		"GET /assets/{file}":       api.Public,

		"GET /oauth/callback/{provider}": api.Public,
	}
}

// Permit returns nil if the principal may use a route with that access. Session
// is the session in the route's path, or empty.
func Permit(a api.Access, p *Principal, session string) error {
	if p.Session != nil {
		return permitSession(a, p.Session, session)
	}
	if p.Scope == action.ScopeRuns {
		return permitKey(a, p)
	}
	switch {
	case a == api.Anyone, a == api.Listener, a == api.Audience, a == api.Member, a == api.Reader:
		return nil
	case a == api.Agent, a == api.Caller:
		return action.NewError("session_only")
	case isDeciderOnly(a) && p.Role.Decides(), a == api.Owner && p.Role == action.RoleOwner:
		return nil
	case a == api.Hosted && p.hostToken:
		return nil
	case a == api.Hosted:
		return action.NewError("host_only")
	case a == api.Owner:
		return action.Errorf(action.ErrForbidden, "owner_required", "Only an owner may do this; ask one of the organization.")
	case isDeciderOnly(a):
		return action.Errorf(action.ErrForbidden, "role_required",
			"A %s may not do this; ask an owner or admin of the organization.", p.Role)
	}
	return action.NewError("forbidden")
}

// isDeciderOnly reports whether of all people only owners and admins may.
func isDeciderOnly(a api.Access) bool {
	return a == api.Decider || a == api.Approver || a == api.Worker || a == api.Holder
}

// permitKey limits a worker key to runs, while the person who created it may
// still decide: claiming a run creates a session of its automation.
func permitKey(a api.Access, p *Principal) error {
	switch {
	case a == api.Anyone, (a == api.Worker || a == api.Holder) && p.runsAllowed:
		return nil
	case a == api.Worker, a == api.Holder:
		return action.Errorf(action.ErrForbidden, "role_required", "Whoever made this key for workers decides nothing any more; ask an owner or admin for another.")
	}
	return action.NewError("scope_required")
}

func permitSession(a api.Access, own *action.Session, session string) error {
	switch a {
	case api.Anyone, api.Listener, api.Holder, api.Reader, api.Caller: // the owner of the run is checked in [Server.permit]
		return nil
	case api.Agent, api.Audience, api.Approver:
		if session == own.ID {
			return nil
		}
		return action.Errorf(action.ErrForbidden, "other_session", "This token belongs to another session; use the path of its own.")
	}
	return action.NewError("people_only")
}

// Outranks returns nil if the principal may add, change or act for a user with
// that role: only owners manage owners.
func (p *Principal) Outranks(role action.Role) error {
	if p.Role == action.RoleOwner || role != action.RoleOwner {
		return nil
	}
	return action.Errorf(action.ErrForbidden, "owner_required", "Only an owner may do this for an owner.")
}
