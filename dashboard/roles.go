package dashboard

import "sallyport/action"

// access says who may use a route. The zero value is nobody.
type access int

const (
	nobody   access = iota
	public          // everybody, without a credential
	anyone          // any good credential
	agent           // the session of the path, with its own token
	audience        // that session, or any person of its organization
	approver        // that session, or a person who decides
	member          // any person
	decider         // an owner or admin
	owner           // an owner
)

// table is the one place that says who may do what. A person is a browser
// login or an API key with its role, but that pages (all that is not under
// /api) know browsers alone; a session is an agent with its token. Beyond it,
// a member mints only plain sessions (see mintable), an integration is changed
// by its owner alone, or where everybody sees it by those who decide (see
// manages), only an owner makes,
// changes or removes owners (see outranks), and the rows may keep the creator
// of a session from deciding for it.
func table() map[string]access {
	const session = "/api/v1/sessions/{session}/actions"
	return map[string]access{
		"GET /api/v1/me":     anyone,
		"GET /api/v1/events": anyone,

		"GET " + session + "/available":                 audience,
		"POST " + session + "/invoke":                   agent,
		"GET " + session + "/invocations":               audience,
		"GET " + session + "/invocations/{id}":          audience,
		"GET " + session + "/invocations/{id}/result":   approver,
		"POST " + session + "/invocations/{id}/approve": decider,
		"POST " + session + "/invocations/{id}/deny":    decider,
		"GET " + session + "/capabilities":              audience,
		"GET " + session + "/grants":                    audience,
		"POST " + session + "/grants":                   agent,

		"POST /api/v1/sessions":        member,
		"GET /api/v1/sessions":         member,
		"GET /api/v1/sessions/{id}":    member,
		"DELETE /api/v1/sessions/{id}": decider,

		"GET /api/v1/invocations":               member,
		"GET /api/v1/invocations/{id}":          member,
		"GET /api/v1/invocations/{id}/params":   decider,
		"GET /api/v1/invocations/{id}/events":   member,
		"POST /api/v1/invocations/{id}/approve": decider,
		"POST /api/v1/invocations/{id}/deny":    decider,

		"GET /api/v1/secrets":          member,
		"PUT /api/v1/secrets/{key}":    decider,
		"DELETE /api/v1/secrets/{key}": decider,
		"POST /api/v1/secrets/rotate":  owner,

		"GET /api/v1/connectors":                 member,
		"POST /api/v1/connectors":                decider,
		"POST /api/v1/connectors/validate":       decider,
		"GET /api/v1/connectors/presets":         member,
		"GET /api/v1/connectors/{ref}":           member,
		"PATCH /api/v1/connectors/{ref}":         decider,
		"DELETE /api/v1/connectors/{ref}":        decider,
		"POST /api/v1/connectors/{ref}/enable":   decider,
		"POST /api/v1/connectors/{ref}/disable":  decider,
		"POST /api/v1/connectors/{ref}/validate": decider,
		"GET /api/v1/connectors/{ref}/tools":     member,
		"POST /api/v1/connectors/{ref}/review":   decider,
		"POST /api/v1/connectors/{ref}/onboard":  decider,
		"POST /api/v1/connectors/{ref}/sign-in":  decider,
		"POST /api/v1/connectors/{ref}/sign-out": decider,
		"POST /api/v1/oauth/finish":              member,

		"GET /api/v1/integrations":                         member,
		"POST /api/v1/integrations":                        member,
		"GET /api/v1/integrations/providers":               member,
		"POST /api/v1/integrations/connect":                member,
		"GET /api/v1/integrations/{id}":                    member,
		"PATCH /api/v1/integrations/{id}":                  member,
		"DELETE /api/v1/integrations/{id}":                 member,
		"POST /api/v1/integrations/{id}/check":             member,
		"GET /api/v1/integrations/{id}/metadata":           member,
		"GET /api/v1/integrations/apps":                    decider,
		"PUT /api/v1/integrations/apps/{provider}":         decider,
		"DELETE /api/v1/integrations/apps/{provider}":      decider,
		"GET /api/v1/automations/{automation}/connections": member,
		"PUT /api/v1/automations/{automation}/connections": decider,

		"GET /api/v1/policy/modes":           member,
		"PUT /api/v1/policy/modes/{key}":     decider,
		"DELETE /api/v1/policy/modes/{key}":  decider,
		"GET /api/v1/policy/explain":         member,
		"GET /api/v1/policy/settings":        member,
		"PUT /api/v1/policy/settings":        decider,
		"GET /api/v1/policy/quotas":          member,
		"PUT /api/v1/policy/quotas/{key}":    decider,
		"DELETE /api/v1/policy/quotas/{key}": decider,
		"GET /api/v1/policy/events":          member,

		"GET /api/v1/capabilities":                       member,
		"GET /api/v1/capabilities/{group}":               member,
		"PUT /api/v1/capabilities/{group}/{provider}":    decider,
		"DELETE /api/v1/capabilities/{group}/{provider}": decider,

		"GET /api/v1/gates":         member,
		"POST /api/v1/gates":        decider,
		"DELETE /api/v1/gates/{id}": decider,

		"GET /api/v1/grants":         member,
		"POST /api/v1/grants":        decider,
		"GET /api/v1/grants/{id}":    member,
		"DELETE /api/v1/grants/{id}": decider,

		"GET /api/v1/grant-requests":               member,
		"GET /api/v1/grant-requests/{id}":          member,
		"POST /api/v1/grant-requests/{id}/approve": decider,
		"POST /api/v1/grant-requests/{id}/deny":    decider,

		"GET /api/v1/audit/heads":   decider,
		"POST /api/v1/audit/verify": decider,
		"GET /api/v1/audit/export":  decider,

		"GET /api/v1/users":                  member,
		"POST /api/v1/users":                 decider,
		"PATCH /api/v1/users/{id}":           decider,
		"DELETE /api/v1/users/{id}":          decider,
		"POST /api/v1/users/{id}/login-link": decider,

		"GET /api/v1/api-keys":         member,
		"POST /api/v1/api-keys":        decider,
		"DELETE /api/v1/api-keys/{id}": decider,

		"GET /{$}":               member,
		"GET /inbox/requests":    member,
		"GET /inbox/{id}":        member,
		"GET /inbox/{id}/params": decider,
		"GET /activity":          member,
		"GET /invocations/{id}":  member,
		"GET /settings":          member,

		"GET /settings/connectors/{id}":         member,
		"GET /settings/integrations":            member,
		"GET /settings/integrations/{provider}": member,

		"GET /api/v1/openapi.json": public,
		"GET /healthz":             public,
		"GET /readyz":              public,
		"GET /login":               public,
		"POST /login":              public,
		"GET /oauth/callback":      public,
		"GET /oauth/client.json":   public,
		"POST /logout":             public,
		"GET /assets/{file}":       public,

		"GET /oauth/callback/{provider}": public,
	}
}

// permit returns nil when the principal may use a route of that access, whose
// path names the session, if it names one.
func (a access) permit(p *Principal, session string) error {
	if p.Session != nil {
		return a.permitSession(p.Session, session)
	}
	switch {
	case a == anyone, a == audience, a == member:
		return nil
	case a == agent:
		return action.Errorf(action.ErrForbidden, "session_only", "Only the session's own token may do this; people decide, agents call.")
	case (a == decider || a == approver) && p.Role.Decides(), a == owner && p.Role == action.RoleOwner:
		return nil
	case a == owner:
		return action.Errorf(action.ErrForbidden, "owner_required", "Only an owner may do this; ask one of the organization.")
	case a == decider || a == approver:
		return action.Errorf(action.ErrForbidden, "role_required",
			"A %s may not do this; ask an owner or admin of the organization.", p.Role)
	}
	return action.Errorf(action.ErrForbidden, "forbidden", "Nobody may do this.")
}

func (a access) permitSession(own *action.Session, session string) error {
	switch a {
	case anyone:
		return nil
	case agent, audience, approver:
		if session == own.ID {
			return nil
		}
		return action.Errorf(action.ErrForbidden, "other_session", "This token belongs to another session; use the path of its own.")
	}
	return action.Errorf(action.ErrForbidden, "people_only",
		"A session token may not do this. A person decides here: wait for the outcome, or ask your user.")
}

// outranks tells whether the principal may make, change or act for somebody
// of that role: nobody reaches above himself.
func (p *Principal) outranks(role action.Role) error {
	if p.Role == action.RoleOwner || role != action.RoleOwner {
		return nil
	}
	return action.Errorf(action.ErrForbidden, "owner_required", "Only an owner may do this for an owner.")
}
