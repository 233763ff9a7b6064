package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/uptrace/bun"

	"sallyport/action"
)

// TestInvalidRoundReplyDoesNotWrite has the one transaction at a time taken
// while replies come to what nobody asked.
func TestInvalidRoundReplyDoesNotWrite(t *testing.T) {
	db := openAt(t, newPath(t))
	held, free, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- db.db.ExclusiveTransaction(t.Context(), func(context.Context, bun.Tx) error {
			close(held)
			<-free
			return nil
		})
	}()
	<-held
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := db.ReplyRound(ctx, DefaultOrganization, "s", uuid.NewString(), map[string][]byte{"a": nil}, false, time.Now())
	if !errors.Is(err, action.ErrNotFound) {
		t.Errorf("a reply to nothing: %v", err)
	}
	close(free)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
