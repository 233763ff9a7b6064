package dashboard_test

import (
	"context"
	"testing"

	"sallyport/action"
	"sallyport/api"
)

// rotate is of the first organization alone.
func rotate(_ context.Context, organization, by string) (api.Rotated, error) {
	if organization != org || by == "" {
		return api.Rotated{}, action.Errorf(action.ErrForbidden, "operator_required", "Ask the operator.")
	}
	return api.Rotated{KeyID: "72cd6e8422c407fb", Resealed: 3}, nil
}

// Who may do nearly everything may not replace the master key.
func TestRotate(t *testing.T) {
	h := newHouse(t)
	const path = "/api/v1/secrets/rotate"
	if got := h.want(200, h.owner, "POST", path, "").json(t); got["key_id"] != "72cd6e8422c407fb" || got["resealed"] == nil || got["left"] == nil {
		t.Errorf("answer %v", got)
	}
	h.problem(403, "owner_required", h.admin, "POST", path, "")
	h.problem(403, "owner_required", h.member, "POST", path, "")
	h.problem(403, "people_only", h.agent, "POST", path, "")
}
