package routes

import (
	"encoding/json"
	"maps"
)

// examples are the examples in the API description, by schema name. A test
// sends those of request bodies to the server.
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
	all := inboundExamples()
	maps.Copy(all, notifyExamples())
	maps.Copy(all, map[string]string{
		"NewCapability":    `{"level":"write","denied_actions":["drop"],"rate":{"calls":100,"seconds":3600},"expires_in":"720h"}`,
		"NewModelProvider": `{"dialect":"openai","url":"https://api.together.xyz","secret":"together"}`,
		"NewModelAlias":    `{"model":"anthropic/claude-haiku-4-5"}`,
		"NewModelPrice":    `{"model":"together/llama-*","input":0.9,"output":0.9}`,
		"NewModelLimit":    `{"scope":"group:developer","per":"day","models":["anthropic/claude-*"],"usd":20}`,
		"NewWorkspace":     `{"name":"shop","repositories":["https://github.com/acme/shop#develop"],"size":"medium"}`,
		"WorkspaceChange":  `{"model":"anthropic/claude-sonnet-4-5","work_hosts":["registry.npmjs.org"]}`,
		"NewRepository":    `{"url":"https://github.com/acme/shop"}`,
		"RepositorySync":   `{"integration":"github"}`,
		"NewVariable":      `{"value":"postgres://shop@db/shop","workspace":"shop"}`,
		"ModelsChange":     `{"small":"anthropic/claude-haiku-4-5"}`,
		"NewGroup":         `{"group":"developer","template":"contributor","providers":["github","slack"]}`,
		"GroupTemplate":    `{"name":"contributor","about":"Reads and writes, but cannot merge pull requests or delete.","level":2,"read_only":["cloudlogs"],"denied_actions":{"github":["merge_pr"]}}`,
		"NewGateApproval":  `{"gate":"deploy","group":"developer","task":"T-42","expires_in":"8h"}`,
		"NewGrant":         `{"scope":"session","session_id":"` + session + `","source":"github","action":"create_issue","pins":{"/repo":"docs"},"max_calls":5,"expires_in":"24h"}`,
		"NewRequest":       `{"source":"github","action":"create_issue","pins":{"/repo":"docs"},"max_calls":5,"expires_in":"8h","reason":"Filing what the audit found."}`,
		"Narrowing":        `{"scope":"session","max_calls":3,"expires_in":"1h"}`,
		"Refusal":          `{"reason":"Ask for one issue at a time."}`,
		"NewQuota":         `{"per":"session","calls":20,"seconds":3600}`,
		"SettingsChange":   `{"self_approval":false,"denial_limit":3}`,
		"NewReview":        `{"tools":[{"tool":"create_issue","behaviour_hash":"9b1d…","text_hash":"77aa…"}]}`,
		"EnvAnswer":        `{"values":{"STRIPE_TEST_KEY":"sk_test_0123456789"}}`,
		"EnvRefusal":       `{"reason":"Use the test account; its key is in the vault."}`,
		"EnvPulled":        `{"values":{"STRIPE_TEST_KEY":"sk_test_0123456789"},"pending":[],"refused":[]}`,
		"EnvRequest": `{"id":"0199a3c5-0000-7000-8000-000000000006","organization_id":"default","session_id":"` + session + `","status":"pending",
			"keys":[{"key":"STRIPE_TEST_KEY","type":"secret","description":"The checkout tests call Stripe.","suggestions":[{"label":"Test key","instructions":"Stripe, Developers, API keys."}]}],
			"created_at":"2026-03-01T12:00:00Z","expires_at":"2026-03-02T12:00:00Z"}`,
		"Upload": `{"id":"0199a3c6-9999-7000-8000-0123456789ab","organization_id":"default","session_id":"` + session + `","folder":".sallyport/verification/",
			"prefix":"default/` + session + `/0199a3c6-9999-7000-8000-0123456789ab/","manifest_sha256":"9f86…","file_count":1,"bytes":5,
			"files":[{"name":"test-report.txt","size":5,"sha256":"2cf2…","content_type":"text/plain","stored_at":"2026-03-01T12:00:00Z"}],
			"created_at":"2026-03-01T12:00:00Z","sealed_at":"2026-03-01T12:00:01Z"}`,
		"RefusalCount": `{"id":"0199a3c5-0000-7000-8000-000000000009","session_id":"` + session + `","kind":"invalid_params","source_id":"` + source + `",
			"action":"create_issue","count":12,"first_at":"2026-03-01T12:00:00Z","last_at":"2026-03-01T12:00:41Z"}`,
		"KnownHead":      `{"head":{"organization_id":"default","seq":1204,"hash":"5f0c…","mac":"a2e9…","at":"2026-03-01T12:00:00Z"}}`,
		"GrantView":      grant,
		"RequestView":    request,
		"RequestOutcome": `{"request":` + request + `,"grant":` + grant + `}`,
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
		"StatisticsView": `{"window":"24h","computed_at":"2026-03-01T12:00:04Z","from":"2026-02-28T12:30:00Z","to":"2026-03-01T12:30:00Z","bucket_seconds":1800,
			"calls":{"count":212,"since":"2026-02-28T12:30:00Z"},
			"buckets":[{"at":"2026-03-01T12:00:00Z","allow":200,"require_approval":10,"deny":2}],
			"actions":[{"source_id":"` + source + `","source_name":"GitHub","action":"create_issue","risk":"write","calls":10,"failed":1,"denied":2}],
			"sources":[{"source_id":"` + source + `","source_name":"GitHub","calls":212,"ran":208,"failed":3,"p50_ms":120,"p95_ms":900,"last_failed_at":"2026-03-01T11:58:00Z","health":"ok"}],
			"held":{"count":10,"since":"2026-02-28T12:30:00Z","waiting":1,"approved":6,"denied":2,"expired":1,"withdrawn":0,"refused":0,"p50_ms":21000,"p90_ms":95000,
			"bins":[{"up_to_ms":60000,"calls":6},{"calls":2}]},
			"denied":{"count":4,"since":"2026-02-28T12:30:00Z","reasons":[{"denied_reason":"human","calls":2},{"denied_reason":"policy","mode_source":"ceiling","calls":2}]},
			"queues":{"pending":{"count":1},"approved":{"count":0},"executing":{"count":2},"runs_queued":{"count":0},"deliveries_waiting":{"count":0},"outbox_waiting":{"count":0}}}`,
		"GuideView":         `{"source_id":"` + source + `","title":"GitHub","markdown":"## GitHub\n\n### ` + "`github_create_issue`" + `\n\nA call needs a person's approval."}`,
		"PromptView":        `{"type":"coding","own":false,"text":"You work in a sandbox."}`,
		"NewSession":        `{"title":"Fix the login page","kind":"interactive","ttl":"8h"}`,
		"NewSecret":         `{"value":"ghp_0123456789","host":"mcp.example.com"}`,
		"NewConnector":      `{"name":"Issues","url":"https://issues.example.com/mcp","slug":"issues","secret_value":"key_0123456789","may_ask":["elicitation"]}`,
		"TriedConnector":    `{"url":"https://mcp.example.com/mcp","secret_value":"key_0123456789"}`,
		"ConnectorChange":   `{"url":"https://mcp.example.com/v2/mcp"}`,
		"ProfileChange":     `{"profile":"ask","only_denied":true}`,
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
		"PlatformCall":      `{"session_id":"` + session + `","tool_call_id":"call_01","params":{"commands":[{"name":"web","command":"pnpm dev"}]}}`,
		"PlatformAnswer":    `{"success":true,"result":"Saved 1 command in the setup \"default\", replacing the previous ones.","data":{"command_count":1,"setup":"default"},"invocation":"` + id + `","status":"completed"}`,
		"SetupEntry":        `{"name":"default","command_count":1,"file_count":0,"updated_by":"` + session + `","updated_at":"2026-03-01T12:00:00Z"}`,
		"SetupView":         `{"name":"default","service_commands":[{"name":"web","command":"pnpm dev"}],"env_files":[],"updated_by":"` + session + `","created_at":"2026-03-01T12:00:00Z","updated_at":"2026-03-01T12:00:00Z"}`,
		"NewUser":           `{"name":"Ada","role":"admin"}`,
		"RoleChange":        `{"role":"admin"}`,
		"NewKey":            `{"name":"worker","scope":"runs"}`,
		"Invocation":        held,
		"Outcome":           `{"invocation":` + held + `}`,
		"FullParams":        `{"params":{"title":"Login page is broken","number":9007199254740993},"full":true,"params_hash":"3f9a…","tool_hash":"c01d…"}`,
		"Link":              `{"url":"http://127.0.0.1:8787/login#CODE.KEY","expires_at":"2026-03-01T12:10:00Z"}`,
		"MintedSession":     `{"session_id":"` + session + `","token":"sps_…","mcp_url":"http://127.0.0.1:8787/mcp","expires_at":"2026-03-01T20:00:00Z","status":"pending","left_out":[{"integration":"0199a3c4-5d6e-7f80-9123-0000000000c1","name":"Linear","reason":"The token expired. Connect the account again to use it."}]}`,
		"SessionChange":     `{"title":"Fix the login page","idle_timeout":"30m"}`,
		"SessionEnd":        `{"note":"The task was given up."}`,
		"ModeView":          `{"key":"` + source + `:create_issue","name":"github:create_issue","mode":"allow","updated_by":"` + user + `"}`,
		"Problem":           `{"type":"about:blank","title":"Conflict","status":409,"code":"already_decided","detail":"This call was approved by Ada a moment ago.","invocation":"` + id + `"}`,
	})
	return all
}

// addExamples adds the examples to the API description.
func (s *handlers) addExamples() {
	schemas := s.API.OpenAPI().Components.Schemas.Map()
	for name, text := range examples() {
		if schema := schemas[name]; schema != nil {
			schema.Examples = []any{json.RawMessage(text)}
		}
	}
	if schema := schemas["Finished"]; schema != nil {
		schema.Required = []string{"of"} // the rest depends on it
	}
}

// inboundExamples are the examples of triggers, events and runs.
func inboundExamples() map[string]string {
	const (
		automation = "0199a3c7-0000-7000-8000-000000000001"
		trigger    = "0199a3c7-0000-7000-8000-000000000002"
		happened   = "0199a3c7-0000-7000-8000-000000000003"
		run        = "0199a3c7-0000-7000-8000-000000000004"
		session    = "0199a3c7-0000-7000-8000-000000000005"
		claim      = "9a1c3b52-7d1f-4a55-8a3e-2f6c0d9b7e10"
		user       = "0199a000-0000-7000-8000-000000000001"
		schedule   = `"automation":"nightly-triage","cron_expression":"0 7 * * 1-5","timezone":"Europe/Berlin"`
		record     = `{"id":"` + happened + `","organization_id":"default","trigger_id":"` + trigger + `","automation_id":"` + automation + `","provider":"github",
			"event_type":"issue","provider_event_type":"issues:opened","dedup_key":"72d3162e","title":"Login page is broken","url":"https://github.com/acme/docs/issues/7",
			"created_at":"2026-03-01T12:00:00Z","run_id":"` + run + `","run_status":"running","status":"processing","automation_name":"nightly-triage","context":{"issue":{"number":7}}}`
		running = `{"id":"` + run + `","organization_id":"default","automation_id":"` + automation + `","event_id":"` + happened + `","trigger_id":"` + trigger + `",
			"status":"running","attempt":1,"claimed_by":"` + user + `","lease_until":"2026-03-01T12:05:00Z","deadline":"2026-03-03T12:00:00Z","session_id":"` + session + `",
			"waiting":0,"created_at":"2026-03-01T12:00:00Z","started_at":"2026-03-01T12:00:05Z","title":"Login page is broken"`
		held = `{"id":"` + trigger + `","organization_id":"default","automation_id":"` + automation + `","name":"GitHub issue","trigger_type":"webhook","provider":"github","event_type":"issue",
			"enabled":true,"config":{"labels":["bug"]},"created_by":"` + user + `","created_at":"2026-03-01T12:00:00Z","updated_at":"2026-03-01T12:00:00Z","provider_title":"GitHub",
			"automation_name":"nightly-triage","url":"https://gate.example.com/webhooks/direct/github/` + trigger + `","secrets":1`
	)
	return map[string]string{
		"NewAutomation":    `{"name":"nightly-triage","instructions":"Sort the issues that were opened since yesterday."}`,
		"AutomationChange": `{"enabled":false}`,
		"Automation": `{"id":"` + automation + `","organization_id":"default","name":"nightly-triage","enabled":true,"instructions":"Sort the issues that were opened since yesterday.",
			"created_by":"` + user + `","created_at":"2026-03-01T12:00:00Z","updated_at":"2026-03-01T12:00:00Z"}`,
		"NewTrigger":     `{"automation":"nightly-triage","provider":"github","event_type":"issue","config":{"labels":["bug"]}}`,
		"TriggerChange":  `{"name":"Bugs","enabled":true}`,
		"TriggerView":    held + `}`,
		"MintedTrigger":  held + `,"secret":"9f86d081884c7d65…"}`,
		"Rotation":       `{"keep":"24h"}`,
		"MintedSecret":   `{"secret":"whsec_…"}`,
		"NewSchedule":    `{` + schedule + `,"missed":"once"}`,
		"CronTimes":      `{"cron_expression":"0 7 * * 1-5","timezone":"Europe/Berlin"}`,
		"DueTimes":       `{"times":["2026-03-02T06:00:00Z"]}`,
		"ScheduleChange": `{"cron_expression":"30 6 * * 1-5"}`,
		"InboundEvent":   record,
		"WholeContext":   `{"context":{"issue":{"number":7,"title":"Login page is broken"}}}`,
		"ClaimRequest":   `{"automation":"nightly-triage","lease":"5m"}`,
		"ClaimedRun": `{"run":` + running + `},"automation":{"id":"` + automation + `","name":"nightly-triage","instructions":"Sort the issues that were opened since yesterday."},
			"event":` + record + `,"session":{"id":"` + session + `","token":"sps_…","mcp_url":"http://127.0.0.1:8787/mcp","expires_at":"2026-03-03T12:00:00Z"},
			"claim_id":"` + claim + `","lease_until":"2026-03-01T12:05:00Z"}`,
		"Renewal":      `{"claim_id":"` + claim + `"}`,
		"Finish":       `{"claim_id":"` + claim + `","status":"succeeded","message":"Sorted 3 issues.","result":{"sorted":3}}`,
		"Resolution":   `{"status":"failed","code":"given_up","message":"The repository is gone."}`,
		"Cancellation": `{"reason":"The issue was closed by hand."}`,
		"RunView":      running + `,"automation_name":"nightly-triage"}`,
		"NewEndpoint":  `{"url":"https://agents.example.com/runs"}`,
	}
}

// notifyExamples are the examples of notifications.
func notifyExamples() map[string]string {
	const channel = `{"kind":"webhook","enabled":true,"wants":"all","url":"https://example.com/held-calls","failures":0,
		"secrets":[{"id":"0199a3c7-0000-7000-8000-000000000011","created_at":"2026-03-01T12:00:00Z"}],
		"updated_by":"0199a000-0000-7000-8000-000000000001","updated_at":"2026-03-01T12:00:00Z"`
	return map[string]string{
		"NotifyChange": `{"url":"https://example.com/held-calls","wants":"all"}`,
		"NotifyView":   channel + `,"last_sent_at":"2026-03-01T12:30:00Z"}`,
		"MintedNotify": channel + `,"secret":"whsec_…"}`,
		"NotifyTest":   `{"ok":true,"status":204,"detail":"The endpoint answered 204."}`,
		"NotificationView": `{"id":"0199a3c7-0000-7000-8000-000000000012","kind":"webhook","event":"held","invocation_id":"0199a3c7-0000-7000-8000-000000000013",
			"status":"sent","failures":0,"created_at":"2026-03-01T12:30:00Z"}`,
	}
}
