package credential_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/sources"
)

// A service may repeat the credential wherever it says something, as it is or in
// another form: it is in nothing that is kept or told.
func TestEchoesAreCleaned(t *testing.T) {
	const token = "key/canary+0123456789/abc="
	for form, echo := range map[string]string{
		"as it is": token, "base64": base64.StdEncoding.EncodeToString([]byte(token)), "base64 of more": base64.StdEncoding.EncodeToString([]byte("Bearer " + token)),
		"in a URL": url.QueryEscape(token), "long": strings.Repeat("x", 50) + " " + token,
	} {
		t.Run(form, func(t *testing.T) {
			b := newBank(t)
			no := &sources.Refusal{Code: echo, Status: 401, Message: echo, Detail: echo, Credential: true}
			var says error
			tokens := b.instance(b.module(func(m *sources.Module) {
				m.Settings = nil
				m.Account = func(context.Context, *sources.Conn) (sources.Account, error) {
					settings, err := json.Marshal(map[string]string{"org": echo})
					return sources.Account{ID: "id " + echo, Name: "name " + echo, Scopes: []string{"scope " + echo}, Settings: settings}, errors.Join(says, err)
				}
				m.Metadata = func(context.Context, *sources.Conn, url.Values) (any, error) {
					return map[string]any{echo: []string{echo}}, says
				}
				m.Revoke = func(context.Context, *sources.Conn) error { return no }
				m.Settings = json.RawMessage(`{"type":"object"}`)
			}))
			clean := func(what string, v any) {
				t.Helper()
				raw, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				for _, secret := range []string{echo, token, "canary+0123", url.QueryEscape(token)[:20], base64.StdEncoding.EncodeToString([]byte(token))[4:20]} {
					if strings.Contains(string(raw), secret) {
						t.Errorf("%s: %s", what, raw)
						return
					}
				}
			}
			w := key()
			w.Secret = token
			in, err := tokens.Connect(t.Context(), w)
			if err != nil {
				t.Fatal(err)
			}
			clean("the integration", in)
			answer, err := tokens.Metadata(t.Context(), in, nil)
			if err != nil {
				t.Fatal(err)
			}
			clean("metadata", answer)
			w.Account = "other"
			_, err = tokens.Connect(t.Context(), w)
			clean("another account", err.Error())
			says, w.Account = no, ""
			_, err = tokens.Connect(t.Context(), w)
			clean("a refused credential", err.Error())
			says = &sources.Refusal{Code: echo, Message: echo}
			_, err = tokens.Metadata(t.Context(), in, nil)
			clean("refused metadata", err.Error())
			_, err = tokens.Refused(t.Context(), in, token, echo)
			clean("a refused action", err.Error())
			says = no
			_, err = tokens.Refused(t.Context(), in, token, echo)
			clean("a refused token", err.Error())
			if row := b.row(in.ID); row.Status != action.IntegrationRevoked {
				t.Errorf("it is %s", row.Status)
			}
			clean("the reason", b.row(in.ID).Reason)
			if _, err := tokens.Disconnect(t.Context(), in, "ann"); err != nil {
				t.Error(err)
			}
			clean("the log", b.log.String())
		})
	}
}
