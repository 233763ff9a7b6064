package store

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/calls"
	"sallyport/store/database"
)

// A result that is delivered between the two looks that Begin takes is not
// handed out again: the call that comes now is meant to be another.
func TestBeginAfterConcurrentDelivery(t *testing.T) {
	db, now := openAt(t, newPath(t)), time.Now()
	s := action.Session{ID: uuid.NewString(), Organization: DefaultOrganization, Kind: action.Interactive, CreatedBy: "u", CreatedAt: now}
	if _, err := db.CreateSession(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	d := heldCall(s.Organization, s.ID)
	d.Mode, d.Status, d.SealedParams, d.Executor, d.StartedAt, d.LeaseUntil = action.ModeAllow, action.StatusExecuting, nil, "e", &now, now.Add(time.Hour)
	if _, err := db.Begin(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if _, _, err := db.Finish(t.Context(), &action.Finish{
		Organization: d.Organization, ID: d.ID, Executor: "e", Status: action.StatusCompleted, Now: now, PickupUntil: now.Add(time.Hour), Result: []byte(`{}`),
	}); err != nil {
		t.Fatal(err)
	}
	joined := func() (begun *action.BeginResult) {
		t.Helper()
		err := db.db.ExclusiveTransaction(t.Context(), func(ctx context.Context, tx bun.Tx) (err error) {
			begun, err = db.Join(ctx, tx, d, &calls.CheckResult{Undelivered: database.NullString(d.ID)}, now)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return begun
	}
	if b := joined(); b == nil || b.ID != d.ID {
		t.Errorf("what nobody received is not handed out: %+v", b)
	}
	if err := db.MarkDelivered(t.Context(), d.Organization, d.ID, now); err != nil {
		t.Fatal(err)
	}
	if b := joined(); b != nil {
		t.Errorf("what was delivered is handed out again: %+v", b.Invocation)
	}
}
