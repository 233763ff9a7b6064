package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/store"
)

// TestABrokenChainKeepsNoOtherWaiting breaks one by a link of another key, and
// mends it by having that key.
func TestABrokenChainKeepsNoOtherWaiting(t *testing.T) {
	t.Parallel()
	db, err := store.Open(t.Context(), store.Config{Path: withTables(t, t.TempDir()+"/s.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	key, other := bytes.Repeat([]byte{7}, 32), bytes.Repeat([]byte{8}, 32)
	change := func(organization string, times int) {
		t.Helper()
		_, err := db.EnsureOrganization(t.Context(), organization, organization)
		for i := range times {
			if err == nil {
				err = db.SetOverride(t.Context(), action.Override{
					Organization: organization, Key: action.Key{Source: "linear", Action: fmt.Sprint("x", i)}, Mode: action.ModeDeny, UpdatedBy: "me",
				})
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	change("broken", 1)
	if n, err := db.Seal(t.Context(), other, 1); n != 1 || err != nil {
		t.Fatalf("sealed %d, %v", n, err)
	}
	change("broken", 3)
	change("sound", 2*sealBatch+5)
	var log strings.Builder
	s := newSealer(db, key, slog.New(slog.NewTextHandler(&log, nil)))
	now := time.Now()
	s.now = func() time.Time { return now }
	round := func(sound, broken int64, want ...string) {
		t.Helper()
		log.Reset()
		s.seal(t.Context())
		for organization, seq := range map[string]int64{"sound": sound, "broken": broken} {
			heads, err := db.AuditHeads(t.Context(), organization)
			if err != nil || heads[0].Seq != seq {
				t.Errorf("heads of %s: %+v, %v", organization, heads, err)
			}
		}
		lines := strings.SplitAfter(log.String(), "\n")
		if len(lines) != len(want)+1 {
			t.Fatalf("logged %q", lines)
		}
		for i := range want {
			if !strings.Contains(lines[i], want[i]) || !strings.Contains(lines[i], "organization=broken") {
				t.Errorf("logged %q, want %q", lines[i], want[i])
			}
		}
	}
	round(2*sealBatch+5, 1, "is broken at link 1")
	round(2*sealBatch+5, 1)
	now = now.Add(suspendFor)
	round(2*sealBatch+5, 1)
	s.key = other
	change("broken", 5)
	round(2*sealBatch+5, 1)
	now = now.Add(suspendFor)
	round(2*sealBatch+5, 5, "sealing resumed")
	round(2*sealBatch+5, 5)
}
