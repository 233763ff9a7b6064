package dashboard

import "sallyport/action"

// access says who may use a route. The zero value is nobody.
type access int

const (
	nobody   access = iota
	public          // everybody, without a credential
	anyone          // any good credential
	listener        // any but a key for workers
	agent           // the session of the path, with its own token
	caller          // any session; the body names it
	audience        // that session, or any person of its organization
	approver        // that session, or a person who decides
	member          // any person
	worker          // a key for workers, or a person who decides
	holder          // that, or the session that works on the run of the path
	reader          // any person, or that session
	decider         // an owner or admin
	owner           // an owner
	hosted          // the bearer of a host application's token
)

// table is the one place that says who may do what. A person is a browser
// login or an API key with its role, but that pages (all that is not under
// /api) know browsers alone; a session is an agent with its token; a key for
// workers opens what is a worker's, and else only who it is. Beyond it,
// a member mints only plain sessions (see mintable) and renames only his own
// (see renames), an integration is changed
// by its owner alone, or where everybody sees it by those who decide (see
// manages), only an owner makes,
// changes or removes owners (see outranks), and the rows may keep the creator
// of a session from deciding for it.
func table() map[string]access {
	const session = "/api/v1/sessions/{session}/actions"
	return map[string]access{
		"GET /api/v1/me":     anyone,
		"GET /api/v1/events": listener,

		"GET " + session + "/available":                 audience,
		"GET " + session + "/guide":                     audience,
		"GET " + session + "/guide/{source}":            audience,
		"GET /api/v1/sessions/{session}/prompt":         audience,
		"POST " + session + "/invoke":                   agent,
		"GET " + session + "/invocations":               audience,
		"GET " + session + "/invocations/{id}":          audience,
		"GET " + session + "/invocations/{id}/result":   approver,
		"POST " + session + "/invocations/{id}/approve": decider,
		"POST " + session + "/invocations/{id}/deny":    decider,
		"GET " + session + "/capabilities":              audience,
		"GET " + session + "/grants":                    audience,
		"POST " + session + "/grants":                   agent,

		"PUT /api/v1/sessions/{session}/evidence/{upload}/{name}": agent,
		"GET /api/v1/sessions/{session}/evidence":                 audience,
		"GET /api/v1/sessions/{session}/evidence/{upload}":        audience,
		"GET /api/v1/sessions/{session}/evidence/{upload}/{name}": audience,

		"GET /api/v1/sessions/{session}/env":       audience,
		"POST /api/v1/sessions/{session}/env/pull": agent,
		"GET /api/v1/env-requests":                 member,
		"GET /api/v1/env-requests/{id}":            member,
		"POST /api/v1/env-requests/{id}/answer":    decider,
		"POST /api/v1/env-requests/{id}/refuse":    decider,

		"POST /internal/tools/{tool}": caller,
		"GET /api/v1/setups":          member,
		"GET /api/v1/setups/{name}":   member,

		"POST /api/v1/sessions":        member,
		"GET /api/v1/sessions":         member,
		"GET /api/v1/sessions/{id}":    member,
		"DELETE /api/v1/sessions/{id}": decider,

		"PATCH /api/v1/sessions/{id}":       member,
		"POST /api/v1/sessions/{id}/pause":  decider,
		"POST /api/v1/sessions/{id}/resume": decider,
		"POST /api/v1/sessions/{id}/stop":   decider,
		"POST /api/v1/sessions/{id}/fail":   decider,

		"GET /api/v1/invocations":               member,
		"GET /api/v1/invocations/{id}":          member,
		"GET /api/v1/invocations/{id}/params":   decider,
		"GET /api/v1/invocations/{id}/events":   member,
		"POST /api/v1/invocations/{id}/approve": decider,
		"POST /api/v1/invocations/{id}/deny":    decider,

		"GET /api/v1/statistics": member,

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

		"GET /api/v1/automations":                 member,
		"POST /api/v1/automations":                decider,
		"GET /api/v1/automations/{automation}":    member,
		"PATCH /api/v1/automations/{automation}":  decider,
		"DELETE /api/v1/automations/{automation}": decider,

		"GET /api/v1/providers":             member,
		"GET /api/v1/providers/{id}":        member,
		"GET /api/v1/triggers":              member,
		"POST /api/v1/triggers":             decider,
		"GET /api/v1/triggers/{id}":         member,
		"PATCH /api/v1/triggers/{id}":       decider,
		"DELETE /api/v1/triggers/{id}":      decider,
		"GET /api/v1/triggers/{id}/secrets": member,
		"POST /api/v1/triggers/{id}/rotate": decider,
		"GET /api/v1/poll-groups":           member,

		"GET /api/v1/schedules":          member,
		"POST /api/v1/schedules":         decider,
		"POST /api/v1/schedules/preview": member,
		"GET /api/v1/schedules/{id}":     member,
		"PATCH /api/v1/schedules/{id}":   decider,
		"DELETE /api/v1/schedules/{id}":  decider,

		"GET /api/v1/inbound-events":              member,
		"GET /api/v1/inbound-events/{id}":         member,
		"GET /api/v1/inbound-events/{id}/context": decider,
		"POST /api/v1/inbound-events/{id}/skip":   decider,

		"GET /api/v1/deliveries":               decider,
		"GET /api/v1/deliveries/{id}":          decider,
		"POST /api/v1/deliveries/{id}/redrive": decider,

		"GET /api/v1/runs":               member,
		"POST /api/v1/runs/claim":        worker,
		"GET /api/v1/runs/{id}":          reader,
		"POST /api/v1/runs/{id}/renew":   holder,
		"POST /api/v1/runs/{id}/finish":  holder,
		"POST /api/v1/runs/{id}/cancel":  decider,
		"POST /api/v1/runs/{id}/resolve": decider,
		"POST /api/v1/runs/{id}/redrive": decider,

		"GET /api/v1/outbox":               decider,
		"POST /api/v1/outbox/{id}/redrive": decider,
		"GET /api/v1/run-endpoint":         decider,
		"PUT /api/v1/run-endpoint":         decider,
		"DELETE /api/v1/run-endpoint":      decider,
		"POST /api/v1/run-endpoint/rotate": decider,

		"GET /api/v1/notify":                 decider,
		"PUT /api/v1/notify/{kind}":          decider,
		"DELETE /api/v1/notify/{kind}":       decider,
		"POST /api/v1/notify/{kind}/test":    decider,
		"POST /api/v1/notify/webhook/rotate": decider,
		"GET /api/v1/notifications":          decider,

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

		"GET /api/v1/me/logins":         member,
		"DELETE /api/v1/me/logins":      member,
		"DELETE /api/v1/me/logins/{id}": member,
		"POST /api/v1/me/login-link":    hosted,

		"DELETE /api/v1/users/{id}/logins":   decider,
		"GET /api/v1/removed-users":          decider,
		"DELETE /api/v1/removed-users/{id}":  decider,
		"GET /api/v1/users":                  member,
		"POST /api/v1/users":                 decider,
		"PATCH /api/v1/users/{id}":           decider,
		"DELETE /api/v1/users/{id}":          decider,
		"POST /api/v1/users/{id}/login-link": decider,

		"GET /api/v1/api-keys":         member,
		"POST /api/v1/api-keys":        decider,
		"DELETE /api/v1/api-keys/{id}": decider,

		"GET /{$}":                     member,
		"GET /inbox/more":              member,
		"GET /inbox/cards":             member,
		"GET /inbox/count":             member,
		"GET /inbox/waiters":           member,
		"GET /inbox/requests":          member,
		"GET /inbox/{id}":              member,
		"GET /inbox/{id}/grant":        decider,
		"GET /inbox/{id}/params":       decider,
		"GET /overview":                member,
		"GET /activity":                member,
		"GET /invocations/{id}":        member,
		"GET /connectors":              member,
		"GET /connectors/new":          decider,
		"GET /connectors/{id}":         member,
		"GET /integrations":            member,
		"GET /integrations/{provider}": member,
		"GET /secrets":                 member,

		"GET /automations":         member,
		"GET /automations/{id}":    member,
		"GET /triggers":            member,
		"GET /triggers/new":        decider,
		"GET /triggers/{id}":       member,
		"GET /schedules":           member,
		"GET /runs":                member,
		"GET /runs/{id}":           member,
		"GET /events":              member,
		"GET /events/{id}":         member,
		"GET /events/{id}/context": decider,
		"GET /deliveries":          decider,
		"GET /deliveries/{id}":     decider,

		"GET /policy":                 member,
		"GET /policy/actions":         member,
		"GET /policy/answer":          member,
		"GET /policy/removed":         member,
		"GET /audit":                  member,
		"GET /grants":                 member,
		"GET /sessions":               member,
		"GET /sessions/{id}/evidence": member,
		"GET /env-requests/{id}":      member,
		"GET /people":                 member,
		"GET /settings":               member,
		"GET /settings/{rest...}":     member,

		"GET /api/v1/openapi.json": public,
		"GET /healthz":             public,
		"GET /readyz":              public,
		"GET /login":               public,
		"GET /login/oidc":          public,
		"GET /login/oidc/callback": public,
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
	if p.scope == action.ScopeRuns {
		return a.permitKey(p)
	}
	switch {
	case a == anyone, a == listener, a == audience, a == member, a == reader:
		return nil
	case a == agent, a == caller:
		return action.Errorf(action.ErrForbidden, "session_only", "Only the session's own token may do this; people decide, agents call.")
	case a.isDecided() && p.Role.Decides(), a == owner && p.Role == action.RoleOwner:
		return nil
	case a == hosted && p.host:
		return nil
	case a == hosted:
		return action.Errorf(action.ErrForbidden, "host_only",
			"This is for tokens of a host application (serve --user-jwt-issuer); an owner or admin makes links for others at /api/v1/users/{id}/login-link.")
	case a == owner:
		return action.Errorf(action.ErrForbidden, "owner_required", "Only an owner may do this; ask one of the organization.")
	case a.isDecided():
		return action.Errorf(action.ErrForbidden, "role_required",
			"A %s may not do this; ask an owner or admin of the organization.", p.Role)
	}
	return action.Errorf(action.ErrForbidden, "forbidden", "Nobody may do this.")
}

// isDecided reports whether those may who decide, and no other person.
func (a access) isDecided() bool { return a == decider || a == approver || a == worker || a == holder }

// permitKey keeps a key for workers to runs, and to those whom its maker could
// give it: whoever claims a run has a session of its automation.
func (a access) permitKey(p *Principal) error {
	switch {
	case a == anyone, (a == worker || a == holder) && p.works:
		return nil
	case a == worker, a == holder:
		return action.Errorf(action.ErrForbidden, "role_required", "Whoever made this key for workers decides nothing any more; ask an owner or admin for another.")
	}
	return action.Errorf(action.ErrForbidden, "scope_required", "This key is for workers: it claims, renews and finishes runs, and does nothing else.")
}

func (a access) permitSession(own *action.Session, session string) error {
	switch a {
	case anyone, listener, holder, reader, caller: // whose run it is, the rows say; see [Server.permit]
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
