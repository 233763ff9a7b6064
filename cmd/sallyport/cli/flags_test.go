package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"sallyport/action"
	"sallyport/api"
)

// An expiry is a duration or a time, and is sent to the server as entered.
func TestExpiry(t *testing.T) {
	for text, want := range map[string]string{
		"24h":                  `{"expires_in":"24h"}`,
		"90d":                  `{"expires_in":"2160h0m0s"}`,
		"1h30d":                "",
		"d":                    "",
		"40000d":               "",
		"-5m":                  `{"expires_in":"-5m"}`, // the server rejects it with the field
		"2026-01-02T15:04:05Z": `{"expires_at":"2026-01-02T15:04:05Z"}`,
		"tomorrow":             "",
		"2026-01-02":           "",
		"":                     "",
	} {
		var e expiry
		err := e.UnmarshalText([]byte(text))
		if (err == nil) != (want != "") {
			t.Errorf("%q: %v", text, err)
		}
		if sent, _ := json.Marshal(e.Lifetime); err == nil && string(sent) != want {
			t.Errorf("%q sends %s, want %s", text, sent, want)
		}
	}
	if sent, err := json.Marshal(expiry{}.Lifetime); err != nil || string(sent) != "{}" {
		t.Errorf("not given, it sends %s, %v", sent, err)
	}
}

// A past time is given as a time or as an age.
func TestParsePastTime(t *testing.T) {
	read := func(text string) (string, error) {
		var flags struct {
			From string `type:"moment"`
		}
		app, err := kong.New(&flags, FlagTypes())
		if err == nil {
			_, err = app.Parse([]string{"--from", text})
		}
		return flags.From, err
	}
	if got, err := read("2026-01-02T16:04:05+01:00"); err != nil || got != "2026-01-02T15:04:05Z" {
		t.Errorf("a time is %q, %v", got, err)
	}
	if got, err := parsePastTime("1h"); err != nil || !got.Before(time.Now()) {
		t.Errorf("an hour ago is %s, %v", got, err)
	}
	if _, err := read("yesterday"); err == nil {
		t.Error("yesterday is a moment")
	}
}

func TestRate(t *testing.T) {
	for text, want := range map[string]*rate{
		"10/1m": {10, 60}, "1/24h": {1, 86400}, "-1/1m": {-1, 60}, "1/1d": {1, 86400}, "1/1s": {1, 1},
		"1/0s": nil, "1/25h": nil, "1/-1m": nil, "1/2d": nil,
		"10": nil, "10/": nil, "/1m": nil, "10/m": nil, "10/1500ms": nil, "x/1m": nil,
	} {
		var r rate
		err := r.UnmarshalText([]byte(text))
		if (err == nil) != (want != nil) {
			t.Errorf("%q: %v", text, err)
		}
		if want != nil && r != *want {
			t.Errorf("%q is %v, want %v", text, r, *want)
		}
	}
}

// A pin keeps its value as entered. An invalid value gets a hint on how to
// quote it.
func TestPin(t *testing.T) {
	for text, want := range map[string]struct{ pointer, value, err string }{
		`/channel="C1"`:      {pointer: "/channel", value: `"C1"`},
		`/n=1.50`:            {pointer: "/n", value: `1.50`},
		`/a=b={"c":["d=e"]}`: {pointer: "/a=b", value: `{"c":["d=e"]}`},
		`/text="a=1"`:        {pointer: "/text", value: `"a=1"`},
		`channel=1`:          {pointer: "channel", value: `1`}, // the server rejects it with the field
		`/channel=C1`:        {err: `--pin '/channel="C1"'`},
		`/channel`:           {err: `--pin '/channel="C1"'`},
		`/channel=`:          {err: `JSON`},
	} {
		var p pin
		err := p.UnmarshalText([]byte(text))
		switch {
		case want.err != "":
			if err == nil || !strings.Contains(err.Error(), want.err) {
				t.Errorf("%q: %v, want %q", text, err, want.err)
			}
		case err != nil || p.pointer != want.pointer || string(p.value) != want.value:
			t.Errorf("%q is %q = %s, %v", text, p.pointer, p.value, err)
		}
	}
}

// A change is described by the members that differ.
func TestDiff(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{`null`, `{"mode":"allow","updated_by":"a"}`, `nothing → mode "allow"`},
		{`{"mode":"allow","updated_by":"a"}`, `null`, `mode "allow" → nothing`},
		{`{"mode":"allow","updated_by":"a"}`, `{"mode":"deny","updated_by":"b"}`, `mode: "allow" → "deny"`},
		{`{"a":1,"b":2}`, `{"b":3,"c":{"d":4}}`, `a: 1 → nothing, b: 2 → 3, c: nothing → d 4`},
		{`"x"`, `{"a":1}`, `"x" → a 1`},
		{`null`, `"` + strings.Repeat("é", 2*valueLimit) + `"`, `nothing → "` + strings.Repeat("é", valueLimit-1) + `…`},
	} {
		if got := diff(json.RawMessage(c.before), json.RawMessage(c.after)); got != c.want {
			t.Errorf("%s to %s is %s, want %s", c.before, c.after, got, c.want)
		}
	}
}

// A grant event has the terms of the grant, also at its end; a review event has
// the review states.
func TestEventChange(t *testing.T) {
	const grant = `{"scope":"organization","source_id":"connector:1","action":"add","max_calls":5,"pins":{"/c":"x"},"id":"g","created_by":"u"}`
	revoked := strings.TrimSuffix(grant, "}") + `,"revoked_by":"v"}`
	const text = `notes:add (connector:1) with /c="x" for all sessions: 5 calls; never expires`
	for _, c := range []struct{ kind, before, after, want string }{
		{"grant", `null`, grant, "nothing → " + text},
		{"grant", grant, revoked, text + `; revoked_by: nothing → "v"`},
		{"grant", grant, `null`, text + " → nothing"},
		{"grant", `null`, `{"scope":"session","session_id":"s","any":true}`, "nothing → any action of any source that is not dangerous for session s: any number of calls; never expires"},
		{"review", `{"state":"new","current":{"text_hash":"x"}}`, `{"state":"reviewed"}`, "new → reviewed"},
		{"review", `{"state":"removed"}`, `null`, "removed → nothing"},
		{"review", `null`, `{"state":{},"a":{}}`, "nothing → reviewed: a, state"},
		{"mode", `null`, `{"mode":"allow"}`, `nothing → mode "allow"`},
	} {
		e := &action.PolicyEvent{Kind: c.kind, Before: json.RawMessage(c.before), After: json.RawMessage(c.after)}
		if got := eventChange(e, []api.ConnectorView{{Connector: action.Connector{ID: "1", Slug: "notes"}}}); got != c.want {
			t.Errorf("%s %s to %s is\n%s, want\n%s", c.kind, c.before, c.after, got, c.want)
		}
	}
}
