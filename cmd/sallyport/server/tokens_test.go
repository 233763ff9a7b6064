package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/credential"
)

// rotating is a service that takes each refresh token once.
type rotating struct {
	mu    sync.Mutex
	n     int // tokens that were given
	spent int // refresh tokens that came a second time
}

func (s *rotating) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = r.ParseForm()
	if r.PostForm.Get("grant_type") == "refresh_token" && r.PostForm.Get("refresh_token") != fmt.Sprintf("refresh-canary-%d", s.n) {
		s.spent++
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_grant"}`)
		return
	}
	s.n++
	time.Sleep(50 * time.Millisecond) // for the others to come
	fmt.Fprintf(w, `{"access_token":"access-canary-%d","refresh_token":"refresh-canary-%d","token_type":"Bearer","expires_in":3600}`, s.n, s.n)
}

// tokensOf are the gateway's, for a module that signs in to the service, by a
// clock that is ahead.
func tokensOf(t *testing.T, v *vaulted, service string, ahead *atomic.Int64) *credential.Tokens {
	t.Helper()
	m := &sources.Module{
		ID: "acme", Title: "Acme", BaseURL: service, Needs: []sources.Need{{Kind: action.KindOAuth2, Preset: "linear"}},
		Account: func(context.Context, *sources.Conn) (sources.Account, error) { return sources.Account{ID: "a"}, nil },
	}
	tokens, err := credential.NewTokens(credential.TokensConfig{
		Store: v.DB, Vault: v.vault, Lock: blockingLocks{v.coord}.acquire, Modules: []*sources.Module{m}, HTTP: v.outbound, RedirectURL: "http://gate.test/oauth/callback",
		Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }, Log: v.log,
	})
	v.ok(err)
	t.Cleanup(func() { _ = tokens.Close() })
	return tokens
}

// However many instances need a token that ended, over real rows and with the
// locks that they really have, it is renewed once.
func TestTokensAreRenewedOnceOnRealRows(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		renewedOnce(t, openVaulted(t, Options{Data: t.TempDir()}))
	})
	t.Run("Postgres", func(t *testing.T) {
		at := postgresTables(t)
		open := func() *vaulted {
			return openVaulted(t, Options{Data: t.TempDir(), DatabaseURL: at, MasterKey: strings.Repeat("1a", 32), TokenKey: strings.Repeat("2b", 32)})
		}
		renewedOnce(t, open(), open())
	})
}

func renewedOnce(t *testing.T, gateways ...*vaulted) {
	service := &rotating{}
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	var ahead atomic.Int64
	var all []*credential.Tokens
	for _, v := range gateways {
		all = append(all, tokensOf(t, v, server.URL, &ahead))
	}
	first, db := all[0], gateways[0].DB
	in := connectAcme(t, first, db.PutProviderApp, server.URL)
	for n := 2; n <= 3; n++ {
		ahead.Add(int64(2 * time.Hour))
		got := map[string]int{}
		var mu sync.Mutex
		var group sync.WaitGroup
		for i := range 20 {
			group.Go(func() {
				token, err := all[i%len(all)].Token(t.Context(), in)
				mu.Lock()
				defer mu.Unlock()
				got[token]++
				if err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if want := fmt.Sprintf("access-canary-%d", n); got[want] != 20 || service.n != n || service.spent > 0 {
			t.Errorf("got %v; %d tokens were given, %d refresh tokens came twice", got, service.n, service.spent)
		}
	}
	row, err := db.IntegrationCredential(t.Context(), in.Organization, in.ID)
	raw, _ := json.Marshal(row)
	if err != nil || row.Status != action.IntegrationActive || row.Version != 3 || strings.Contains(string(raw)+string(row.Sealed), "canary") {
		t.Errorf("the row is %s, of version %d: %v", row.Status, row.Version, err)
	}
	last := all[len(all)-1]
	if _, err := last.Disconnect(t.Context(), in, "ann"); err != nil {
		t.Error(err)
	}
	if again := connectAcme(t, first, db.PutProviderApp, server.URL); again.ID != in.ID || again.Status != action.IntegrationActive {
		t.Errorf("it came back as %+v", again)
	}
}

// connectAcme registers the gateway and connects to the service.
func connectAcme(t *testing.T, tokens *credential.Tokens, register func(context.Context, action.ProviderApp, string) error, service string) action.Integration {
	t.Helper()
	app, err := tokens.SealApp(action.ProviderApp{Organization: "default", Provider: "acme", ClientID: "client", BaseURL: service}, map[string]string{action.AppClientSecret: "secret-canary"})
	if err == nil {
		err = register(t.Context(), app, "ann")
	}
	if err != nil {
		t.Fatal(err)
	}
	step, err := tokens.Begin(t.Context(), action.ConnectRequest{Organization: "default", Provider: "acme", Kind: action.KindOAuth2, By: "ann", Login: "l1"})
	if err != nil {
		t.Fatal(err)
	}
	in, err := tokens.Finish(t.Context(), "default", "ann", "l1", true, action.ConnectCallback{Provider: "acme", State: step.State, Code: "c"})
	if err != nil {
		t.Fatal(err)
	}
	return in
}
