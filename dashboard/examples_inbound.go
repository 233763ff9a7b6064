package dashboard

// inboundExamples are those of what starts runs, and of runs.
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
		"Wish":           `{"automation":"nightly-triage","lease":"5m"}`,
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
