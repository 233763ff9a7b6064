package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/store"
)

// Who has to register a client is told where.
func TestWhereClientsAreRegistered(t *testing.T) {
	t.Parallel()
	about := func(field string) error {
		return &action.Error{Kind: action.ErrInvalid, Code: "oauth_client", Field: field, Message: "Register a client."}
	}
	for _, test := range []struct{ preset, field, want string }{
		{"asana", "/oauth/client_id", "Register a client. Register an app in Asana's developer console"},
		{"figma", "/oauth/client_id", "Register a client. Figma accepts only known clients"},
		{"asana", "/oauth/client_secret", "Register a client."},
		{"linear", "/oauth/client_id", "Register a client."},
		{"custom", "/oauth/client_id", "Register a client."},
	} {
		err := withRegistrationHint(about(test.field), test.preset)
		e := action.Public(err)
		if got := e.Message; !strings.HasPrefix(got, test.want) || test.want == "Register a client." && got != test.want {
			t.Errorf("%s, %s: %s", test.preset, test.field, got)
		}
		if e.Field != test.field || !errors.Is(err, action.ErrInvalid) {
			t.Errorf("%s: %+v", test.preset, e)
		}
	}
	if withRegistrationHint(nil, "asana") != nil {
		t.Error("a hint without an error")
	}
}

// Of the instances that share rows one renews a connector's tokens; the others
// wait for it, and no longer than whoever wants the token.
func TestPatientLock(t *testing.T) {
	t.Parallel()
	db, err := store.Open(t.Context(), store.Config{Path: withTables(t, t.TempDir()+"/sallyport.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	here := blockingLocks{&rowLocks{db: db, instance: "here", log: slog.Default()}}
	there := blockingLocks{&rowLocks{db: db, instance: "there", log: slog.Default()}}
	unlock, err := here.acquire(t.Context(), "oauth:o:c")
	if err != nil {
		t.Fatal(err)
	}
	if other, err := there.acquire(t.Context(), "oauth:o:d"); err != nil {
		t.Errorf("another connector's tokens: %v", err)
	} else {
		other()
	}
	hurried, stop := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("enough"))
	defer stop()
	if _, err := there.acquire(hurried, "oauth:o:c"); err == nil || err.Error() != "enough" {
		t.Errorf("who could not wait was told %v", err)
	}
	had := make(chan error, 1)
	go func() {
		unlock, err := there.acquire(context.Background(), "oauth:o:c")
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
	case <-time.After(waitAtMost):
		t.Error("it was never free")
	}
}
