package dashboard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/dashboard"
	"sallyport/ingest/event"
)

// inboundRows are automations, what starts them, and what came of it.
type inboundRows struct {
	automations []event.Automation
	triggers    []event.Trigger
	schedules   []event.Schedule
	signing     map[string][]event.Secret // by organization and owner
	groups      []event.PollGroup
	records     []event.Record
	contexts    map[string][]byte // sealed, by event
	receipts    []event.Receipt
	runs        []event.Run
	parcels     []event.Parcel
	endpoints   []event.Endpoint
}

// inbound is dashboard's ports of inbound work over memory.
type inbound struct{ *memory }

func conflict(code string) error {
	return action.Errorf(action.ErrConflict, code, "This cannot be done now; look at it again.")
}

func (m inbound) CreateAutomation(_ context.Context, a event.Automation) (event.Automation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.ContainsFunc(m.automations, func(o event.Automation) bool {
		return o.Organization == a.Organization && (o.Name == a.Name || o.ID == a.Name)
	}) {
		return a, &action.Error{Kind: action.ErrConflict, Code: "automation_exists", Field: "/name", Message: "Choose another name."}
	}
	m.automations = append(m.automations, a)
	m.recordLocked(a.Organization, action.EventAutomation, a.ID, a.CreatedBy)
	return a, nil
}

func (m inbound) Automation(_ context.Context, organization, ref string) (event.Automation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, err := find("automation", m.automations, func(a event.Automation) bool {
		return a.Organization == organization && (a.ID == ref || a.Name == ref)
	})
	if err != nil {
		return event.Automation{}, err
	}
	return *a, nil
}

func (m inbound) ListAutomations(_ context.Context, organization string) ([]event.Automation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := only(m.automations, func(a event.Automation) bool { return a.Organization == organization })
	for i := range all {
		all[i].Instructions = ""
	}
	return all, nil
}

func (m inbound) AutomationNames(ctx context.Context, organization string) (map[string]string, error) {
	all, err := m.ListAutomations(ctx, organization)
	names := map[string]string{}
	for _, a := range all {
		names[a.ID] = a.Name
	}
	return names, err
}

func (m inbound) UpdateAutomation(_ context.Context, a event.Automation, by string) (event.Automation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, err := find("automation", m.automations, func(o event.Automation) bool { return o.ID == a.ID && o.Organization == a.Organization })
	if err != nil {
		return a, err
	}
	*row = a
	m.recordLocked(a.Organization, action.EventAutomation, a.ID, by)
	return a, nil
}

func (m inbound) DeleteAutomation(_ context.Context, organization, id, by string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.ContainsFunc(m.runs, func(r event.Run) bool { return r.Automation == id && r.Claim != "" }) {
		return conflict("automation_busy")
	}
	m.automations, _ = without(m.automations, func(a event.Automation) bool { return a.ID == id && a.Organization == organization })
	m.triggers, _ = without(m.triggers, func(t event.Trigger) bool { return t.Automation == id })
	m.recordLocked(organization, action.EventAutomation, id, by)
	return nil
}

func (m inbound) CreateTrigger(_ context.Context, t event.Trigger, secret *event.Secret) (event.Trigger, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.Kind == event.Polling && secret != nil {
		panic("nothing that polls has a secret")
	}
	m.triggers = append(m.triggers, t)
	if secret != nil {
		m.signLocked(t.Organization, t.ID, *secret)
	}
	m.recordLocked(t.Organization, action.EventTrigger, t.ID, t.CreatedBy)
	return t, nil
}

func (m *memory) signLocked(organization, owner string, s event.Secret) {
	owner = organization + " " + owner
	if m.signing == nil {
		m.signing = map[string][]event.Secret{}
	}
	m.signing[owner] = append([]event.Secret{s}, m.signing[owner]...)
}

func (m inbound) Trigger(_ context.Context, organization, id string) (event.Trigger, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, err := find("trigger", m.triggers, func(t event.Trigger) bool { return t.Organization == organization && t.ID == id })
	if err != nil {
		return event.Trigger{}, err
	}
	return *t, nil
}

func (m inbound) ListTriggers(_ context.Context, organization, automation string) ([]event.Trigger, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return only(m.triggers, func(t event.Trigger) bool {
		return t.Organization == organization && (automation == "" || t.Automation == automation)
	}), nil
}

func (m inbound) UpdateTrigger(_ context.Context, t event.Trigger, by string) (event.Trigger, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, err := find("trigger", m.triggers, func(o event.Trigger) bool { return o.ID == t.ID && o.Organization == t.Organization })
	if err != nil {
		return t, err
	}
	*row = t
	m.recordLocked(t.Organization, action.EventTrigger, t.ID, by)
	return t, nil
}

func (m inbound) DeleteTrigger(_ context.Context, organization, id, by string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	left, some := without(m.triggers, func(t event.Trigger) bool { return t.ID == id && t.Organization == organization })
	if !some {
		return missing("trigger")
	}
	m.triggers = left
	delete(m.signing, organization+" "+id)
	m.recordLocked(organization, action.EventTrigger, id, by)
	return nil
}

func (m inbound) CreateSchedule(_ context.Context, s event.Schedule) (event.Schedule, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.schedules = append(m.schedules, s)
	m.recordLocked(s.Organization, action.EventSchedule, s.ID, s.CreatedBy)
	return s, nil
}

func (m inbound) Schedule(_ context.Context, organization, id string) (event.Schedule, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := find("schedule", m.schedules, func(s event.Schedule) bool { return s.Organization == organization && s.ID == id })
	if err != nil {
		return event.Schedule{}, err
	}
	return *s, nil
}

func (m inbound) ListSchedules(_ context.Context, organization, automation string) ([]event.Schedule, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return only(m.schedules, func(s event.Schedule) bool {
		return s.Organization == organization && (automation == "" || s.Automation == automation)
	}), nil
}

func (m inbound) UpdateSchedule(_ context.Context, s event.Schedule, by string) (event.Schedule, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, err := find("schedule", m.schedules, func(o event.Schedule) bool { return o.ID == s.ID && o.Organization == s.Organization })
	if err != nil {
		return s, err
	}
	if !s.Enabled && s.NextAt != nil {
		panic("what is disabled is not due")
	}
	*row = s
	m.recordLocked(s.Organization, action.EventSchedule, s.ID, by)
	return s, nil
}

func (m inbound) DeleteSchedule(_ context.Context, organization, id, by string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	left, some := without(m.schedules, func(s event.Schedule) bool { return s.ID == id && s.Organization == organization })
	if !some {
		return missing("schedule")
	}
	m.schedules = left
	m.recordLocked(organization, action.EventSchedule, id, by)
	return nil
}

// ownerLocked reports whether the organization has such an owner of secrets.
func (m *memory) ownerLocked(organization, owner string) bool {
	return slices.ContainsFunc(m.triggers, func(t event.Trigger) bool { return t.ID == owner && t.Organization == organization }) ||
		owner == dashboard.EndpointSecrets && slices.ContainsFunc(m.endpoints, func(e event.Endpoint) bool { return e.Organization == organization }) ||
		owner == dashboard.NotifySecrets && slices.ContainsFunc(m.channels, func(c action.NotifyChannel) bool {
			return c.Organization == organization && c.Kind == action.NotifyWebhook
		})
}

func (m inbound) SigningSecrets(_ context.Context, organization, owner string) ([]event.Secret, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ownerLocked(organization, owner) {
		return nil, missing("owner")
	}
	return m.goodLocked(organization, owner), nil
}

func (m inbound) SecretOwners(_ context.Context, organization string) (map[string]bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	owners := map[string]bool{}
	for key := range m.signing {
		if of, owner, _ := strings.Cut(key, " "); of == organization && len(m.goodLocked(of, owner)) > 0 {
			owners[owner] = true
		}
	}
	return owners, nil
}

func (m *memory) goodLocked(organization, owner string) []event.Secret {
	return only(m.signing[organization+" "+owner], func(s event.Secret) bool { return s.ExpiresAt == nil || m.now().Before(*s.ExpiresAt) })
}

func (m inbound) RotateSecret(_ context.Context, organization, owner string, s event.Secret, othersUntil time.Time, by string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ownerLocked(organization, owner) {
		return missing("owner")
	}
	for i := range m.signing[organization+" "+owner] {
		m.signing[organization+" "+owner][i].ExpiresAt = &othersUntil
	}
	m.signLocked(organization, owner, s)
	m.recordLocked(organization, action.EventTrigger, owner, by)
	return nil
}

func (m inbound) PollGroups(_ context.Context, organization string) ([]event.PollGroup, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return only(m.groups, func(g event.PollGroup) bool { return g.Organization == organization }), nil
}

func (m inbound) Event(_ context.Context, organization, id string) (event.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := find("event", m.records, func(r event.Record) bool { return r.Organization == organization && r.ID == id })
	if err != nil {
		return event.Record{}, err
	}
	return *r, nil
}

func (m inbound) ListEvents(_ context.Context, f event.RecordFilter) (action.Page[event.Record], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return page(only(m.records, func(r event.Record) bool {
		return r.Organization == f.Organization && (f.Trigger == "" || r.Trigger == f.Trigger) && (f.Automation == "" || r.Automation == f.Automation) &&
			(f.Receipt == "" || r.Receipt == f.Receipt) && (f.Provider == "" || r.Provider == f.Provider) && (f.Status == "" || r.Status() == f.Status) && (f.Skipped == nil || *f.Skipped == (r.Skip != ""))
	}), f.Limit, f.Cursor), nil
}

func (m inbound) SkipEvent(_ context.Context, organization, id, by string) (event.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := find("event", m.records, func(r event.Record) bool { return r.Organization == organization && r.ID == id })
	if err != nil {
		return event.Record{}, err
	}
	if r.RunStatus != event.RunQueued {
		return *r, conflict("event_not_queued")
	}
	r.Skip, r.RunStatus = event.SkipManual, event.RunSkipped
	m.recordLocked(organization, action.EventRun, id, by)
	return *r, nil
}

func (m inbound) EventContext(_ context.Context, organization, id string) ([]byte, error) {
	if _, err := m.Event(context.Background(), organization, id); err != nil {
		return nil, err
	}
	return m.contexts[id], nil
}

func (m inbound) Receipt(_ context.Context, organization, id string) (event.Receipt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := find("delivery", m.receipts, func(r event.Receipt) bool { return r.Organization == organization && r.ID == id })
	if err != nil {
		return event.Receipt{}, err
	}
	return *r, nil
}

func (m inbound) ListReceipts(_ context.Context, f event.ReceiptFilter) (action.Page[event.Receipt], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return page(only(m.receipts, func(r event.Receipt) bool {
		return r.Organization == f.Organization && (f.Trigger == "" || r.Trigger == f.Trigger) && (f.Provider == "" || r.Provider == f.Provider) && (f.Status == "" || r.Status == f.Status)
	}), f.Limit, f.Cursor), nil
}

func (m inbound) RedriveReceipt(_ context.Context, organization, id, by string) (event.Receipt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := find("delivery", m.receipts, func(r event.Receipt) bool { return r.Organization == organization && r.ID == id })
	if err != nil {
		return event.Receipt{}, err
	}
	if r.Status != event.ReceiptFailed {
		return *r, conflict("delivery_not_failed")
	}
	r.Status = event.ReceiptQueued
	m.recordLocked(organization, action.EventRun, id, by)
	return *r, nil
}

func (m *memory) runLocked(organization, id string) (*event.Run, error) {
	return find("run", m.runs, func(r event.Run) bool { return r.Organization == organization && r.ID == id })
}

func (m inbound) Run(_ context.Context, organization, id string) (event.Run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.runLocked(organization, id)
	if err != nil {
		return event.Run{}, err
	}
	return *r, nil
}

func (m inbound) LastRuns(_ context.Context, organization string) (map[string]event.Run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := map[string]event.Run{}
	for _, r := range m.runs {
		if had, ok := last[r.Automation]; r.Organization == organization && (!ok || had.CreatedAt.Before(r.CreatedAt)) {
			last[r.Automation] = r
		}
	}
	return last, nil
}

func (m inbound) RunOfSession(_ context.Context, organization, session string) (event.Run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := find("session", m.sessions, func(s action.Session) bool { return s.ID == session && s.Organization == organization })
	if err != nil {
		return event.Run{}, err
	}
	r, err := find("run", m.runs, func(r event.Run) bool { return r.Organization == organization && s.Event != "" && r.Event == s.Event })
	if err != nil {
		return event.Run{}, err
	}
	return *r, nil
}

func (m inbound) OriginsOfSessions(_ context.Context, organization string, sessions []string) (map[string]event.Origin, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := map[string]event.Origin{}
	for _, s := range m.sessions {
		if s.Organization != organization || s.Event == "" || !slices.Contains(sessions, s.ID) {
			continue
		}
		known[s.ID] = event.Origin{Event: s.Event}
		if r, err := find("run", m.runs, func(r event.Run) bool { return r.Organization == organization && r.Event == s.Event }); err == nil {
			known[s.ID] = event.Origin{Event: s.Event, Run: r.ID, Status: r.Status, Message: r.Message}
		}
	}
	return known, nil
}

func (m inbound) ListRuns(_ context.Context, f event.RunFilter) (action.Page[event.Run], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return page(only(m.runs, func(r event.Run) bool {
		return r.Organization == f.Organization && (f.Automation == "" || r.Automation == f.Automation) && (f.Status == "" || r.Status == f.Status) &&
			(f.Trigger == "" || r.Trigger == f.Trigger) && (f.Event == "" || r.Event == f.Event)
	}), f.Limit, f.Cursor), nil
}

func (m inbound) ClaimRun(_ context.Context, c event.Claim) (event.Work, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.By == "" || c.Life <= 0 {
		panic("a claim by nobody, or for no time")
	}
	r, err := find("run", m.runs, func(r event.Run) bool {
		if c.Run != "" {
			return r.ID == c.Run && r.Organization == c.Organization
		}
		return r.Organization == c.Organization && r.Status == event.RunQueued && (c.Automation == "" || r.Automation == c.Automation)
	})
	switch {
	case err != nil && c.Run == "":
		return event.Work{}, action.Errorf(action.ErrNotFound, "no_run", "No run waits.")
	case err != nil:
		return event.Work{}, err
	case r.Status != event.RunQueued:
		return event.Work{}, conflict("run_not_queued")
	}
	lease, deadline := m.now().Add(c.Lease), m.now().Add(c.Life)
	r.Attempt++
	r.Status, r.Claim, r.ClaimedBy, r.LeaseUntil, r.Deadline = event.RunClaimed, fmt.Sprintf("claim-%d", r.Attempt), c.By, &lease, &deadline
	r.Session = fmt.Sprintf("%s-%d", r.ID, r.Attempt)
	m.sessions = append(m.sessions, action.Session{
		ID: r.Session, Organization: r.Organization, Kind: action.Unattended, Type: action.TypeAutomation, Automation: r.Automation,
		Event: r.Event, CreatedBy: "automation:" + r.Automation, CreatedAt: m.now(), ExpiresAt: &deadline,
	})
	w := event.Work{Run: *r, ExpiresAt: deadline, Sealed: m.contexts[r.Event]}
	for _, a := range m.automations {
		if a.ID == r.Automation && a.Organization == r.Organization {
			w.Automation = a
		}
	}
	for _, e := range m.records {
		if e.ID == r.Event {
			w.Record = e
		}
	}
	return w, nil
}

func (m inbound) RenewRun(_ context.Context, organization, id, claim string) (event.Run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.runLocked(organization, id)
	if err != nil {
		return event.Run{}, err
	}
	if claim == "" || r.Claim != claim {
		return event.Run{}, conflict("claim_lost")
	}
	if r.Status == event.RunClaimed {
		r.Status = event.RunRunning
	}
	return *r, nil
}

// endLocked ends a run, and its session with it.
func (m *memory) endLocked(r *event.Run, e event.Ending) (event.Run, []action.Invocation) {
	now := m.now()
	r.Status, r.Code, r.Message, r.Result, r.Claim, r.LeaseUntil = e.Status, e.Code, e.Message, e.Result, "", nil
	if e.Status.Ended() {
		r.EndedAt = &now
	}
	var withdrew []action.Invocation
	for i := range m.sessions {
		if m.sessions[i].ID == r.Session {
			m.sessions[i].RevokedAt = &now
		}
	}
	for i := range m.invocations {
		if inv := &m.invocations[i]; inv.Session == r.Session && inv.Status == action.StatusPending {
			inv.Status, inv.DeniedReason = action.StatusDenied, action.DeniedWithdrawn
			withdrew = append(withdrew, *inv)
		}
	}
	return *r, withdrew
}

func (m inbound) FinishRun(_ context.Context, organization, id, claim string, e event.Ending) (event.Run, []action.Invocation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.runLocked(organization, id)
	if err != nil {
		return event.Run{}, nil, err
	}
	if claim == "" || r.Claim != claim {
		return event.Run{}, nil, conflict("claim_lost")
	}
	run, withdrew := m.endLocked(r, e)
	return run, withdrew, nil
}

func (m inbound) CancelRun(_ context.Context, organization, id, by, reason string) (event.Run, []action.Invocation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.runLocked(organization, id)
	if err != nil {
		return event.Run{}, nil, err
	}
	if r.Status.Ended() {
		return *r, nil, conflict("run_ended")
	}
	run, withdrew := m.endLocked(r, event.Ending{Status: event.RunFailed, Code: event.RunCancelled, Message: reason})
	m.recordLocked(organization, action.EventRun, id, by)
	return run, withdrew, nil
}

func (m inbound) ResolveRun(_ context.Context, organization, id, by string, e event.Ending) (event.Run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.runLocked(organization, id)
	if err != nil {
		return event.Run{}, err
	}
	if r.Status != event.RunNeeds || r.Claim != "" {
		return *r, conflict("run_needs_nobody")
	}
	run, _ := m.endLocked(r, e)
	m.recordLocked(organization, action.EventRun, id, by)
	return run, nil
}

func (m inbound) RedriveRun(_ context.Context, organization, id, by string) (event.Run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.runLocked(organization, id)
	if err != nil {
		return event.Run{}, err
	}
	if r.Status != event.RunFailed && r.Status != event.RunNeeds {
		return *r, conflict("run_not_failed")
	}
	r.Status, r.Code, r.Message, r.Result, r.EndedAt = event.RunQueued, "", "", nil, nil
	m.recordLocked(organization, action.EventRun, id, by)
	return *r, nil
}

func (m inbound) Parcel(_ context.Context, organization, id string) (event.Parcel, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := find("parcel", m.parcels, func(p event.Parcel) bool { return p.Organization == organization && p.ID == id })
	if err != nil {
		return event.Parcel{}, err
	}
	return *p, nil
}

func (m inbound) ListParcels(_ context.Context, f event.ParcelFilter) (action.Page[event.Parcel], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return page(only(m.parcels, func(p event.Parcel) bool {
		return p.Organization == f.Organization && (f.Status == "" || p.Status == f.Status)
	}), f.Limit, f.Cursor), nil
}

func (m inbound) RunEndpoint(_ context.Context, organization string) (event.Endpoint, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, err := find("endpoint", m.endpoints, func(e event.Endpoint) bool { return e.Organization == organization })
	if err != nil {
		return event.Endpoint{}, err
	}
	out := *e
	out.Secrets = m.goodLocked(organization, dashboard.EndpointSecrets)
	return out, nil
}

func (m inbound) SetRunEndpoint(ctx context.Context, e event.Endpoint, secret *event.Secret) (event.Endpoint, error) {
	m.mu.Lock()
	m.endpoints, _ = without(m.endpoints, func(o event.Endpoint) bool { return o.Organization == e.Organization })
	m.endpoints = append(m.endpoints, e)
	if secret != nil {
		m.signLocked(e.Organization, dashboard.EndpointSecrets, *secret)
	}
	m.recordLocked(e.Organization, action.EventEndpoint, "endpoint", e.UpdatedBy)
	m.mu.Unlock()
	return m.RunEndpoint(ctx, e.Organization)
}

func (m inbound) DeleteRunEndpoint(_ context.Context, organization, by string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	left, some := without(m.endpoints, func(e event.Endpoint) bool { return e.Organization == organization })
	if !some {
		return missing("endpoint")
	}
	m.endpoints = left
	delete(m.signing, organization+" "+dashboard.EndpointSecrets)
	m.recordLocked(organization, action.EventEndpoint, "endpoint", by)
	return nil
}

// safe seals by writing the place before the value, and opens only there.
type safe struct{}

func (safe) Seal(ref action.Ref, plain []byte) ([]byte, error) {
	return fmt.Appendf(nil, "%s/%s/%s/%s:%s", ref.Organization, ref.Table, ref.Row, ref.Column, plain), nil
}

func (safe) Open(ref action.Ref, sealed []byte) ([]byte, error) {
	head, _ := safe{}.Seal(ref, nil)
	plain, ok := strings.CutPrefix(string(sealed), string(head))
	if !ok {
		return nil, fmt.Errorf("sealed for another place than %+v", ref)
	}
	return []byte(plain), nil
}

func eventProviders() []dashboard.EventProvider {
	typ := func(id string) []dashboard.EventType {
		return []dashboard.EventType{{ID: id, Title: id, Config: json.RawMessage(`{"type":"object"}`)}}
	}
	return []dashboard.EventProvider{
		{
			ID: "github", Title: "GitHub", Webhook: true, Endpoint: "/webhooks/direct/github/{trigger}", URL: public + "/webhooks/direct/github",
			Types: append(typ("issue"), typ("push")...), CheckConfig: noTypos,
		},
		{ID: "linear", Title: "Linear", Webhook: true, Polling: true, Gives: true, Secret: "Linear shows it as **Signing secret**.", Endpoint: "/webhooks/direct/linear/{trigger}", Types: typ("issue")},
		{ID: "gmail", Title: "Gmail", Polling: true, Types: typ("message")},
		{ID: "custom", Title: "Custom", Webhook: true, Endpoint: "/webhooks/custom/{trigger}", Types: typ("event")},
		{ID: "posthog", Title: "PostHog", Webhook: true, Endpoint: "/webhooks/posthog/{automation}", Types: typ("event")},
	}
}

func noTypos(_ string, config json.RawMessage) error {
	if strings.Contains(string(config), "lables") {
		return &action.Error{Kind: action.ErrInvalid, Code: "invalid_config", Field: "/config/lables", Message: "There is no such filter."}
	}
	return nil
}

// hourly is due at each full hour, whatever the expression, unless it is "never".
func hourly(cron, zone string, after time.Time, n int) ([]time.Time, error) {
	switch {
	case zone == "Mars/Olympus":
		return nil, &action.Error{Kind: action.ErrInvalid, Code: "invalid_field", Field: "/timezone", Message: "Give an IANA name."}
	case len(strings.Fields(cron)) != 5:
		return nil, &action.Error{Kind: action.ErrInvalid, Code: "invalid_field", Field: "/cron_expression", Message: "Give 5 fields."}
	}
	var all []time.Time
	for t := after.Truncate(time.Hour); len(all) < n; {
		t = t.Add(time.Hour)
		all = append(all, t)
	}
	return all, nil
}
