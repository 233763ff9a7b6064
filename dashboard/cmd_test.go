package dashboard_test

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"

	"sallyport/action"
)

// What the command gives the server beside the rows, as far as tests need it.

func secretRef(organization, key string) action.Ref {
	return action.Ref{Organization: organization, Table: "secrets", Row: key, Column: "sealed"}
}

func (h *house) sealSecret(organization, key string, value []byte) ([]byte, error) {
	return h.vault.Seal(secretRef(organization, key), value)
}

func (h *house) withdrew(calls []action.Invocation) {
	for _, inv := range calls {
		h.hints.Publish(action.Hint{Kind: action.HintInvocation, Organization: inv.Organization, Session: inv.Session, Invocation: inv.ID, Status: inv.Status})
	}
}

func (h *house) requestGrant(ctx context.Context, s *action.Session, t action.Terms, reason string) (action.GrantRequest, error) {
	hash, err := h.gate.Terms(ctx, s.Organization, &t, false)
	if err != nil {
		return action.GrantRequest{}, err
	}
	now := h.clock.now()
	r, made, err := h.db.RequestGrant(ctx, action.GrantRequest{
		Organization: s.Organization, Session: s.ID, Terms: t, ToolHash: hash, Reason: reason, CreatedAt: now, ExpiresAt: now.Add(24 * time.Hour),
	})
	if made {
		h.hints.Publish(action.Hint{Kind: action.HintPolicy, Organization: s.Organization})
	}
	return r, err
}

func (h *house) testNotify(ctx context.Context, organization string, kind action.NotifyKind) (action.NotifyTestResult, error) {
	_, err := h.db.NotifyChannel(ctx, organization, kind)
	return action.NotifyTestResult{OK: true, Status: 204, Detail: "The endpoint answered 204."}, err
}

func auditKey() []byte { return make([]byte, 32) }

func (h *house) verifyAudit(ctx context.Context, organization string, last *action.AuditHead) (action.AuditReport, error) {
	return h.db.VerifyAudit(ctx, organization, auditKey(), last)
}

// snapshot tells of one provider with the harness' catalog.
func (h *house) snapshot(ctx context.Context, s *action.Session) (action.Snapshot, error) {
	snap := action.Snapshot{GeneratedAt: h.clock.now(), Group: s.Group, Task: s.Task, Capabilities: []action.ProviderAbility{}, Providers: []string{}}
	connectors, err := h.db.ListConnectors(ctx, s.Organization)
	for _, c := range connectors {
		p := action.ProviderAbility{Provider: c.Source(), Name: c.Name, LevelName: "none", DeniedActions: []string{}}
		for _, a := range actionsOf(c.Source()) {
			p.Actions = append(p.Actions, action.ActionAbility{
				Action: a.Name, Tool: a.Tool, Risk: a.Risk, Mode: mode(a.Risk), Denied: mode(a.Risk) == action.ModeDeny, Reason: "Because.",
			})
		}
		snap.Capabilities, snap.Providers = append(snap.Capabilities, p), append(snap.Providers, c.Name)
	}
	return snap, err
}

// files keeps the bytes of evidence.
type files struct{ kept *sync.Map } // by key

func newFiles() files { return files{&sync.Map{}} }

func (f files) Put(_ context.Context, key string, r io.Reader, size int64, _ string) error {
	b, err := io.ReadAll(r)
	if err == nil && int64(len(b)) != size {
		err = action.Errorf(action.ErrInvalid, "wrong_size", "Send the bytes that were announced.")
	}
	if err == nil {
		f.kept.Store(key, b)
	}
	return err
}

func (f files) Get(_ context.Context, key string) (io.ReadCloser, int64, error) {
	b, ok := f.kept.Load(key)
	if !ok {
		return nil, 0, action.Errorf(action.ErrNotFound, "file_not_found", "There is no such file.")
	}
	return io.NopCloser(bytes.NewReader(b.([]byte))), int64(len(b.([]byte))), nil
}
