package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/internal/dbtest"
	"sallyport/store/database"
)

func openPostgres(t *testing.T, c Config) *DB {
	t.Helper()
	c.URL = dbtest.PostgresFrom(t, "store", func(url string) error {
		_, err := database.Migrate(t.Context(), Config{URL: url})
		return err
	})
	db, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.db.Close() })
	return db
}

func TestMaxConns(t *testing.T) {
	db := openPostgres(t, Config{MaxConns: 3})
	for name, want := range map[string]string{
		"application_name": "sallyport", "statement_timeout": "15s", "idle_in_transaction_session_timeout": "15s",
		"standard_conforming_strings": "on", "DateStyle": "ISO, MDY",
	} {
		var got string
		if err := db.db.Read.DB.QueryRowContext(t.Context(), "SHOW "+name).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %s, want %s (%v)", name, got, want, err)
		}
	}
	if n := db.db.Read.Stats().MaxOpenConnections; n != 3 {
		t.Errorf("%d connections", n)
	}
	if db.db.Read.DB != db.db.Write.DB.DB {
		t.Error("two pools")
	}
	for text, want := range map[string]string{"": "sallyport", "?application_name=mine": "mine"} {
		conf, err := database.ParseURL("postgres://u@h/d" + text)
		if err != nil || conf.RuntimeParams["application_name"] != want || conf.ConnectTimeout != 5*time.Second {
			t.Errorf("%q: %v, %v", text, conf.RuntimeParams, err)
		}
	}
}

// TestSweepsSkipLockedRows: a row that somebody holds is left for the next sweep.
func TestSweepsSkipLockedRows(t *testing.T) {
	db := openPostgres(t, Config{RetryFor: 2 * time.Second})
	now := time.Now()
	s, err := db.CreateSession(t.Context(), action.Session{Organization: DefaultOrganization, CreatedBy: "test"})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, params := range []string{"a", "b", "c"} {
		expires := now.Add(-time.Second)
		d := &action.Draft{Invocation: action.Invocation{
			ID: uuid.Must(uuid.NewV7()).String(), Organization: s.Organization, Session: s.ID, Source: "linear", SourceName: "Linear", Action: "x",
			Risk: action.RiskWrite, Mode: action.ModeRequireApproval, ModeSource: action.LayerInferred, Status: action.StatusPending,
			ParamsHash: params, CreatedAt: now, ExpiresAt: &expires,
		}, PolicyVersion: 1}
		if _, err := db.Begin(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, d.ID)
	}
	tx, err := db.db.Read.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), "SELECT FROM open_calls WHERE id = $1 FOR UPDATE", ids[1]); err != nil {
		t.Fatal(err)
	}
	swept := func(want int) {
		t.Helper()
		if done, err := db.Sweep(t.Context(), action.SweepRules{Now: now}); err != nil || len(done.Ended) != want {
			t.Fatalf("swept %d, want %d (%v)", len(done.Ended), want, err)
		}
	}
	swept(2)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	swept(1)
}

// TestExpirySkipsLockedRows: so are a signal and an idempotency key.
func TestExpirySkipsLockedRows(t *testing.T) {
	db := openPostgres(t, Config{RetryFor: 2 * time.Second})
	later := time.Now().Add(100 * time.Hour)
	if _, err := db.db.Read.DB.ExecContext(t.Context(), `
INSERT INTO sessions (id, organization_id, kind, type, created_by, created_at) VALUES ('s', 'default', 'interactive', 'coding', 'me', now());
INSERT INTO invocations (id, organization_id, session_id, status, joins, unattended, created_at, waiter_seen_at, completed_at,
    policy_version, source_id, action, params_hash, tool_hash, revision, risk, mode, mode_source, source_name, decision, params)
  VALUES ('i', 'default', 's', 'expired', 1, 0, now(), now(), now(), 1, 'linear', 'x', 'h', '', '', 'write', 'allow', 'inferred', 'Linear', '[]', '{}');
INSERT INTO idempotency_keys (organization_id, session_id, source_id, action, key, invocation_id, params_hash, created_at)
  SELECT 'default', 's', 'linear', 'x', 'k' || n, 'i', 'h', now() FROM generate_series(1, 3) n;
INSERT INTO signals (id, organization_id, session, kind, created_at, data) SELECT 'i' || n, 'default', 's', 'k', now(), '{}' FROM generate_series(1, 3) n`); err != nil {
		t.Fatal(err)
	}
	tx, err := db.db.Read.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	for _, held := range []string{"SELECT FROM signals WHERE id = 'i2' FOR UPDATE", "SELECT FROM idempotency_keys WHERE key = 'k2' FOR UPDATE"} {
		if _, err := tx.ExecContext(t.Context(), held); err != nil {
			t.Fatal(err)
		}
	}
	swept := func(signals, keysLeft int) {
		t.Helper()
		n, err := db.db.SweepSignals(t.Context(), later, 10)
		if err != nil || n != signals {
			t.Errorf("swept %d signals, want %d (%v)", n, signals, err)
		}
		if _, err := db.Sweep(t.Context(), action.SweepRules{Now: later}); err != nil {
			t.Error(err)
		}
		if left, err := db.db.Read.NewSelect().Table("idempotency_keys").Count(t.Context()); err != nil || left != int64(keysLeft) {
			t.Errorf("%d keys are left, want %d (%v)", left, keysLeft, err)
		}
	}
	swept(2, 1)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	swept(1, 0)
}

// A caller who left before the question was put gets an error, and no panic.
func TestReadAfterCallerCanceled(t *testing.T) {
	db := openPostgres(t, Config{})
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := db.Sweep(ctx, action.SweepRules{Now: time.Now(), Limit: 10}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that the caller left", err)
	}
}
