package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"sallyport/store"
)

// Of the instances that share rows one renews a connector's tokens; the others
// wait for it, and no longer than whoever wants the token.
func TestPatientLock(t *testing.T) {
	db, err := store.Open(t.Context(), store.Config{Path: t.TempDir() + "/sallyport.db"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	here := patient{&rowLocks{db: db, instance: "here", log: slog.Default()}}
	there := patient{&rowLocks{db: db, instance: "there", log: slog.Default()}}
	unlock, err := here.lock(t.Context(), "oauth:o:c")
	if err != nil {
		t.Fatal(err)
	}
	if other, err := there.lock(t.Context(), "oauth:o:d"); err != nil {
		t.Errorf("another connector's tokens: %v", err)
	} else {
		other()
	}
	hurried, stop := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("enough"))
	defer stop()
	if _, err := there.lock(hurried, "oauth:o:c"); err == nil || err.Error() != "enough" {
		t.Errorf("who could not wait was told %v", err)
	}
	had := make(chan error, 1)
	go func() {
		unlock, err := there.lock(context.Background(), "oauth:o:c")
		if err == nil {
			unlock()
		}
		had <- err
	}()
	select {
	case err := <-had:
		t.Fatalf("both have it (%v)", err)
	case <-time.After(150 * time.Millisecond):
	}
	unlock()
	select {
	case err := <-had:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it was never free")
	}
}
