package server

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/cmd/sallyport/demo/notebook"
	"sallyport/internal/vault"
	"sallyport/store"
)

// vaulted is a gateway that is opened, and not run, and what is kept in it: a
// secret, a held call and a chain of evidence.
type vaulted struct {
	*Gateway
	t    *testing.T
	held string // an invocation
	hash string
	head action.AuditHead
}

const rotatedSecret = "canary-of-a-secret"

func openVaulted(t *testing.T, o Options) *vaulted {
	t.Helper()
	o.Listen = "127.0.0.1:0"
	prepareRows(t, &o)
	g, err := Open(t.Context(), o, slog.New(slog.NewTextHandler(testWriter{t}, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return &vaulted{Gateway: g, t: t}
}

func (v *vaulted) ok(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
}

// fill keeps something.
func (v *vaulted) fill(upstream string) {
	v.t.Helper()
	v.put("first")
	c := action.Connector{ID: uuid.NewString(), Organization: store.DefaultOrganization, Name: "Notes", Slug: "notes", URL: upstream, Enabled: true, Revision: 1}
	v.ok(v.DB.CreateConnector(v.t.Context(), c, nil, "me"))
	s, err := v.DB.CreateSession(v.t.Context(), action.Session{ID: uuid.NewString(), Organization: store.DefaultOrganization, Kind: action.Unattended, Type: action.TypeCoding, CreatedBy: "test", CreatedAt: v.DB.Now()})
	v.ok(err)
	out, err := v.gate.Call(v.t.Context(), &action.Call{Session: s, Source: c.Source(), Action: "add", Params: json.RawMessage(`{"text":"canary-of-params"}`), Waiting: action.Waiting{Patience: time.Millisecond}})
	v.ok(err)
	if v.held = out.Invocation.ID; out.Invocation.Status != action.StatusPending {
		v.t.Fatalf("the call is %s", out.Invocation.Status)
	}
	newSealer(v.DB, v.AuditKey, v.log).seal(v.t.Context())
	heads, err := v.DB.AuditHeads(v.t.Context(), store.DefaultOrganization)
	v.ok(err)
	v.head, v.hash = heads[0], v.vault.Hash([]byte("x"))
}

func (v *vaulted) put(key string) {
	v.t.Helper()
	sealed, err := v.sealSecret(store.DefaultOrganization, key, []byte(rotatedSecret))
	v.ok(err)
	v.ok(v.DB.PutSecret(v.t.Context(), action.Secret{Organization: store.DefaultOrganization, Key: key, Host: "h.example", UpdatedBy: "me", CreatedAt: v.DB.Now(), UpdatedAt: v.DB.Now()}, sealed))
}

// reads checks that everything that was kept can be used still.
func (v *vaulted) reads(as *vaulted, secrets ...string) {
	v.t.Helper()
	for _, key := range append(secrets, "first") {
		if value, _, err := v.secret(v.t.Context(), store.DefaultOrganization, key); value != rotatedSecret || err != nil {
			v.t.Errorf("secret %s is %q, %v", key, value, err)
		}
	}
	if raw, full, err := v.gate.Params(v.t.Context(), store.DefaultOrganization, as.held); !full || err != nil || !strings.Contains(string(raw), "canary-of-params") {
		v.t.Errorf("the held call has %s, full %v, %v", raw, full, err)
	}
	if v.vault.Hash([]byte("x")) != as.hash {
		v.t.Error("values hash otherwise than before")
	}
	newSealer(v.DB, v.AuditKey, v.log).seal(v.t.Context())
	report, err := v.DB.VerifyAudit(v.t.Context(), store.DefaultOrganization, v.AuditKey, &as.head)
	if err != nil || !report.OK || report.Unsealed != 0 || report.Checked == 0 {
		v.t.Errorf("evidence: %+v, %v", report, err)
	}
}

// sealedOtherwise counts what another key than this sealed.
func (v *vaulted) sealedOtherwise(key []byte) int {
	v.t.Helper()
	_, left, err := v.DB.Reseal(v.t.Context(), vault.KeyID(key), func(action.Ref, []byte) ([]byte, error) { return nil, errors.New("only counted") })
	v.ok(err)
	return left
}

// recorded checks who made which key the newest one, in hex.
func (v *vaulted) recorded(key, by string, olds ...string) {
	v.t.Helper()
	name := func(text string) string {
		raw, err := hex.DecodeString(text)
		v.ok(err)
		return hexKeyID(raw)
	}
	want := store.Rotation{Organization: store.DefaultOrganization, KeyID: name(key), By: by}
	for _, old := range olds {
		want.Old = append(want.Old, name(old))
	}
	got, err := v.DB.LastRotation(v.t.Context(), store.DefaultOrganization)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		v.t.Errorf("on record (-want +got), %v:\n%s", err, diff)
	}
}

func keyOf(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	key, err := vault.ParseKey(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestRotationStoppedAnywhere stops after each step, as a process does that is
// killed: the next start reads everything, and ends what had begun.
func TestRotationStoppedAnywhere(t *testing.T) {
	url, stop, err := notebook.Serve(t.Context(), notebook.New())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	for n := range len((&rotation{}).steps()) + 1 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel() // each waits for the disk
			data := t.TempDir()
			file := filepath.Join(data, "master.key")
			v := openVaulted(t, Options{Data: data})
			v.fill(url)
			first := keyOf(t, file)
			for _, step := range (&rotation{by: "me", Gateway: v.Gateway}).steps()[:n] {
				v.ok(step(t.Context()))
			}
			v.reads(v)
			v.Close()

			again := openVaulted(t, Options{Data: data})
			again.reads(v)
			switch {
			case n == 2 || n == 5:
				again.resumeRotation(t.Context()) // as a start does, which waits a little
			case n < 2 || again.Master.retired != nil:
				for _, step := range (&rotation{by: "me", Gateway: again.Gateway}).steps() {
					again.ok(step(t.Context()))
				}
			}
			again.reads(v)
			now := keyOf(t, file)
			again.recorded(hex.EncodeToString(now), map[bool]string{true: "gateway", false: "me"}[n == 2], hex.EncodeToString(first))
			if string(now) == string(first) || again.sealedOtherwise(now) != 0 || again.sealedOtherwise(first) == 0 {
				t.Errorf("sealed otherwise than by the new key: %d, than by the old one: %d", again.sealedOtherwise(now), again.sealedOtherwise(first))
			}
			if _, err := os.Stat(file + ".old"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the old key is there: %v", err)
			}
			again.Close()
			openVaulted(t, Options{Data: data}).reads(v)
		})
	}
}

// TestRotationBetweenCalls writes and reads all the time.
func TestRotationBetweenCalls(t *testing.T) {
	t.Parallel()
	url, stop, err := notebook.Serve(t.Context(), notebook.New())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	data := t.TempDir()
	v := openVaulted(t, Options{Data: data})
	v.fill(url)
	ctx, end := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	written := make([][]string, 4)
	for i := range written {
		busy.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				key := fmt.Sprintf("k%d-%d", i, n%20)
				v.put(key)
				written[i] = append(written[i], key)
				if value, _, err := v.secret(t.Context(), store.DefaultOrganization, key); value != rotatedSecret || err != nil {
					t.Errorf("secret %s is %q, %v", key, value, err)
				}
			}
		})
	}
	for range 3 {
		for _, step := range (&rotation{by: "me", Gateway: v.Gateway, writeGrace: 100 * time.Millisecond}).steps() {
			v.ok(step(t.Context()))
		}
	}
	end()
	busy.Wait()
	v.Close()
	again := openVaulted(t, Options{Data: data})
	for _, keys := range written {
		again.reads(v, keys[max(0, len(keys)-20):]...)
	}
	if n := again.sealedOtherwise(keyOf(t, filepath.Join(data, "master.key"))); n != 0 {
		t.Errorf("%d values are sealed with an earlier key", n)
	}
}

// TestRotationOfManyInstances goes the way that docs/instances.md tells.
func TestRotationOfManyInstances(t *testing.T) {
	t.Parallel()
	url, stop, err := notebook.Serve(t.Context(), notebook.New())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	database, a, b := postgresTables(t), strings.Repeat("aa", 32), strings.Repeat("bb", 32)
	at := func(master string, olds ...string) Options {
		return Options{Data: t.TempDir(), DatabaseURL: database, MasterKey: master, OldMasterKeys: olds, TokenKey: strings.Repeat("cc", 32)}
	}
	before := openVaulted(t, at(a))
	before.fill(url)
	if _, err := before.rotate(t.Context(), store.DefaultOrganization, "olga"); action.Public(err).Code != "old_master_keys_missing" {
		t.Errorf("without another key: %v", err)
	}
	before.Close()

	one, two := openVaulted(t, at(a, b)), openVaulted(t, at(b, a))
	if _, err := one.rotate(t.Context(), store.DefaultOrganization, "eve"); action.Public(err).Code != "master_key_not_replaced" {
		t.Errorf("where the old key seals: %v", err)
	}
	one.put("one")
	two.put("two")
	one.reads(before, "one", "two")
	two.reads(before, "one", "two")
	if _, err := two.rotate(t.Context(), "another", "eve"); !errors.Is(err, action.ErrForbidden) {
		t.Errorf("by another organization: %v", err)
	}
	done, err := two.rotate(t.Context(), store.DefaultOrganization, "olga")
	raw, _ := hex.DecodeString(b)
	if err != nil || done.Left != 0 || done.Resealed < 3 || done.KeyID != hex.EncodeToString(vault.KeyID(raw)) {
		t.Errorf("got %+v, %v", done, err)
	}
	if n := two.sealedOtherwise(raw); n != 0 {
		t.Errorf("%d values are sealed with the old key", n)
	}
	one.reads(before, "one", "two") // what the other one's key seals now
	one.put("late")
	if done, err := two.rotate(t.Context(), store.DefaultOrganization, "olga"); err != nil || done.Resealed != 1 || done.Left != 0 {
		t.Errorf("after a late one: %+v, %v", done, err)
	}
	if done, err := two.rotate(t.Context(), store.DefaultOrganization, "otto"); err != nil || done.Resealed+done.Left != 0 {
		t.Errorf("with nothing left to do: %+v, %v", done, err)
	}
	two.recorded(b, "olga", a)
	if _, err := one.rotate(t.Context(), store.DefaultOrganization, "eve"); err != nil { // the way back
		t.Error(err)
	}
	one.recorded(a, "eve", b)
	if _, err := two.rotate(t.Context(), store.DefaultOrganization, "olga"); err != nil {
		t.Error(err)
	}
	one.Close()
	two.Close()
	openVaulted(t, at(b)).reads(before, "one", "two", "late")
	if _, err := Open(t.Context(), func() Options { o := at(a); o.Listen = "127.0.0.1:0"; return o }(), slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "SALLYPORT_MASTER_KEY") {
		t.Errorf("with the old key alone: %v", err)
	}
}

// TestWhatOpensWithNoKey keeps the old keys, which is said, and hinders no other
// rotation.
func TestWhatOpensWithNoKey(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	v := openVaulted(t, Options{Data: data})
	v.put("first")
	moved, err := v.vault.Seal(action.Ref{Table: "vault_keys", Row: "elsewhere", Column: "sealed"}, []byte("x"))
	v.ok(err)
	v.ok(v.DB.PutVaultKey(t.Context(), "altered", moved))
	file := filepath.Join(data, "master.key")
	keys := [][]byte{keyOf(t, file)}
	for n := range 2 {
		r := &rotation{by: "me", Gateway: v.Gateway}
		v.ok(r.run(t.Context()))
		if keys = append(keys, keyOf(t, file)); r.left != 1 || bytes.Equal(keys[n], keys[n+1]) || v.Master.retired != nil {
			t.Errorf("rotation %d: left %d, a new key %v, one being replaced %v", n, r.left, !bytes.Equal(keys[n], keys[n+1]), v.Master.retired != nil)
		}
		v.Close()
		if v = openVaulted(t, Options{Data: data}); len(v.Master.Opening()) != n+1 {
			t.Errorf("rotation %d: %d keys open", n, len(v.Master.Opening()))
		}
	}
	for _, old := range keys[:2] { // what only they open
		key, err := vault.New(old)
		v.ok(err)
		if late, err := key.Seal(stableKeyRef("late"), []byte("x")); err == nil {
			_, err = v.vault.Open(stableKeyRef("late"), late)
			v.ok(err)
		}
	}
	right, err := v.vault.Seal(stableKeyRef("altered"), []byte("x"))
	v.ok(err)
	v.ok(v.DB.PutVaultKey(t.Context(), "altered", right))
	r := &rotation{by: "me", Gateway: v.Gateway}
	v.ok(r.run(t.Context()))
	if files, _ := filepath.Glob(file + "*"); len(files) != 1 || r.left != 0 || len(v.Master.Opening()) != 0 {
		t.Errorf("when nothing needs them: %v, left %d, %d keys open", files, r.left, len(v.Master.Opening()))
	}
	if value, _, err := v.secret(t.Context(), store.DefaultOrganization, "first"); value != rotatedSecret || err != nil {
		t.Errorf("the secret is %q, %v", value, err)
	}
}

// TestReplacementFails leaves the keys as they are.
func TestReplacementFails(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	v := openVaulted(t, Options{Data: data})
	v.put("first")
	file := filepath.Join(data, "master.key")
	v.ok(os.WriteFile(file+".old", []byte("broken"), 0o600))
	if _, err := v.rotate(t.Context(), store.DefaultOrganization, "olga"); err == nil {
		t.Error("a broken old key is taken for none")
	}
	if !bytes.Equal(v.Master.Sealing, keyOf(t, file)) || v.Master.retired != nil {
		t.Errorf("the key that seals has %d bytes, the retired one %d", len(v.Master.Sealing), len(v.Master.retired))
	}
	v.ok(os.Remove(file + ".old"))
	r := &rotation{by: "me", Gateway: v.Gateway}
	for _, step := range r.steps() {
		v.ok(step(t.Context()))
	}
	if value, _, err := v.secret(t.Context(), store.DefaultOrganization, "first"); value != rotatedSecret || err != nil {
		t.Errorf("the secret is %q, %v", value, err)
	}
}

// TestSealedJustBefore is written when everything else is sealed anew.
func TestSealedJustBefore(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	v := openVaulted(t, Options{Data: data})
	late, err := v.sealSecret(store.DefaultOrganization, "late", []byte(rotatedSecret))
	v.ok(err)
	steps := (&rotation{by: "me", Gateway: v.Gateway}).steps()
	for i, step := range steps {
		if i == 4 {
			v.ok(v.DB.PutSecret(t.Context(), action.Secret{Organization: store.DefaultOrganization, Key: "late", Host: "h.example", UpdatedBy: "me", CreatedAt: v.DB.Now(), UpdatedAt: v.DB.Now()}, late))
		}
		v.ok(step(t.Context()))
	}
	if value, _, err := v.secret(t.Context(), store.DefaultOrganization, "late"); value != rotatedSecret || err != nil {
		t.Errorf("it is %q, %v", value, err)
	}
}
