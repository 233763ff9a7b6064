package dashboard_test

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/ingest/event"
)

// Rows as others than the server make them: the Gate, services, senders of
// events, and hostile ones of each.

// connected adds an integration.
func (h *house) connected(in action.Integration) {
	h.t.Helper()
	in.Organization = org
	for field, otherwise := range map[*string]string{&in.Account: in.ID, &in.Name: in.ID, &in.CreatedBy: "u-ada"} {
		if *field == "" {
			*field = otherwise
		}
	}
	if in.Kind == "" {
		in.Kind = action.KindAPIKey
	}
	if in.User != "" {
		in.Visibility = action.VisiblePrivate
	}
	if in.Visibility == "" {
		in.Visibility = action.VisibleOrganization
	}
	if in.Status == "" {
		in.Status = action.IntegrationActive
	}
	h.insert("integrations", "id", in.ID, "organization_id", org, "provider", in.Provider, "kind", in.Kind, "account", in.Account, "account_name", in.AccountName,
		"name", in.Name, "user_id", in.User, "visibility", in.Visibility, "holder", text(in.Owner()), "base_url", in.BaseURL, "timeout_seconds", 0,
		"status", in.Status, "reason", in.Reason, "revision", 1, "version", 1, "created_by", in.CreatedBy, "created_at", h.clock.now(), "updated_at", h.clock.now())
}

// bind binds the sessions of the automation to integrations.
func (h *house) bind(integrations ...string) {
	h.t.Helper()
	for _, id := range integrations {
		h.insert("automation_connections", "organization_id", org, "automation_id", "nightly", "integration_id", id)
	}
}

// add writes a call as if the Gate had, and returns its id.
func (h *house) add(inv action.Invocation) string {
	h.t.Helper()
	for field, otherwise := range map[*string]string{
		&inv.ID: uuid.Must(uuid.NewV7()).String(), &inv.Organization: org, &inv.Session: "s1", &inv.Source: "connector:c1", &inv.SourceName: "GitHub", &inv.Action: "list",
		(*string)(&inv.Risk): string(action.RiskRead), (*string)(&inv.Mode): string(action.ModeAllow), (*string)(&inv.ModeSource): string(action.LayerInferred),
		(*string)(&inv.Status): string(action.StatusCompleted),
	} {
		if *field == "" {
			*field = otherwise
		}
	}
	if inv.CreatedAt.IsZero() {
		inv.CreatedAt = h.clock.now()
	}
	if inv.Params == nil {
		inv.Params = json.RawMessage(`{}`)
	}
	if inv.Steps == nil {
		inv.Steps = []action.Step{}
	}
	failure := inv.Error
	if failure == nil {
		failure = &action.Failure{}
	}
	if inv.Status == action.StatusFailed && failure.Code == "" {
		failure = &action.Failure{Code: action.FailedTool, Message: "It broke."}
	}
	if inv.Status == action.StatusPending && inv.ExpiresAt == nil {
		inv.ExpiresAt = ptr(inv.CreatedAt.Add(5 * time.Minute))
	}
	var sealed []byte
	if inv.Status == action.StatusPending {
		sealed = h.sealed("invocations", inv.ID, "sealed_params", string(inv.Params))
	}
	if inv.Status.Terminal() && inv.CompletedAt == nil {
		inv.CompletedAt = &inv.CreatedAt
	}
	if inv.Status == action.StatusCompleted && inv.StartedAt == nil {
		inv.StartedAt = &inv.CreatedAt
	}
	table, columns := "open_calls", []any{
		"id", inv.ID, "organization_id", inv.Organization, "session_id", inv.Session, "status", inv.Status, "joins", 0, "unattended", 0,
		"created_at", inv.CreatedAt, "waiter_seen_at", inv.CreatedAt, "expires_at", inv.ExpiresAt, "approved_at", inv.ApprovedAt, "started_at", inv.StartedAt,
		"policy_version", 1, "source_id", inv.Source, "action", inv.Action,
		"params_hash", text(inv.ParamsHash), "tool_hash", text(inv.ToolHash), "revision", text(""), "risk", inv.Risk, "mode", inv.Mode, "mode_source", inv.ModeSource,
		"approved_by", inv.ApprovedBy, "source_name", inv.SourceName, "decision", text(must(json.Marshal(inv.Steps))), "params", inv.Params, "summary", inv.Summary,
		"integration_id", inv.Integration, "sealed_params", sealed,
	}
	if inv.Status.Terminal() {
		table, columns = "invocations", append(columns, "completed_at", inv.CompletedAt, "duration_ms", inv.DurationMS,
			"denied_reason", inv.DeniedReason, "denied_note", inv.DeniedNote, "error_code", failure.Code, "error_fault", failure.Fault, "error_message", failure.Message,
			"result", inv.Result, "result_summary", inv.ResultNote)
	}
	h.insert(table, columns...)
	return inv.ID
}

// ends has a held call end so, without a person.
func (h *house) ends(id string, status action.Status, reason, note string) {
	h.t.Helper()
	const kept = "id, organization_id, session_id, joins, unattended, created_at, waiter_seen_at, expires_at, policy_version, source_id, action, params_hash, tool_hash, revision, risk, mode, mode_source, source_name, decision, params, summary"
	h.exec("INSERT INTO invocations (status, denied_reason, denied_note, completed_at, "+kept+") SELECT ?, ?, ?, ?, "+kept+" FROM open_calls WHERE id = ?", status, reason, note, h.clock.now(), id)
}

// signedIn adds tokens of a connector.
func (h *house) signedIn(g action.OAuthGrant) {
	h.t.Helper()
	h.insert("oauth_grants", "organization_id", or(g.Organization, org), "connector_id", or(g.Connector, "c1"), "issuer", or(g.Issuer, "https://login.example"), "scope", g.Scope,
		"status", or(string(g.Status), string(action.OAuthConnected)), "reason", g.Reason, "by", g.By, "updated_at", h.clock.now(), "version", 1, "sealed", []byte("tokens"))
}

// override sets a mode, of an automation or for all.
func (h *house) override(automation string, key action.Key, mode action.Mode, by string) {
	h.t.Helper()
	h.insert("policy_overrides", "organization_id", org, "automation_id", text(automation), "source_id", key.Source, "action", key.Action, "mode", mode, "updated_by", by, "updated_at", h.clock.now())
}

// listed adds a tool of the connector as it was reviewed and as it is listed.
func (h *house) listed(tool string, reviewed, current *action.ToolVersion, by string) {
	h.t.Helper()
	row := []any{"organization_id", org, "connector_id", "c1", "tool", tool, "seen_at", h.clock.now()}
	for name, v := range map[string]*action.ToolVersion{"reviewed": reviewed, "current": current} {
		if v != nil {
			row = append(row, name+"_behaviour", text(v.Behaviour), name+"_text", text(v.Text), name+"_definition", v.Definition)
		}
	}
	if reviewed != nil {
		row = append(row, "reviewed_by", by, "reviewed_at", h.clock.now())
	}
	h.insert("tool_reviews", row...)
}

// record adds an event of a trigger, with its context.
func (h *house) record(r event.Record, context string) {
	h.t.Helper()
	h.insert("events", "id", r.ID, "organization_id", org, "trigger_id", r.Trigger, "automation_id", r.Automation, "inbox_id", r.Receipt, "provider", or(r.Provider, "github"),
		"type", or(r.Type, "issue"), "native", r.Native, "dedup_key", or(r.Key, r.ID), "title", text(r.Title), "url", r.URL, "skip_reason", r.Skip, "error", r.Error,
		"created_at", h.clock.now(), "shown", string(r.Redacted), "sealed", h.context(r.ID, context))
}

// context is what an event has sealed; empty: nothing.
func (h *house) context(id, context string) []byte {
	h.t.Helper()
	if context == "" {
		return nil
	}
	return h.sealed("events", id, "sealed", context)
}

// received adds a delivery.
func (h *house) received(r event.Receipt) {
	h.t.Helper()
	status := event.ReceiptStatus(or(string(r.Status), string(event.ReceiptCompleted)))
	h.insert("inbox", "id", r.ID, "organization_id", org, "endpoint", or(r.Endpoint, "direct/github"), "provider", or(r.Provider, "github"), "trigger_id", r.Trigger,
		"dedup_key", r.ID, "native", r.Native, "size", 1, "status", status, "attempt", 1, "next_at", h.clock.now(), "last_error", r.LastError,
		"received_at", h.clock.now(), "processed_at", h.clock.now(), "shown", text(r.Redacted), "sealed", r.Sealed)
}

// delivery adds a delivery of a run that ended so.
func (h *house) delivery(id, run string, status event.RunDeliveryStatus, lastError string) {
	h.t.Helper()
	h.insert("outbox", "id", id, "organization_id", org, "run_id", run, "status", status, "attempt", 1, "next_at", h.clock.now(), "last_error", lastError,
		"created_at", h.clock.now(), "delivered_at", h.clock.now())
}

// polled adds how polling goes.
func (h *house) polled(g event.PollGroup) {
	h.t.Helper()
	h.insert("poll_groups", "id", g.ID, "organization_id", org, "provider", g.Provider, "integration_id", or(g.Integration, "none"), "poll_seconds", 60, "next_at", h.clock.now(),
		"failures", 0, "last_error", g.LastError, "lost", g.Lost, "turn", 0)
}
