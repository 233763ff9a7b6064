package dashboard

import "encoding/json"

// examples are the examples of the description, by the name of their schema.
// A test sends those of bodies to the server.
func examples() map[string]string {
	const (
		id      = "0199a3c4-5d6e-7f80-9123-456789abcdef"
		session = "0199a3c0-1111-7222-8333-444455556666"
		user    = "0199a000-0000-7000-8000-000000000001"
		source  = "connector:5b0c1e2d-3f4a-4b5c-8d6e-7f8091a2b3c4"
		held    = `{"id":"` + id + `","organization_id":"default","session_id":"` + session + `","source_id":"` + source + `","source_name":"GitHub",
			"action":"create_issue","risk":"write","mode":"require_approval","mode_source":"inferred","status":"pending",
			"params":{"title":"Login page is broken","number":9007199254740993},"params_hash":"3f9a…","tool_hash":"c01d…",
			"created_at":"2026-03-01T12:00:00Z","expires_at":"2026-03-01T12:05:00Z","approval_url":"http://127.0.0.1:8787/invocations/` + id + `"}`
		integration = `{"id":"0199a3c6-0000-7000-8000-000000000001","organization_id":"default","provider":"linear","kind":"api_key","account":"acme","account_name":"Acme",
			"name":"Linear of Acme","visibility":"organization","status":"active","revision":1,"created_by":"` + user + `",
			"created_at":"2026-03-01T12:00:00Z","updated_at":"2026-03-01T12:00:00Z","provider_title":"Linear","usable":true}`
		terms = `"scope":"session","source_id":"` + source + `","action":"create_issue","pins":{"/repo":"docs"},"max_calls":5`
		grant = `{"id":"0199a3c5-0000-7000-8000-000000000002","organization_id":"default","session_id":"` + session + `",` + terms + `,
			"tool_hash":"c01d…","used_calls":0,"created_by":"` + user + `","created_at":"2026-03-01T12:01:00Z","name":"github"}`
		request = `{"id":"0199a3c5-0000-7000-8000-000000000003","organization_id":"default","session_id":"` + session + `","terms":{` + terms + `},
			"tool_hash":"c01d…","reason":"Filing what the audit found.","status":"pending","created_at":"2026-03-01T12:00:00Z","expires_at":"2026-03-02T12:00:00Z","name":"github"}`
	)
	return map[string]string{
		"NewCapability":   `{"level":"write","denied_actions":["drop"],"rate":{"calls":100,"seconds":3600},"expires_in":"720h"}`,
		"NewGateApproval": `{"gate":"deploy","group":"developer","task":"T-42","expires_in":"8h"}`,
		"NewGrant":        `{"scope":"session","session_id":"` + session + `","source":"github","action":"create_issue","pins":{"/repo":"docs"},"max_calls":5,"expires_in":"24h"}`,
		"NewRequest":      `{"source":"github","action":"create_issue","pins":{"/repo":"docs"},"max_calls":5,"expires_in":"8h","reason":"Filing what the audit found."}`,
		"Narrowing":       `{"scope":"session","max_calls":3,"expires_in":"1h"}`,
		"Refusal":         `{"reason":"Ask for one issue at a time."}`,
		"NewQuota":        `{"per":"session","calls":20,"seconds":3600}`,
		"SettingsChange":  `{"self_approval":false,"denial_limit":3}`,
		"NewReview":       `{"tools":[{"tool":"create_issue","behaviour_hash":"9b1d…","text_hash":"77aa…"}]}`,
		"KnownHead":       `{"head":{"organization_id":"default","seq":1204,"hash":"5f0c…","mac":"a2e9…","at":"2026-03-01T12:00:00Z"}}`,
		"GrantView":       grant,
		"RequestView":     request,
		"RequestOutcome":  `{"request":` + request + `,"grant":` + grant + `}`,
		"CapabilityView": `{"organization_id":"default","group":"developer","provider":"` + source + `","level":2,"allowed_actions":null,
			"granted_by":"` + user + `","granted_at":"2026-03-01T12:00:00Z","name":"github"}`,
		"GateApproval": `{"id":"0199a3c5-0000-7000-8000-000000000004","organization_id":"default","group":"developer","task":"T-42","gate":"deploy",
			"actions":null,"approved_by":"` + user + `","approved_at":"2026-03-01T12:00:00Z"}`,
		"QuotaView": `{"key":"` + source + `:create_issue","name":"github:create_issue","per":"session","calls":20,"seconds":3600,"updated_by":"` + user + `"}`,
		"Explanation": `{"mode":"deny","mode_source":"ceiling","steps":[{"layer":"ceiling","mode":"deny","note":"group 'developer' has level 1 (read) at github, merge_pr needs level 3"}],
			"policy_version":17,"key":"` + source + `:merge_pr","name":"github:merge_pr","session_id":"` + session + `","risk":"danger","listed":false,
			"reason":"group 'developer' has level 1 (read) at github, merge_pr needs level 3"}`,
		"PolicyEvent": `{"id":"0199a3c5-0000-7000-8000-000000000005","organization_id":"default","kind":"settings","subject":"settings","by":"` + user + `",
			"at":"2026-03-01T12:00:00Z","before":{"self_approval":true,"denial_limit":3},"after":{"self_approval":false,"denial_limit":3}}`,
		"NewSession":        `{"title":"Fix the login page","kind":"interactive","ttl":"8h"}`,
		"NewSecret":         `{"value":"ghp_0123456789","host":"mcp.example.com"}`,
		"NewConnector":      `{"name":"Issues","url":"https://issues.example.com/mcp","slug":"issues","secret_value":"key_0123456789","may_ask":["elicitation"]}`,
		"TriedConnector":    `{"url":"https://mcp.example.com/mcp","secret_value":"key_0123456789"}`,
		"ConnectorChange":   `{"url":"https://mcp.example.com/v2/mcp"}`,
		"Onboarding":        `{"tools":[{"tool":"create_issue","behaviour_hash":"9b1d…","text_hash":"77aa…","mode":"require_approval"},{"tool":"resources/read","mode":"allow"}]}`,
		"NewIntegration":    `{"provider":"linear","kind":"api_key","secret":"lin_api_0123456789","name":"Linear of Acme"}`,
		"NewConnection":     `{"provider":"linear","kind":"oauth2","own":true}`,
		"IntegrationChange": `{"name":"Linear","timeout_seconds":60}`,
		"NewApp":            `{"client_id":"0123456789abcdef","client_secret":"s3cr3t0123456789"}`,
		"NewBindings":       `{"connections":["0199a3c6-0000-7000-8000-000000000001"]}`,
		"ConnectLink":       `{"url":"https://linear.app/oauth/authorize?client_id=0123&state=q1w2…","state":"q1w2…","expires_at":"2026-03-01T12:05:00Z","host":"linear.app"}`,
		"IntegrationView":   integration,
		"Finished":          `{"of":"integration","integration":` + integration + `}`,
		"FinishedSignIn":    `{"provider":"linear","state":"q1w2…","code":"a1b2…"}`,
		"SignInLink":        `{"authorize_url":"https://auth.example.com/authorize?response_type=code&state=q1w2…"}`,
		"NewMode":           `{"mode":"require_approval"}`,
		"Approval":          `{"params_hash":"3f9a…","tool_hash":"c01d…","mode":"grant","grant":{"scope":"session","max_calls":5,"expires_in":"1h","pin":["/title"]}}`,
		"Denial":            `{"reason":"Use the staging project."}`,
		"NewCall":           `{"source":"github","action":"create_issue","params":{"title":"Login page is broken","number":9007199254740993}}`,
		"NewUser":           `{"name":"Ada","role":"admin"}`,
		"RoleChange":        `{"role":"admin"}`,
		"NewKey":            `{"name":"deploy script","role":"member"}`,
		"Invocation":        held,
		"Outcome":           `{"invocation":` + held + `}`,
		"FullParams":        `{"params":{"title":"Login page is broken","number":9007199254740993},"full":true,"params_hash":"3f9a…","tool_hash":"c01d…"}`,
		"Link":              `{"url":"http://127.0.0.1:8787/login#CODE.KEY","expires_at":"2026-03-01T12:10:00Z"}`,
		"MintedSession":     `{"session_id":"` + session + `","token":"sps_…","mcp_url":"http://127.0.0.1:8787/mcp","expires_at":"2026-03-01T20:00:00Z"}`,
		"ModeView":          `{"key":"` + source + `:create_issue","name":"github:create_issue","mode":"allow","updated_by":"` + user + `"}`,
		"Problem":           `{"type":"about:blank","title":"Conflict","status":409,"code":"already_decided","detail":"This call was approved by Ada a moment ago.","invocation":"` + id + `"}`,
	}
}

// illustrate puts the examples into the description.
func (s *Server) illustrate() {
	schemas := s.api.OpenAPI().Components.Schemas.Map()
	for name, text := range examples() {
		if schema := schemas[name]; schema != nil {
			schema.Examples = []any{json.RawMessage(text)}
		}
	}
	if schema := schemas["Finished"]; schema != nil {
		schema.Required = []string{"of"} // it is one of two things
	}
}
