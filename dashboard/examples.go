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
	)
	return map[string]string{
		"NewSession":      `{"title":"Fix the login page","kind":"interactive","ttl":"8h"}`,
		"NewSecret":       `{"value":"ghp_0123456789","host":"mcp.example.com"}`,
		"NewConnector":    `{"name":"Issues","url":"https://issues.example.com/mcp","slug":"issues"}`,
		"TriedConnector":  `{"url":"https://mcp.example.com/mcp"}`,
		"ConnectorChange": `{"url":"https://mcp.example.com/v2/mcp"}`,
		"NewMode":         `{"mode":"require_approval"}`,
		"Approval":        `{"params_hash":"3f9a…","tool_hash":"c01d…"}`,
		"Denial":          `{"reason":"Use the staging project."}`,
		"NewCall":         `{"source":"github","action":"create_issue","params":{"title":"Login page is broken","number":9007199254740993}}`,
		"NewUser":         `{"name":"Ada","role":"admin"}`,
		"RoleChange":      `{"role":"admin"}`,
		"NewKey":          `{"name":"deploy script","role":"member"}`,
		"Invocation":      held,
		"Outcome":         `{"invocation":` + held + `}`,
		"FullParams":      `{"params":{"title":"Login page is broken","number":9007199254740993},"full":true,"params_hash":"3f9a…","tool_hash":"c01d…"}`,
		"Link":            `{"url":"http://127.0.0.1:8787/login#CODE.KEY","expires_at":"2026-03-01T12:10:00Z"}`,
		"MintedSession":   `{"session_id":"` + session + `","token":"sps_…","mcp_url":"http://127.0.0.1:8787/mcp","expires_at":"2026-03-01T20:00:00Z"}`,
		"ModeView":        `{"key":"` + source + `:create_issue","name":"github:create_issue","mode":"allow","updated_by":"` + user + `"}`,
		"Problem":         `{"type":"about:blank","title":"Conflict","status":409,"code":"already_decided","detail":"This call was approved by Ada a moment ago.","invocation":"` + id + `"}`,
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
}
