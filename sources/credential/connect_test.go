package credential_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/sources"
)

func TestKeyIsVerifiedSealedAndSent(t *testing.T) {
	b := newBank(t)
	tokens := b.instance(b.module())
	in, err := tokens.Connect(t.Context(), key())
	if err != nil {
		t.Fatal(err)
	}
	want := action.Integration{
		ID: in.ID, Organization: "org", Provider: "acme", Kind: action.KindAPIKey, Account: "acme-1", AccountName: "Acme", Name: "Acme (Acme)",
		Visibility: action.VisibleOrganization, Settings: json.RawMessage(`{"org":"acme"}`), Status: action.IntegrationActive, Revision: 1,
		CreatedBy: "ann", CreatedAt: b.now, UpdatedAt: b.now, Version: 1,
	}
	if diff := cmp.Diff(want, in); diff != "" {
		t.Error(diff)
	}
	conn, err := tokens.Conn(t.Context(), in)
	if err != nil || conn.Token != "key-canary-1" || conn.Account != "acme-1" || conn.HTTP.Base().String() != b.url {
		t.Errorf("got %+v, %v", conn, err)
	}
}

func TestConnectSaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*action.ConnectRequest)
		code   string
		field  string
		says   string
	}{
		"provider":    {func(w *action.ConnectRequest) { w.Provider = "acne" }, "invalid_integration", "/provider", "acme"},
		"kind":        {func(w *action.ConnectRequest) { w.Kind = action.KindBotToken }, "invalid_integration", "/kind", "api_key or oauth2"},
		"browser":     {func(w *action.ConnectRequest) { w.Kind = action.KindOAuth2 }, "invalid_integration", "/kind", "in a browser"},
		"no secret":   {func(w *action.ConnectRequest) { w.Secret = " " }, "invalid_integration", "/secret", "Enter"},
		"blank":       {func(w *action.ConnectRequest) { w.Secret = "canary canary" }, "invalid_integration", "/secret", "Copy it again"},
		"plain http":  {func(w *action.ConnectRequest) { w.BaseURL = "http://acme.example" }, "invalid_field", "/base_url", "https"},
		"no URL":      {func(w *action.ConnectRequest) { w.BaseURL = "acme.example" }, "invalid_url", "/base_url", "https"},
		"setting":     {func(w *action.ConnectRequest) { w.Settings = json.RawMessage(`{"tem":"x"}`) }, "invalid_settings", "/settings/tem", "is not a setting"},
		"type":        {func(w *action.ConnectRequest) { w.Settings = json.RawMessage(`{"team":3}`) }, "invalid_settings", "/settings/team", "string"},
		"no object":   {func(w *action.ConnectRequest) { w.Settings = json.RawMessage(`[]`) }, "invalid_settings", "/settings", "object"},
		"time":        {func(w *action.ConnectRequest) { w.TimeoutSeconds = 121 }, "invalid", "/timeout_seconds", "120"},
		"broker":      {func(w *action.ConnectRequest) { w.Broker = action.BrokerNango }, "invalid_field", "/broker", "oauth2"},
		"own for all": {func(w *action.ConnectRequest) { w.Own, w.Visibility = true, action.VisibleOrganization }, "invalid_field", "/visibility", "private"},
		"refused":     {func(w *action.ConnectRequest) { w.Secret = "canary-bad" }, "credential_refused", "/secret", "Acme did not accept the credential (bad_token): Copy the whole credential again,"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t)
			b.good = func(token string) bool { return token != "canary-bad" }
			w := key()
			c.change(&w)
			_, err := b.instance(b.module()).Connect(t.Context(), w)
			fails(t, err, action.ErrInvalid, c.code, c.says)
			if got := action.Public(err).Field; got != c.field {
				t.Errorf("the field is %q, not %q", got, c.field)
			}
			if len(b.rows) > 0 {
				t.Error("it was saved")
			}
		})
	}
}

func TestConnectingAgainRenewsTheSame(t *testing.T) {
	b := newBank(t)
	tokens := b.instance(b.module())
	w := key()
	w.Name, w.Settings, w.TimeoutSeconds = "Ours", json.RawMessage(`{"team":"core"}`), 60
	first, err := tokens.Connect(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	b.good = func(token string) bool { return token == "key-canary-2" }
	if again, err := tokens.Refused(t.Context(), first, "key-canary-1", "bad_token key-canary-1"); again {
		t.Error("there is no other key, and it is said to try again")
	} else {
		fails(t, err, action.ErrUnavailable, sources.FaultReconnect, "Acme no longer accepts the credential (bad_token [redacted]). Connect it again.")
	}
	if row := b.row(first.ID); row.Status != action.IntegrationRevoked || b.changed != 2 {
		t.Errorf("it is %s, and %d changes were told", row.Status, b.changed)
	}
	_, err = tokens.Token(t.Context(), first)
	fails(t, err, action.ErrUnavailable, sources.FaultReconnect, "bad_token")

	w = key()
	w.Secret = "key-canary-2"
	second, err := tokens.Connect(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	if second.ID != first.ID || second.Status != action.IntegrationActive || second.Reason != "" || second.Name != "Ours" || second.TimeoutSeconds != 60 ||
		string(second.Settings) != `{"org":"acme","team":"core"}` {
		t.Errorf("it is another one: %+v", second)
	}
	if got, err := tokens.Token(t.Context(), second); got != "key-canary-2" || err != nil {
		t.Errorf("the token is %q, %v", got, err)
	}
	if again, err := tokens.Refused(t.Context(), second, "key-canary-1", ""); !again || err != nil {
		t.Errorf("the old key was refused late: %v, %v", again, err)
	}
	if row := b.row(first.ID); row.Status != action.IntegrationActive {
		t.Errorf("the refusal of the old key ended the new one: %s", row.Reason)
	}
}

func TestOwnConnectionIsBesideTheOrganizations(t *testing.T) {
	b := newBank(t)
	tokens := b.instance(b.module())
	shared, err := tokens.Connect(t.Context(), key())
	if err != nil {
		t.Fatal(err)
	}
	w := key()
	w.Own, w.Secret = true, "own-canary"
	own, err := tokens.Connect(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	if own.ID == shared.ID || own.User != "ann" || own.Visibility != action.VisiblePrivate || own.Owner() != "ann" {
		t.Errorf("got %+v", own)
	}
	w = key()
	w.Visibility, w.By = action.VisiblePrivate, "bob"
	private, err := tokens.Connect(t.Context(), w)
	if err != nil || private.ID == shared.ID || private.User != "" || private.Owner() != "bob" {
		t.Errorf("got %+v, %v", private, err)
	}
}

func TestCredentialIsForItsHost(t *testing.T) {
	b := newBank(t)
	tokens := b.instance(b.module())
	in, err := tokens.Connect(t.Context(), key())
	if err != nil {
		t.Fatal(err)
	}
	moved := b.row(in.ID)
	moved.BaseURL = "https://thief.example" // as one would who can write the row
	b.rows[in.ID] = moved
	_, err = tokens.Conn(t.Context(), moved)
	fails(t, err, action.ErrUnavailable, sources.FaultCredential, "another host")
	_, err = tokens.Conn(t.Context(), in)
	fails(t, err, action.ErrUnavailable, sources.FaultCredential, "has just changed")
}

func TestCheckKeepsWhatTheServiceSays(t *testing.T) {
	b := newBank(t)
	tokens := b.instance(b.module())
	in, err := tokens.Connect(t.Context(), key())
	if err != nil {
		t.Fatal(err)
	}
	b.good = func(string) bool { return false }
	got, err := tokens.Check(t.Context(), in)
	if err != nil || got.Status != action.IntegrationRevoked || got.Sealed != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	b.good = func(string) bool { return true }
	if got, err = tokens.Check(t.Context(), in); err != nil || got.Status != action.IntegrationActive || got.Reason != "" {
		t.Errorf("got %+v, %v", got, err)
	}
}
