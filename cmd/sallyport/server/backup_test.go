package server

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/cmd/sallyport/backup"
	"sallyport/cmd/sallyport/command"
	"sallyport/cmd/sallyport/demo/notebook"
	"sallyport/store"
)

// openFilled is a gateway with something of everything, and its upstream's URL.
func openFilled(t *testing.T) (v *vaulted, upstream string) {
	t.Helper()
	upstream, stop, err := notebook.Serve(t.Context(), notebook.New())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	v = openVaulted(t, Options{Data: t.TempDir()})
	v.fill(upstream)
	return v, upstream
}

// TestBackupUnderLoad takes backups while calls go on and restores each: it is
// sound, its evidence holds, and it has every call that was answered before the
// backup began.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	v, url := openFilled(t)
	source, session := v.allowAll(url)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var busy sync.WaitGroup
	var mu sync.Mutex
	var answered []string
	calls := func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(answered) }
	more := make(chan struct{})
	for i := range 4 {
		busy.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				call := action.Call{Session: session, Source: source, Action: "list", Params: json.RawMessage(`{}`)}
				if n%2 == 0 {
					call.Action, call.Params = "add", json.RawMessage(fmt.Sprintf(`{"text":"%d-%d"}`, i, n))
				}
				out, err := v.gate.Call(context.WithoutCancel(ctx), &call)
				if err != nil || out.Invocation.Status != action.StatusCompleted {
					t.Errorf("a call while a backup is taken: %+v, %v", out.Invocation, err)
					return
				}
				mu.Lock()
				answered = append(answered, out.Invocation.ID)
				mu.Unlock()
				select {
				case more <- struct{}{}:
				default:
				}
			}
		})
	}
	busy.Go(func() {
		for s := newSealer(v.DB, v.AuditKey, v.log); ctx.Err() == nil; {
			s.seal(ctx)
		}
	})
	for round := range 3 {
		for range 20 {
			select {
			case <-more:
			case <-time.After(waitAtMost):
				t.Fatal("no call ends any more")
			}
		}
		before := calls()
		to := filepath.Join(t.TempDir(), "backup")
		v.ok(v.backup(&backup.Command{Database: command.Database{Data: v.Options.Data}, To: to}))
		if len(calls()) == len(before) {
			t.Logf("round %d: no call ended while the backup was taken", round)
		}
		data := filepath.Join(t.TempDir(), "restored")
		v.ok(v.restore(&backup.RestoreCommand{Database: command.Database{Data: data}, From: to}))
		again := openVaulted(t, Options{Data: data})
		for _, id := range before {
			inv, err := again.DB.Invocation(t.Context(), store.DefaultOrganization, id)
			if err != nil || inv.Status != action.StatusCompleted {
				t.Fatalf("round %d: call %s was answered before the backup and is %q, %v", round, id, inv.Status, err)
			}
		}
		// What waited does not go on: it may have run after the backup.
		held, err := again.DB.Invocation(t.Context(), store.DefaultOrganization, v.held)
		if err != nil || held.Status != action.StatusExpired {
			t.Errorf("the call that waited is %s, %v", held.Status, err)
		}
		if value, _, err := again.secret(t.Context(), store.DefaultOrganization, "first"); value != rotatedSecret || err != nil {
			t.Errorf("the secret is %q, %v", value, err)
		}
		again.Close()
	}
	end()
	busy.Wait()
}

// allowAll adds a connector whose calls are all allowed, and a session for it.
func (v *vaulted) allowAll(upstream string) (source string, s action.Session) {
	v.t.Helper()
	c := action.Connector{ID: uuid.NewString(), Organization: store.DefaultOrganization, Name: "Busy", Slug: "busy", URL: upstream, Enabled: true, Revision: 1}
	v.ok(v.DB.CreateConnector(v.t.Context(), c, nil, "me"))
	v.ok(v.DB.SetOverride(v.t.Context(), action.Override{Organization: store.DefaultOrganization, Key: action.Key{Source: c.Source(), Action: "*"}, Mode: action.ModeAllow, UpdatedBy: "me"}))
	s, err := v.DB.CreateSession(v.t.Context(), action.Session{ID: uuid.NewString(), Organization: store.DefaultOrganization, Kind: action.Unattended, Type: action.TypeCoding, CreatedBy: "test", CreatedAt: v.DB.Now()})
	v.ok(err)
	v.catalog.Invalidate(store.DefaultOrganization)
	return c.Source(), s
}

// backup runs the command in this process.
func (v *vaulted) backup(c *backup.Command) error {
	return c.Run(v.t.Context(), &command.Streams{Out: io.Discard, Err: testWriter{v.t}})
}

// restore runs the command in this process.
func (v *vaulted) restore(c *backup.RestoreCommand) error {
	return c.RunWith(v.t.Context(), &command.Streams{Out: io.Discard, Err: testWriter{v.t}}, VerifyRestored)
}

// TestRestoreRefuses damages a backup in each way, and a restore leaves nothing.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	v, _ := openFilled(t)
	for name, test := range map[string]struct {
		without bool
		damage  func(t *testing.T, to string)
		restore backup.RestoreCommand
		says    string
	}{
		"a byte of the database":    {damage: func(t *testing.T, to string) { flip(t, filepath.Join(to, command.DatabaseFile)) }, says: "was damaged or changed"},
		"no manifest":               {damage: func(t *testing.T, to string) { remove(t, filepath.Join(to, "backup.json")) }, says: "is not a backup"},
		"no keys":                   {without: true, says: "has no "},
		"another key":               {without: true, restore: backup.RestoreCommand{MasterKey: strings.Repeat("ab", 32), TokenKey: strings.Repeat("cd", 32)}, says: "another master key"},
		"evidence that was altered": {damage: func(t *testing.T, to string) { tamper(t, to) }, says: "does not verify"},
		"a key file with a path":    {damage: func(t *testing.T, to string) { misname(t, to) }, says: "which is not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			to, data := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "data")
			v.ok(v.backup(&backup.Command{Database: command.Database{Data: v.Options.Data}, To: to, WithoutKeys: test.without}))
			if test.damage != nil {
				test.damage(t, to)
			}
			c := test.restore
			c.Data, c.From = data, to
			if err := v.restore(&c); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v; want %q in it", err, test.says)
			}
			if left, err := os.ReadDir(data); err == nil && len(left) > 0 {
				t.Errorf("left behind: %v", left)
			} else if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		})
	}
}

func flip(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		text[len(text)/2] ^= 1
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// rewrite writes the manifest anew, as somebody may who writes to the backup.
func rewrite(t *testing.T, to string, change func(manifest map[string]any)) {
	t.Helper()
	file := filepath.Join(to, "backup.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var manifest map[string]any
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	change(manifest)
	if text, err = json.Marshal(manifest); err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func misname(t *testing.T, to string) {
	t.Helper()
	rewrite(t, to, func(m map[string]any) { m["keys"] = append(m["keys"].([]any), "master.key./../../x") })
}

// tamper writes to a sealed row past the triggers, and the manifest with it.
func tamper(t *testing.T, to string) {
	t.Helper()
	file := filepath.Join(to, command.DatabaseFile)
	db, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"DROP TRIGGER policy_events_update", "UPDATE policy_events SET by = 'eve'"} {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	rewrite(t, to, func(m map[string]any) {
		m["database"] = map[string]any{"size": len(text), "sha256": hex.EncodeToString(sum[:])}
	})
}

// TestBackupDuringRotation replaces the keys between copies: the keys in a
// backup are those of its rows.
func TestBackupDuringRotation(t *testing.T) {
	t.Parallel()
	v, _ := openFilled(t)
	var busy sync.WaitGroup
	ctx, end := context.WithCancel(t.Context())
	busy.Go(func() {
		for ctx.Err() == nil {
			for _, step := range (&rotation{by: "me", Gateway: v.Gateway, writeGrace: 50 * time.Millisecond}).steps() {
				if err := step(context.WithoutCancel(ctx)); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	for range 4 {
		to, data := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "data")
		err := v.backup(&backup.Command{Database: command.Database{Data: v.Options.Data}, To: to})
		if err != nil && strings.Contains(err.Error(), "is being rotated") {
			continue
		}
		v.ok(err)
		v.ok(v.restore(&backup.RestoreCommand{Database: command.Database{Data: data}, From: to}))
		again := openVaulted(t, Options{Data: data})
		if value, _, err := again.secret(t.Context(), store.DefaultOrganization, "first"); value != rotatedSecret || err != nil {
			t.Errorf("the secret is %q, %v", value, err)
		}
		again.Close()
	}
	end()
	busy.Wait()
}
