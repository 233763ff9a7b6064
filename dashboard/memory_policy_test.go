package dashboard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sallyport/action"
)

// policyRows are the rows of policy and evidence. What a test of a refusal
// must find unchanged is in here, whole.
type policyRows struct {
	overrides    []action.Override
	capabilities []action.Capability
	gates        []action.GateApproval
	quotas       []action.Quota
	settings     map[string]action.Settings
	reviews      []action.ToolReview
	grants       []action.Grant
	requests     []action.GrantRequest
	history      []action.PolicyEvent
	heads        []action.AuditHead
	exportFails  error // after the rows that there are
}

func (m *memory) recordLocked(organization, kind, subject, by string) {
	if by == "" {
		panic("a change of policy by nobody")
	}
	m.history = append(m.history, action.PolicyEvent{
		ID: fmt.Sprintf("e%d", len(m.history)+1), Organization: organization, Kind: kind, Subject: subject, By: by, At: m.now(), After: json.RawMessage(`{}`),
	})
}

// without removes what matches, and says whether there was any.
func without[T any](list []T, match func(T) bool) ([]T, bool) {
	left := slices.DeleteFunc(slices.Clone(list), match)
	return left, len(left) < len(list)
}

func only[T any](list []T, match func(T) bool) []T {
	left, _ := without(list, func(v T) bool { return !match(v) })
	return left
}

func badField(field string) error {
	return &action.Error{Kind: action.ErrInvalid, Code: "invalid_policy", Field: field, Message: "Give something else."}
}

func (m *memory) SetOverride(_ context.Context, o action.Override) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.overrides, _ = without(m.overrides, func(x action.Override) bool {
		return x.Organization == o.Organization && x.Key == o.Key && x.Automation == o.Automation
	})
	m.overrides = append(m.overrides, o)
	m.recordLocked(o.Organization, action.EventMode, o.Key.String(), o.UpdatedBy)
	return nil
}

func (m *memory) UnsetOverride(_ context.Context, organization, automation string, key action.Key, by string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	left, some := without(m.overrides, func(x action.Override) bool {
		return x.Organization == organization && x.Key == key && x.Automation == automation
	})
	if !some {
		return missing("override")
	}
	m.overrides = left
	m.recordLocked(organization, action.EventMode, key.String(), by)
	return nil
}

func (m *memory) Overrides(_ context.Context, organization string) ([]action.Override, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return only(m.overrides, func(o action.Override) bool { return o.Organization == organization }), 1, nil
}

func (m *memory) PutCapability(_ context.Context, c action.Capability) (action.Capability, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !c.Level.Valid():
		return c, badField("/level")
	case c.Level == action.LevelProduction && c.Gate == "":
		return c, badField("/required_gate")
	}
	m.capabilities, _ = without(m.capabilities, func(x action.Capability) bool {
		return x.Organization == c.Organization && x.Group == c.Group && x.Provider == c.Provider
	})
	m.capabilities = append(m.capabilities, c)
	m.recordLocked(c.Organization, action.EventCapability, c.Group, c.GrantedBy)
	return c, nil
}

func (m *memory) DeleteCapability(_ context.Context, organization, group, provider, by string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	left, some := without(m.capabilities, func(x action.Capability) bool {
		return x.Organization == organization && x.Group == group && x.Provider == provider
	})
	if !some {
		return missing("capability")
	}
	m.capabilities = left
	m.recordLocked(organization, action.EventCapability, group, by)
	return nil
}

func (m *memory) ListCapabilities(_ context.Context, organization, group string) ([]action.Capability, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return only(m.capabilities, func(c action.Capability) bool {
		return c.Organization == organization && (group == "" || c.Group == group)
	}), nil
}

func (m *memory) ApproveGate(_ context.Context, a action.GateApproval) (action.GateApproval, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a.ID, a.ApprovedAt = fmt.Sprintf("gate-%d", len(m.gates)+1), m.now()
	m.gates = append(m.gates, a)
	m.recordLocked(a.Organization, action.EventGate, a.ID, a.ApprovedBy)
	return a, nil
}

func (m *memory) RevokeGate(_ context.Context, organization, id, by string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, err := find("gate", m.gates, func(a action.GateApproval) bool { return a.ID == id && a.Organization == organization })
	if err != nil {
		return err
	}
	now := m.now()
	a.RevokedAt = &now
	m.recordLocked(organization, action.EventGate, id, by)
	return nil
}

func (m *memory) ListGates(_ context.Context, organization, group, task string) ([]action.GateApproval, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return only(m.gates, func(a action.GateApproval) bool {
		return a.Organization == organization && (group == "" || a.Group == group) && (task == "" || a.Task == task)
	}), nil
}

func (m *memory) SetQuota(_ context.Context, q action.Quota) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.quotas, _ = without(m.quotas, func(x action.Quota) bool {
		return x.Organization == q.Organization && x.Key == q.Key && x.Per == q.Per
	})
	m.quotas = append(m.quotas, q)
	m.recordLocked(q.Organization, action.EventQuota, q.Key.String(), q.UpdatedBy)
	return nil
}

func (m *memory) UnsetQuota(_ context.Context, organization string, key action.Key, per action.QuotaScope, by string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	left, some := without(m.quotas, func(x action.Quota) bool { return x.Organization == organization && x.Key == key && x.Per == per })
	if !some {
		return missing("quota")
	}
	m.quotas = left
	m.recordLocked(organization, action.EventQuota, key.String(), by)
	return nil
}

func (m *memory) ListQuotas(_ context.Context, organization string) ([]action.Quota, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return only(m.quotas, func(q action.Quota) bool { return q.Organization == organization }), nil
}

func (m *memory) Settings(_ context.Context, organization string) (action.Settings, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, ok := m.settings[organization]; ok {
		return s, nil
	}
	return action.DefaultSettings(), nil
}

func (m *memory) SetSettings(_ context.Context, organization string, s action.Settings, by string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settings = map[string]action.Settings{organization: s}
	m.recordLocked(organization, action.EventSettings, "settings", by)
	return nil
}

func (m *memory) ListReviews(_ context.Context, organization, connector string) ([]action.ToolReview, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return only(m.reviews, func(r action.ToolReview) bool { return r.Organization == organization && r.Connector == connector }), nil
}

func (m *memory) ReviewTools(ctx context.Context, organization, connector string, seen map[string]action.ToolHashes, by string) ([]action.ToolReview, error) {
	m.mu.Lock()
	for tool, hashes := range seen {
		r, err := find("tool", m.reviews, func(r action.ToolReview) bool { return r.Organization == organization && r.Tool == tool })
		if err == nil && (r.Current == nil && hashes != action.ToolHashes{} || r.Current != nil && r.Current.ToolHashes != hashes) {
			err = action.Errorf(action.ErrConflict, "tool_changed", "The tool %s changed since you looked.", tool)
		}
		if errors.Is(err, action.ErrNotFound) {
			err = action.Errorf(action.ErrNotFound, "tool_not_found", "The connector has no tool %q; look at its list again.", tool)
		}
		if err != nil {
			m.mu.Unlock()
			return nil, err
		}
	}
	now := m.now()
	for i, r := range m.reviews {
		if _, ok := seen[r.Tool]; r.Organization == organization && r.Connector == connector && (ok || seen == nil) {
			m.reviews[i].State, m.reviews[i].Reviewed, m.reviews[i].ReviewedBy, m.reviews[i].ReviewedAt = action.ToolReviewed, r.Current, by, &now
			m.recordLocked(organization, action.EventReview, r.Tool, by)
		}
	}
	m.reviews, _ = without(m.reviews, func(r action.ToolReview) bool {
		return r.Organization == organization && r.Connector == connector && r.State == action.ToolReviewed && r.Current == nil
	})
	m.mu.Unlock()
	return m.ListReviews(ctx, organization, connector)
}

func (m *memory) OnboardTools(ctx context.Context, organization, connector string, seen map[string]action.ToolHashes, modes map[string]action.Mode, by string) ([]action.ToolReview, error) {
	list, err := m.ReviewTools(ctx, organization, connector, seen, by)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(modes)) {
		key := action.Key{Source: "connector:" + connector, Action: name}
		if err := m.SetOverride(ctx, action.Override{Organization: organization, Key: key, Mode: modes[name], UpdatedBy: by}); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (m *memory) PolicyEvents(_ context.Context, f action.PolicyEventFilter) (action.Page[action.PolicyEvent], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return page(only(m.history, func(e action.PolicyEvent) bool {
		return e.Organization == f.Organization && (f.Kind == "" || e.Kind == f.Kind) && (f.Subject == "" || e.Subject == f.Subject) &&
			(f.By == "" || e.By == f.By) && !e.At.Before(f.From) && (f.To.IsZero() || e.At.Before(f.To))
	}), f.Limit, f.Cursor), nil
}

func (m *memory) CreateGrant(ctx context.Context, g action.Grant) (action.Grant, error) {
	if g.Scope == action.ScopeSession {
		s, err := m.Session(ctx, g.Session)
		switch {
		case g.Session == "":
			return g, badField("/session_id")
		case err != nil || s.Organization != g.Organization:
			return g, missing("session")
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.grantLocked(g), nil
}

func (m *memory) grantLocked(g action.Grant) action.Grant {
	g.ID, g.CreatedAt = fmt.Sprintf("grant-%d", len(m.grants)+1), m.now()
	m.grants = append(m.grants, g)
	m.recordLocked(g.Organization, action.EventGrant, g.ID, g.CreatedBy)
	return g
}

func (m *memory) RevokeGrant(_ context.Context, organization, id, by string) (action.Grant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g, err := find("grant", m.grants, func(g action.Grant) bool { return g.ID == id && g.Organization == organization })
	if err != nil {
		return action.Grant{}, err
	}
	now := m.now()
	g.RevokedAt, g.RevokedBy = &now, by
	m.recordLocked(organization, action.EventGrant, id, by)
	return *g, nil
}

func (m *memory) Grant(_ context.Context, organization, id string) (action.Grant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g, err := find("grant", m.grants, func(g action.Grant) bool { return g.ID == id && g.Organization == organization })
	if err != nil {
		return action.Grant{}, err
	}
	return *g, nil
}

func (m *memory) ListGrants(_ context.Context, f action.GrantFilter) (action.Page[action.Grant], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return page(only(m.grants, func(g action.Grant) bool {
		return g.Organization == f.Organization && (f.Session == "" || g.Session == f.Session || f.Covering && g.Session == "") &&
			(f.Source == "" || g.Source == f.Source) && (f.Action == "" || g.Action == f.Action) && (f.Scope == "" || g.Scope == f.Scope) && (!f.Usable || g.Usable(m.now()))
	}), f.Limit, f.Cursor), nil
}

// requestGrant is what cmd does with the Gate and the rows.
func (h *house) requestGrant(ctx context.Context, s *action.Session, t action.Terms, reason string) (action.GrantRequest, error) {
	hash, err := h.gate.Terms(ctx, s.Organization, &t, false)
	if err != nil {
		return action.GrantRequest{}, err
	}
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	r := action.GrantRequest{
		ID: fmt.Sprintf("request-%d", len(h.m.requests)+1), Organization: s.Organization, Session: s.ID, Terms: t, ToolHash: hash, Reason: reason,
		Status: action.RequestPending, CreatedAt: h.clock.now(), ExpiresAt: h.clock.now().Add(24 * time.Hour),
	}
	h.m.requests = append(h.m.requests, r)
	h.hints.Publish(action.Hint{Kind: action.HintPolicy, Organization: s.Organization})
	return r, nil
}

func (m *memory) GrantRequest(_ context.Context, organization, id string) (action.GrantRequest, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.requestLocked(organization, id)
	if err != nil {
		return action.GrantRequest{}, err
	}
	return *r, nil
}

func (m *memory) requestLocked(organization, id string) (*action.GrantRequest, error) {
	return find("grant_request", m.requests, func(r action.GrantRequest) bool { return r.ID == id && r.Organization == organization })
}

func (m *memory) ListGrantRequests(_ context.Context, f action.RequestFilter) (action.Page[action.GrantRequest], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return page(only(m.requests, func(r action.GrantRequest) bool {
		return r.Organization == f.Organization && (f.Session == "" || r.Session == f.Session) && (f.Status == "" || r.Status == f.Status)
	}), f.Limit, f.Cursor), nil
}

func (m *memory) settleRequestLocked(v action.RequestVerdict, to action.RequestStatus) (*action.GrantRequest, error) {
	r, err := m.requestLocked(v.Organization, v.ID)
	switch {
	case err != nil:
		return nil, err
	case r.Status != action.RequestPending:
		return nil, action.Errorf(action.ErrConflict, "already_decided", "This request was already %s.", r.Status)
	}
	if to == action.RequestApproved && v.Terms != nil {
		if err := v.Terms.Narrows(&r.Terms); err != nil {
			return nil, err
		}
	}
	now := m.now()
	r.Status, r.DecidedBy, r.DecidedAt, r.DecidedNote = to, v.By, &now, v.Note
	m.recordLocked(v.Organization, action.EventRequest, r.ID, v.By)
	return r, nil
}

func (m *memory) ApproveRequest(_ context.Context, v action.RequestVerdict) (action.GrantRequest, action.Grant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.settleRequestLocked(v, action.RequestApproved)
	if err != nil {
		return action.GrantRequest{}, action.Grant{}, err
	}
	g := action.Grant{Organization: v.Organization, Terms: r.Terms, ToolHash: r.ToolHash, Request: r.ID, CreatedBy: v.By}
	if v.Terms != nil {
		g.Terms = *v.Terms
	}
	if g.Scope == action.ScopeSession {
		g.Session = r.Session
	}
	g = m.grantLocked(g)
	r.Grant = g.ID
	return *r, g, nil
}

func (m *memory) DenyRequest(_ context.Context, v action.RequestVerdict) (action.GrantRequest, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.settleRequestLocked(v, action.RequestDenied)
	if err != nil {
		return action.GrantRequest{}, err
	}
	return *r, nil
}

func (m *memory) AuditHeads(_ context.Context, organization string) ([]action.AuditHead, error) {
	return only(m.heads, func(h action.AuditHead) bool { return h.Organization == organization }), nil
}

func (m *memory) Evidence(_ context.Context, _, id string) (action.Evidence, error) {
	return action.Evidence{Digest: "digest of " + id}, nil
}

func (m *memory) VerifyAudit(_ context.Context, organization string, known *action.AuditHead) (action.AuditReport, error) {
	r := action.AuditReport{Organization: organization, OK: true, Checked: int64(len(m.invocations))}
	if known != nil && known.Hash != "good" {
		r.OK, r.Faults = false, []action.AuditFault{{Kind: "cut_off", Seq: known.Seq, Message: "Links are missing."}}
	}
	return r, nil
}

func (m *memory) Export(ctx context.Context, f action.InvocationFilter, yield func(action.Invocation) error) error {
	for _, inv := range m.invocations {
		if !m.wantedLocked(f, inv) {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := yield(inv); err != nil {
			return err
		}
	}
	return m.exportFails
}

func (m *memory) ExportPolicy(_ context.Context, organization string, _, _ time.Time, yield func(action.PolicyEvent) error) error {
	for _, e := range m.history {
		if e.Organization == organization {
			if err := yield(e); err != nil {
				return err
			}
		}
	}
	return m.exportFails
}

// snapshot tells of one provider with the harness' catalog.
func (m *memory) snapshot(_ context.Context, s *action.Session) (action.Snapshot, error) {
	snap := action.Snapshot{GeneratedAt: m.now(), Group: s.Group, Task: s.Task, Capabilities: []action.ProviderAbility{}, Providers: []string{}}
	for _, c := range only(m.connectors, func(c action.Connector) bool { return c.Organization == s.Organization }) {
		p := action.ProviderAbility{Provider: c.Source(), Name: c.Name, LevelName: "none", DeniedActions: []string{}}
		for _, a := range actionsOf(c.Source()) {
			p.Actions = append(p.Actions, action.ActionAbility{
				Action: a.Name, Tool: a.Tool, Risk: a.Risk, Mode: mode(a.Risk), Denied: mode(a.Risk) == action.ModeDeny, Reason: "Because.",
			})
		}
		snap.Capabilities, snap.Providers = append(snap.Capabilities, p), append(snap.Providers, c.Name)
	}
	return snap, nil
}

// Terms checks what the real Gate does, as far as the tests of this package
// need it; the rest is tested with that.
func (g *gate) Terms(ctx context.Context, organization string, t *action.Terms, unreviewed bool) (string, error) {
	bad := func(field string) (string, error) {
		return "", &action.Error{Kind: action.ErrInvalid, Code: "invalid_grant", Field: field, Message: "Give something else."}
	}
	for pointer := range t.Pins {
		if !strings.HasPrefix(pointer, "/") {
			return bad("/pins")
		}
	}
	switch {
	case !t.Scope.Valid():
		return bad("/scope")
	case strings.Contains(t.Source+t.Action, "*"), t.Any && t.Action != "", !t.Any && t.Action == "":
		return bad("/action")
	case t.MaxCalls != nil && *t.MaxCalls < 1:
		return bad("/max_calls")
	case t.ExpiresAt != nil && !g.m.now().Before(*t.ExpiresAt):
		return bad("/expires_at")
	case t.Any:
		return "", nil
	}
	a, err := (catalog{}).Find(ctx, organization, t.Source, t.Action, false)
	if err != nil {
		return "", err
	}
	if alerts := action.Alerts(steps(a)); len(alerts) > 0 && !unreviewed {
		return "", &action.Error{Kind: action.ErrConflict, Code: "tool_unreviewed", Field: "/unreviewed", Message: alerts[0] + " Review it first."}
	}
	return a.Hash, nil
}

func (g *gate) Explain(ctx context.Context, s *action.Session, source, name string, params json.RawMessage) (action.Explained, error) {
	a, err := (catalog{}).Find(ctx, s.Organization, source, name, false)
	if err != nil {
		return action.Explained{}, err
	}
	if params != nil {
		if !json.Valid(params) {
			return action.Explained{}, &action.Error{Kind: action.ErrInvalid, Code: "invalid_json", Message: "The params are no JSON."}
		}
		if err := a.Check(params); err != nil {
			return action.Explained{}, err
		}
	}
	d, err := (decider{}).Decide(ctx, s, a, params, true)
	e := action.Explained{Available: action.Available{Action: a, Decision: d}}
	if a.Name == "drifted" {
		e.Refused, e.Note = action.DeniedOften, "People denied it too often."
	}
	return e, err
}
