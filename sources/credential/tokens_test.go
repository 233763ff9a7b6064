package credential_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/credential"
)

func TestMetadataIsTheModules(t *testing.T) {
	b := newBank(t)
	tokens := b.instance(b.module(func(m *sources.Module) {
		m.Metadata = func(_ context.Context, c *sources.Conn, q url.Values) (any, error) {
			switch q.Get("kind") {
			case "teams":
				return []string{c.Account, c.Token[:3]}, nil
			case "tames":
				return nil, lost()
			case "teems":
				return nil, &sources.Refusal{Code: "unknown", Status: 400, Message: "There are teams (" + c.Token + ")."}
			}
			return nil, &sources.Refusal{Code: "bad_token", Status: 401, Credential: true}
		}
	}))
	in, err := tokens.Connect(t.Context(), key())
	if err != nil {
		t.Fatal(err)
	}
	got, err := tokens.Metadata(t.Context(), in, url.Values{"kind": {"teams"}})
	if err != nil || string(got) != `["acme-1","key"]` {
		t.Errorf("got %s, %v", got, err)
	}
	_, err = tokens.Metadata(t.Context(), in, url.Values{"kind": {"teems"}})
	fails(t, err, action.ErrUnavailable, sources.FaultRefused, "Acme refused (unknown): There are teams ([redacted]).")
	_, err = tokens.Metadata(t.Context(), in, url.Values{"kind": {"tames"}})
	fails(t, err, action.ErrUnavailable, sources.FaultFailed, "Acme gave no valid answer. Retry later.")
	_, err = tokens.Metadata(t.Context(), in, nil)
	fails(t, err, action.ErrUnavailable, sources.FaultRefused, "Acme refused this (bad_token) but still accepts the credential")
	if row := b.row(in.ID); row.Status != action.IntegrationActive {
		t.Errorf("a good key is %s", row.Status)
	}
	b.good = func(string) bool { return false }
	_, err = tokens.Metadata(t.Context(), in, nil)
	fails(t, err, action.ErrUnavailable, sources.FaultReconnect, "Connect it again")
	if row := b.row(in.ID); row.Status != action.IntegrationRevoked {
		t.Errorf("it is %s", row.Status)
	}
}

func TestTheAccountThatIsMeant(t *testing.T) {
	b := newBank(t)
	tokens := b.instance(b.module())
	w := key()
	w.Account = "acme-2"
	_, err := tokens.Connect(t.Context(), w)
	fails(t, err, action.ErrConflict, "other_account", "another account (Acme)")
	w.Account = "acme-1"
	if _, err := tokens.Connect(t.Context(), w); err != nil || len(b.rows) != 1 {
		t.Errorf("got %v, and %d rows", err, len(b.rows))
	}
}

func TestModuleWithoutCredential(t *testing.T) {
	b := newBank(t)
	tokens := b.instance(&sources.Module{ID: "acme", Title: "Acme", Needs: []sources.Need{{Kind: action.KindNone}}})
	w := key()
	w.Kind = action.KindNone
	_, err := tokens.Connect(t.Context(), w)
	fails(t, err, action.ErrInvalid, "invalid_field", "has no credential")
	w.Secret = ""
	in, err := tokens.Connect(t.Context(), w)
	if err != nil || in.Account == "" || b.row(in.ID).Sealed != nil {
		t.Fatalf("got %+v, %v", in, err)
	}
	c, err := tokens.Conn(t.Context(), in)
	if err != nil || c.Token != "" || c.HTTP != nil {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestModuleRevokes(t *testing.T) {
	for name, answer := range map[string]error{"it does": nil, "it does not": &sources.Refusal{Code: "no", Detail: "key-canary-1"}, "it is away": errors.New("away")} {
		b := newBank(t)
		got := ""
		tokens := b.instance(b.module(func(m *sources.Module) {
			m.Revoke = func(_ context.Context, c *sources.Conn) error { got = c.Token; return answer }
		}))
		in, err := tokens.Connect(t.Context(), key())
		if err != nil {
			t.Fatal(err)
		}
		revoked, err := tokens.Disconnect(t.Context(), in, "ann")
		if row := b.row(in.ID); err != nil || revoked != (answer == nil) || got != "key-canary-1" || row.Status != action.IntegrationDeleted || row.Sealed != nil {
			t.Errorf("%s: got %v, %v with %q; it is %s", name, revoked, err, got, row.Status)
		}
	}
}

func TestGitHubsTokensAreGivenBack(t *testing.T) {
	b := newBank(t)
	b.mux.HandleFunc("POST /login/oauth/access_token", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"access_token":"gho_canary","scope":"repo","token_type":"bearer"}`))
	})
	b.mux.HandleFunc("DELETE /applications/client/token", func(w http.ResponseWriter, r *http.Request) {
		if id, secret, ok := r.BasicAuth(); !ok || id != "client" || secret != "secret-canary" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	tokens := b.instance(b.module(func(m *sources.Module) { m.Needs[1].Preset = "github" }))
	b.register(tokens, action.ProviderApp{Provider: "acme", ClientID: "client", BaseURL: b.url}, map[string]string{action.AppClientSecret: "secret-canary"})
	step := begin(t, tokens, oauth())
	in, err := tokens.Finish(t.Context(), "org", "ann", "l1", true, action.ConnectCallback{Provider: "acme", State: step.State, Code: "c"})
	if err != nil {
		t.Fatal(err)
	}
	revoked, err := tokens.Disconnect(t.Context(), in, "ann")
	if err != nil || !revoked || !strings.Contains(strings.Join(b.seen, "\n"), `{"access_token":"gho_canary"}`) {
		t.Errorf("got %v, %v", revoked, err)
	}
}

// A service that hangs, or says what it was sent.
func TestServicesThatHangOrEcho(t *testing.T) {
	b := newBank(t)
	a, tokens := b.signing()
	in := connected(t, tokens)
	var seen string
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		seen = r.PostForm.Encode()
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"` + seen + `","error_description":"` + seen + `"}`))
	})
	a.trouble.Store(&h)
	b.pass(3 * time.Hour)
	_, err := tokens.Token(t.Context(), in)
	fails(t, err, action.ErrUnavailable, sources.FaultAuth, "an unknown error")
	if !strings.Contains(seen, "refresh-canary-1") || !strings.Contains(seen, "secret-canary") {
		t.Errorf("it was not sent: %s", seen)
	}
	hang := make(chan struct{})
	defer close(hang)
	h2 := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang })
	a.trouble.Store(&h2)
	hasty := b.instance(b.module(), func(c *credential.TokensConfig) { c.Timeout = 50 * time.Millisecond })
	_, err = hasty.Token(t.Context(), in)
	fails(t, err, action.ErrUnavailable, sources.FaultTimeout, "")
	if errors.Is(err, action.ErrOutcomeUnknown) {
		t.Error("the caller would believe that something was done")
	}
	if row := b.row(in.ID); row.Status != action.IntegrationActive {
		t.Errorf("it is %s", row.Status)
	}
}

// Who waits for a renewal may leave; it goes on for others, and Close waits.
func TestCallerLeaves(t *testing.T) {
	b := newBank(t)
	a, tokens := b.signing()
	in := connected(t, tokens)
	asked, answer := make(chan struct{}), make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		<-answer
		a.grant(w, r)
	})
	a.trouble.Store(&h)
	b.pass(3 * time.Hour)
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-asked; leave() }()
	_, err := tokens.Token(ctx, in)
	fails(t, err, action.ErrUnavailable, sources.FaultTimeout, "")
	close(answer)
	_ = tokens.Close()
	a.answers(0, "")
	if got, err := b.instance(b.module()).Token(t.Context(), in); got != "access-canary-2" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// Guardrails that a disconnection removed would be missed by the sessions that
// are still bound to what comes back.
func TestSettingsOutliveADisconnection(t *testing.T) {
	b := newBank(t)
	tokens := b.instance(b.module())
	w := key()
	w.Name, w.Settings = "Ours", json.RawMessage(`{"team":"core"}`)
	in, err := tokens.Connect(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Disconnect(t.Context(), in, "ann"); err != nil {
		t.Fatal(err)
	}
	again, err := tokens.Connect(t.Context(), key())
	if err != nil || again.ID != in.ID || again.Name != "Ours" || string(again.Settings) != `{"org":"acme","team":"core"}` {
		t.Errorf("it came back as %+v, %v", again, err)
	}
}

func TestModuleWithoutCredentialIsConnectedOnce(t *testing.T) {
	b := newBank(t)
	tokens := b.instance(&sources.Module{ID: "acme", Title: "Acme", Needs: []sources.Need{{Kind: action.KindNone}}})
	for _, name := range []string{"One", "Another", ""} {
		in, err := tokens.Connect(t.Context(), action.ConnectRequest{Organization: "org", Provider: "acme", Name: name, By: "ann", Login: "l1"})
		if err != nil || in.Account != "acme" || len(b.rows) != 1 {
			t.Errorf("got %+v, %v; there are %d", in, err, len(b.rows))
		}
	}
}
