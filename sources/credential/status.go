package credential

import (
	"context"

	"sallyport/action"
)

// bury writes why an integration cannot be used, and returns the error that
// says so.
func (t *Tokens) bury(ctx context.Context, h *owned, status action.IntegrationStatus, reason string) error {
	t.setStatus(ctx, h.in, status, reason)
	dead := h.in
	dead.Status, dead.Reason = status, reason
	return t.over(&dead)
}

// itself is who changed a status that no person changed, in records.
const itself = "gateway"

// setStatus writes a status, as the gateway itself found it.
func (t *Tokens) setStatus(ctx context.Context, in action.Integration, status action.IntegrationStatus, reason string) {
	ctx = context.WithoutCancel(ctx) // it is so, whoever still waits
	changed, err := t.Store.SetIntegrationStatus(ctx, in.Organization, in.ID, status, reason, itself)
	if err != nil {
		t.Log.Error("writing an integration's status", "integration", in.ID, "status", status, "error", err)
		return
	}
	t.drop(place{in.Organization, in.ID})
	if changed {
		t.Log.Warn("an integration changed its status", "integration", in.ID, "provider", in.Provider, "status", status, "reason", reason)
		t.Changed(in.Organization)
	}
}
