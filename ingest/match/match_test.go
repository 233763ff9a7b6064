package match

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/redact"
	"sallyport/internal/vault"
)

func testVault(t *testing.T) *vault.Vault {
	t.Helper()
	v, err := vault.New(make([]byte, vault.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// sameGoods is a filter for events with the same goods as the config.
func sameGoods(e *event.Event, config json.RawMessage) bool {
	var is, wanted struct{ Goods string }
	return json.Unmarshal(e.Context, &is) == nil && json.Unmarshal(config, &wanted) == nil && (wanted.Goods == "" || is.Goods == wanted.Goods)
}

func TestMatchesOnlyReadsWhatItIsGiven(t *testing.T) {
	ids := 0
	m := &Matcher{Providers: Registry{}, Vault: testVault(t), JSON: &redact.JSON{}, NewID: func() string { ids++; return fmt.Sprint("id-", ids) }, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	m.Providers["shop"] = &event.Provider{ID: "shop", Types: []event.Type{{ID: "sale", Matches: sameGoods}}}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	e := event.Event{Provider: "shop", Type: "sale", Key: "k", OccurredAt: at, Context: json.RawMessage(`{"goods":"tea"}`)}
	triggers := []event.Trigger{
		{ID: "t1", Provider: "shop", Type: "sale", Organization: "o1", Automation: "a1", Config: []byte(`{"goods":"tea"}`)},
		{ID: "t2", Provider: "shop", Type: "sale", Organization: "o2", Automation: "a2", Config: []byte(`{"goods":"milk"}`)},
		{ID: "t3", Provider: "shop", Type: "refund"},
		{ID: "t4", Provider: "other", Type: "sale"},
	}
	var first []string
	for range 2 {
		var got []string
		for _, m := range m.Matches(t.Context(), triggers, e, "") {
			r := m.Record
			got = append(got, fmt.Sprint(r.Organization, r.Trigger, r.Automation, r.Skip, r.OccurredAt, m.Run != "", len(m.Sealed) > 0))
		}
		if first == nil {
			first = got
		}
		want := []string{"o1t1a12026-01-02 02:04:05 +0000 UTC true true", "o2t2a2filter_mismatch2026-01-02 02:04:05 +0000 UTC false false"}
		if diff := cmp.Diff(want, got); diff != "" || !cmp.Equal(first, got) {
			t.Error(diff)
		}
	}
	// What a delivery brought is kept with it, and with those that start something.
	for i, m := range m.Matches(t.Context(), triggers, e, "receipt") {
		if got := m.Record.Redacted != nil; got != (i == 0) {
			t.Errorf("match %d has a payload to be shown: %t", i, got)
		}
	}
	// A type that the module has no more.
	e.Type = "gone"
	list := m.Matches(t.Context(), []event.Trigger{{ID: "t5", Provider: "shop", Type: "gone"}}, e, "")
	if len(list) != 1 || list[0].Record.Skip != event.SkipRunFailed || !strings.Contains(list[0].Record.Error, "no events of type gone") {
		t.Errorf("%+v", list)
	}
}

func TestKeys(t *testing.T) {
	m := &Matcher{JSON: &redact.JSON{}, Vault: testVault(t)}
	seen := map[string]bool{}
	for _, key := range []string{"72d3162e-cc78-11e3-81ab-4c9367dc0958", "LIN-1:2026-01-01T00:00:00Z", "hash:" + strings.Repeat("a", 64)} {
		if got := m.key(key); got != key {
			t.Errorf("%q became %q", key, got)
		}
	}
	for _, key := range []string{"", strings.Repeat("a", MaxLine+1), strings.Repeat("a", MaxLine+2), "a\x00", "a\n", "\xff", "ghp_0123456789abcdefghijABCDEFGHIJ012345"} {
		got := m.key(key)
		if !strings.HasPrefix(got, "hash:") || seen[got] {
			t.Errorf("%q became %q", key, got)
		}
		seen[got] = true
	}
}

// The key of an event that cannot be stored as it is does not reveal it to a
// reader without the key of the hash.
func TestHashedKeys(t *testing.T) {
	one, other := testVault(t), testVault(t)
	other.UseHash([]byte("another"))
	hash := func(v action.Vault) string { return (&Matcher{Vault: v, JSON: &redact.JSON{}}).key("pin 1234\n") }
	if hash(one) == hash(other) || hash(one) == one.Hash([]byte("pin 1234\n")) {
		t.Error(hash(one), hash(other))
	}
}

// What an event did not pass is said by the names and values of the filters.
func TestFailedFilters(t *testing.T) {
	custom := Custom()
	e := event.Event{Type: "event", Context: json.RawMessage(`{"type":"deploy","data":{"status":"ok"}}`), Native: "deploy"}
	for config, want := range map[string]string{
		`{"event_path":"/type","events":["failure"]}`:                                            `The event does not match events (["failure"]).`,
		`{"event_path":"/type","events":["deploy"],"match":{"/data/status":"bad"}}`:              `The event does not match match ({"/data/status":"bad"}).`,
		`{"event_path":"/type","events":["a"],"match":{"/data/status":"bad"},"id_header":"X-I"}`: `The event does not match events (["a"]); match ({"/data/status":"bad"}).`,
		`{"event_path":"/type","events":["deploy"]}`:                                             ``,
	} {
		if got := failedFilters(&custom.Types[0], &e, json.RawMessage(config)); got != want {
			t.Errorf("%s: %q, want %q", config, got, want)
		}
	}
	bots := event.Type{Matches: func(_ *event.Event, config json.RawMessage) bool {
		var f struct {
			Bots   bool
			Labels []string
		}
		return json.Unmarshal(config, &f) == nil && f.Bots && len(f.Labels) == 0
	}}
	for config, want := range map[string]string{
		`{}`:               `The event does not match bots (not set, and a bot or an app caused it).`,
		`{"bots":false}`:   `The event does not match bots (not set, and a bot or an app caused it).`,
		`{"labels":["x"]}`: `The event does not match labels (["x"]); bots (not set, and a bot or an app caused it).`,
	} {
		if got := failedFilters(&bots, &e, json.RawMessage(config)); got != want {
			t.Errorf("%s: %q, want %q", config, got, want)
		}
	}
	never := event.Type{Matches: func(*event.Event, json.RawMessage) bool { return false }}
	if got := failedFilters(&never, &e, json.RawMessage(`{"labels":["x"]}`)); !strings.Contains(got, "without filters") {
		t.Errorf("of none: %q", got)
	}
}
