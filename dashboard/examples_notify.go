package dashboard

// notifyExamples are those of telling approvers elsewhere.
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
