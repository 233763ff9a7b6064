package credential

import (
	"context"
	"errors"

	"sallyport/action"
	"sallyport/sources"
)

// bury writes why the integration's credential cannot be used, and returns the
// error that says so. Where there is another credential by now, it buries
// nothing: that one is to be tried.
func (t *Tokens) bury(ctx context.Context, h *owned, status action.IntegrationStatus, reason string) error {
	if !t.setStatus(ctx, h.in, status, reason) {
		return newer()
	}
	dead := h.in
	dead.Status, dead.Reason = status, reason
	return t.over(&dead)
}

// errNewer is a credential that is not the one that the caller knows.
var errNewer = errors.New("there is another credential")

func newer() error {
	e := failing(sources.FaultCredential, nil, "The integration was changed just now; try again.")
	e.Err = errNewer
	return e
}

// itself is who changed a status that no person changed, in records.
const itself = "gateway"

// setStatus writes a status, as the gateway itself found it, and reports whether
// it was found of the credential that there still is.
func (t *Tokens) setStatus(ctx context.Context, in action.Integration, status action.IntegrationStatus, reason string) bool {
	current, err := t.putStatus(ctx, in, status, reason)
	if err != nil {
		t.Log.Error("writing an integration's status", "integration", in.ID, "status", status, "error", err)
	}
	return current
}

func (t *Tokens) putStatus(ctx context.Context, in action.Integration, status action.IntegrationStatus, reason string) (current bool, err error) {
	ctx = context.WithoutCancel(ctx) // it is so, whoever still waits
	changed, err := t.Store.SetIntegrationStatus(ctx, in.Organization, in.ID, in.Version, status, reason, itself)
	if errors.Is(err, action.ErrConflict) {
		t.drop(place{in.Organization, in.ID})
		return false, nil
	}
	if err != nil {
		return true, err
	}
	t.drop(place{in.Organization, in.ID})
	if changed {
		t.Log.Warn("an integration changed its status", "integration", in.ID, "provider", in.Provider, "status", status, "reason", reason)
		t.Changed(in.Organization)
	}
	return true, nil
}
