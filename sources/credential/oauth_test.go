package credential_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/credential"
)

func TestConnectingAtARealAuthorizationServer(t *testing.T) {
	b := newBank(t)
	_, tokens := b.signing()
	step := begin(t, tokens, oauth())
	q := query(t, step.URL)
	if q.Get("redirect_uri") != callback+"/acme" || q.Get("scope") != "read,write" || q.Get("code_challenge_method") != "S256" || q.Get("state") != step.State ||
		!step.ExpiresAt.Equal(b.clock().Add(5*time.Minute)) {
		t.Errorf("the person is sent to %s until %s", step.URL, step.ExpiresAt)
	}
	for hash, f := range b.flows {
		if strings.Contains(hash, step.State) || f.Login != "l1" || f.By != "ann" {
			t.Errorf("the flow is kept as %+v", f)
		}
	}
	in, err := tokens.Finish(t.Context(), "org", "ann", "l1", true, visit(t, step.URL))
	if err != nil {
		t.Fatal(err)
	}
	if in.Account != "acme-1" || in.Kind != action.KindOAuth2 || strings.Join(in.Scopes, " ") != "read write" || in.BaseURL != "" || in.Sealed != nil {
		t.Errorf("got %+v", in)
	}
	if got, err := tokens.Token(t.Context(), in); got != "access-canary-1" || err != nil {
		t.Errorf("the token is %q, %v", got, err)
	}

	b.pass(2 * time.Hour) // twice: each refresh token is good once
	for _, want := range []string{"access-canary-2", "access-canary-3"} {
		if got, err := tokens.Token(t.Context(), in); got != want || err != nil {
			t.Errorf("the token is %q, %v; not %s", got, err, want)
		}
		b.pass(2 * time.Hour)
	}
	again := connected(t, tokens)
	if again.ID != in.ID || again.Status != action.IntegrationActive || b.row(in.ID).Status != action.IntegrationActive {
		t.Errorf("connecting again made %+v", again)
	}
}

func TestVerifierIsTheFlowsOwn(t *testing.T) {
	b := newBank(t)
	_, tokens := b.signing()
	mine, stolen := begin(t, tokens, oauth()), begin(t, tokens, oauth())
	a := visit(t, stolen.URL)
	a.State = mine.State // a code that was injected into another flow
	_, err := tokens.Finish(t.Context(), "org", "ann", "l1", true, a)
	fails(t, err, action.ErrInvalid, "oauth_flow", "invalid_grant")
	if len(b.rows) > 0 {
		t.Error("it was saved")
	}
}

func TestFinishIsForWhoBegan(t *testing.T) {
	for name, c := range map[string]struct {
		org, by, login string
		member         bool // who decides nothing any more
		change         func(b *bank, a *action.ConnectCallback)
		kind           error
		says           string
	}{
		"another user":         {"org", "bob", "l1", false, nil, action.ErrInvalid, "another login, which can still complete it"},
		"another login":        {"org", "ann", "l2", false, nil, action.ErrInvalid, "another login, which can still complete it"},
		"another organization": {"gro", "ann", "l1", false, nil, action.ErrInvalid, "another login, which can still complete it"},
		"decides no more":      {"org", "ann", "l1", true, nil, action.ErrForbidden, "Only an owner or admin can connect"},
		"another's page":       {"org", "ann", "l1", false, func(_ *bank, a *action.ConnectCallback) { a.Provider = "acne" }, action.ErrInvalid, "not from the expected service"},
		"nobody's page":        {"org", "ann", "l1", false, func(_ *bank, a *action.ConnectCallback) { a.Provider = "" }, action.ErrInvalid, "not from the expected service"},
		"no state":             {"org", "ann", "l1", false, func(_ *bank, a *action.ConnectCallback) { a.State = "" }, action.ErrInvalid, "no state"},
		"wrong state":          {"org", "ann", "l1", false, func(_ *bank, a *action.ConnectCallback) { a.State += "x" }, action.ErrInvalid, "does not exist"},
		"late":                 {"org", "ann", "l1", false, func(b *bank, _ *action.ConnectCallback) { b.pass(5 * time.Minute) }, action.ErrInvalid, "has expired"},
		"denied":               {"org", "ann", "l1", false, func(_ *bank, a *action.ConnectCallback) { a.Error = "access_denied" }, action.ErrInvalid, "denied access: access_denied"},
		"odd denial":           {"org", "ann", "l1", false, func(_ *bank, a *action.ConnectCallback) { a.Error = "<b>canary" }, action.ErrInvalid, "an unknown error"},
		"no code":              {"org", "ann", "l1", false, func(_ *bank, a *action.ConnectCallback) { a.Code = "" }, action.ErrInvalid, "no code"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t)
			_, tokens := b.signing()
			a := visit(t, begin(t, tokens, oauth()).URL)
			if c.change != nil {
				c.change(b, &a)
			}
			_, err := tokens.Finish(t.Context(), c.org, c.by, c.login, !c.member, a)
			code := "oauth_flow"
			if c.member {
				code = "role_required"
			}
			fails(t, err, c.kind, code, c.says)
			if len(b.rows) > 0 || b.requests("POST /oauth/token") > 0 {
				t.Error("the code was sent")
			}
			if err != nil && strings.Contains(err.Error(), "ann") {
				t.Errorf("%v tells of the other one", err)
			}
			_, err = tokens.Finish(t.Context(), "org", "ann", "l1", true, a)
			if others := strings.Contains(c.says, "another login"); others != (err == nil) {
				t.Errorf("who began it gets %v then", err)
			}
		})
	}
	b := newBank(t)
	_, tokens := b.signing()
	a := visit(t, begin(t, tokens, oauth()).URL)
	if _, err := tokens.Finish(t.Context(), "org", "ann", "l1", true, a); err != nil {
		t.Fatal(err)
	}
	_, err := tokens.Finish(t.Context(), "org", "ann", "l1", true, a)
	fails(t, err, action.ErrInvalid, "oauth_flow", "Start again")
}

// What a service calls itself in its answer is compared where that is known.
func TestIssuerOfAnAnswer(t *testing.T) {
	for issuer, says := range map[string]string{
		"https://accounts.google.com": "denied access", "": "denied access",
		"https://accounts.google.com/": "not from the expected service", "https://thief.example": "not from the expected service",
	} {
		b := newBank(t)
		tokens := b.instance(b.module(func(m *sources.Module) { m.Needs[1].Preset = "google" }))
		b.register(tokens, action.ProviderApp{Provider: "acme", ClientID: "client"}, nil)
		a := action.ConnectCallback{Provider: "acme", Iss: issuer, State: begin(t, tokens, oauth()).State, Error: "access_denied"}
		_, err := tokens.Finish(t.Context(), "org", "ann", "l1", true, a)
		fails(t, err, action.ErrInvalid, "oauth_flow", says)
	}
}

// Who does not decide connects in his own name alone.
func TestOwnConnectionNeedsNoRole(t *testing.T) {
	b := newBank(t)
	_, tokens := b.signing()
	w := oauth()
	w.Own = true
	in, err := tokens.Finish(t.Context(), "org", "ann", "l1", false, visit(t, begin(t, tokens, w).URL))
	if err != nil || in.User != "ann" {
		t.Errorf("got %+v, %v", in, err)
	}
}

func TestBeginNeedsARegistration(t *testing.T) {
	b := newBank(t)
	tokens := b.instance(b.module())
	_, err := tokens.Begin(t.Context(), oauth())
	fails(t, err, action.ErrInvalid, "no_app", "must register the gateway there")
	b.register(tokens, action.ProviderApp{Provider: "acme", ClientID: "client"}, nil)
	w := oauth()
	w.BaseURL = "https://thief.example"
	_, err = tokens.Begin(t.Context(), w)
	fails(t, err, action.ErrInvalid, "invalid_integration", "connects to no other host")
	_, err = tokens.Begin(t.Context(), key())
	fails(t, err, action.ErrInvalid, "invalid_integration", "without a browser")
}

// fifty asks for the token fifty times at once, and returns those that came.
func fifty(t *testing.T, in action.Integration, among ...*credential.Tokens) map[string]int {
	t.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	got := map[string]int{}
	for i := range 50 {
		group.Go(func() {
			token, err := among[i%len(among)].Token(t.Context(), in)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			got[token]++
		})
	}
	group.Wait()
	return got
}

func TestFiftyCallersRenewOnce(t *testing.T) {
	b := newBank(t)
	_, tokens := b.signing()
	in := connected(t, tokens)
	b.pass(3 * time.Hour)
	if got := fifty(t, in, tokens); got["access-canary-2"] != 50 {
		t.Errorf("got %v", got)
	}
	if n := b.requests("POST /oauth/token"); n != 2 {
		t.Errorf("the token endpoint was asked %d times; once to connect and once to renew were due", n)
	}
}

func TestInstancesRenewOnce(t *testing.T) {
	b := newBank(t)
	_, one := b.signing()
	two := b.instance(b.module())
	in := connected(t, one)
	b.pass(3 * time.Hour)
	if got := fifty(t, in, one, two); got["access-canary-2"] != 50 {
		t.Errorf("got %v", got)
	}
	if n := b.requests("POST /oauth/token"); n != 2 {
		t.Errorf("the token endpoint was asked %d times", n)
	}
}

// An instance that dies after the service rotated the refresh token and before
// the row was written takes both with it: nobody can renew any more, and people
// are told so.
func TestLostRenewalIsTold(t *testing.T) {
	b := newBank(t)
	_, one := b.signing()
	in := connected(t, one)
	b.pass(3 * time.Hour)
	b.broken = 3
	_, err := one.Token(t.Context(), in)
	fails(t, err, action.ErrUnavailable, sources.FaultCredential, "Retry")
	_, err = b.instance(b.module()).Token(t.Context(), in)
	fails(t, err, action.ErrUnavailable, sources.FaultReconnect, "Acme no longer renews the access (invalid_grant). Connect it again.")
	if row := b.row(in.ID); row.Status != action.IntegrationExpired {
		t.Errorf("it is %s", row.Status)
	}
}

func TestPassingTroubleEndsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		code   string
	}{
		"the service is down":   {503, `{"error":"invalid_grant"}`, sources.FaultFailed},
		"a page":                {200, `<html>`, sources.FaultProtocol},
		"the secret is another": {401, `{"error":"invalid_client"}`, sources.FaultAuth},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t)
			a, tokens := b.signing()
			in := connected(t, tokens)
			a.answers(c.status, c.body)
			b.pass(2*time.Hour - 30*time.Second)
			if got, err := tokens.Token(t.Context(), in); got != "access-canary-1" || err != nil {
				t.Errorf("the token that lives for half a minute is not used: %q, %v", got, err)
			}
			b.pass(time.Minute)
			_, err := tokens.Token(t.Context(), in)
			fails(t, err, action.ErrUnavailable, c.code, "")
			if errors.Is(err, action.ErrOutcomeUnknown) {
				t.Error("the caller would believe that something was done")
			}
			if row := b.row(in.ID); row.Status != action.IntegrationActive {
				t.Errorf("it is %s: %s", row.Status, row.Reason)
			}
			a.answers(0, "")
			b.pass(11 * time.Minute)
			if got, err := tokens.Token(t.Context(), in); got != "access-canary-2" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestRefusedAccessIsReplacedOnce(t *testing.T) {
	b := newBank(t)
	a, tokens := b.signing()
	in := connected(t, tokens)
	b.pass(time.Minute)
	for range 2 { // the second one is late
		if again, err := tokens.Refused(t.Context(), in, "access-canary-1", "expired"); !again || err != nil {
			t.Fatalf("got %v, %v", again, err)
		}
	}
	if n := a.issued.Load(); n != 2 {
		t.Errorf("%d tokens were issued", n)
	}
	again, err := tokens.Refused(t.Context(), in, "access-canary-2", "expired")
	if again {
		t.Error("a token of this very moment is replaced")
	}
	fails(t, err, action.ErrUnavailable, sources.FaultAuth, "issued just now")
	b.pass(time.Minute)
	a.answers(http.StatusBadRequest, `{"error":"invalid_grant","error_description":"refresh-canary-2"}`)
	_, err = tokens.Refused(t.Context(), in, "access-canary-2", "expired")
	fails(t, err, action.ErrUnavailable, sources.FaultReconnect, "Connect it again")
	if row := b.row(in.ID); row.Status != action.IntegrationExpired {
		t.Errorf("it is %s", row.Status)
	}
}

func TestDisconnectGivesBack(t *testing.T) {
	b := newBank(t)
	_, tokens := b.signing()
	in := connected(t, tokens)
	revoked, err := tokens.Disconnect(t.Context(), in, "ann")
	if err != nil || !revoked || b.good("access-canary-1") {
		t.Errorf("got %v, %v", revoked, err)
	}
	if row := b.row(in.ID); row.Status != action.IntegrationDeleted || row.Sealed != nil {
		t.Errorf("it is %+v", row)
	}
	_, err = tokens.Token(t.Context(), in)
	fails(t, err, action.ErrUnavailable, sources.FaultReconnect, "disconnected")
	if again := connected(t, tokens); again.ID != in.ID {
		t.Errorf("it came back as %s", again.ID)
	}

	dead := b.instance(b.module(), func(c *credential.TokensConfig) { c.Timeout = 50 * time.Millisecond })
	b.register(dead, action.ProviderApp{Provider: "acme", ClientID: "another", BaseURL: b.url}, nil)
	revoked, err = dead.Disconnect(t.Context(), in, "ann")
	if err != nil || revoked || b.row(in.ID).Status != action.IntegrationDeleted {
		t.Errorf("got %v, %v", revoked, err)
	}
}

// The wire bodies of services that answer 200 and mean no, and name their tokens
// in their own way.
func TestServicesOwnWays(t *testing.T) {
	for name, c := range map[string]struct {
		preset, path, body string
		scopes             string
		says               string // empty: it is connected
	}{
		"slack": {
			"slack", "/api/oauth.v2.access", `{"ok":true,"access_token":"xoxb-canary","token_type":"bot","scope":"chat:write,channels:read",` +
				`"bot_user_id":"U0","app_id":"A0","team":{"id":"T9","name":"Acme"},"enterprise":null,"authed_user":{"id":"U1"},"is_enterprise_install":false}`,
			"channels:read chat:write", "",
		},
		"slack's no":  {"slack", "/api/oauth.v2.access", `{"ok":false,"error":"invalid_code"}`, "", "invalid_code"},
		"github":      {"github", "/login/oauth/access_token", `{"access_token":"gho_canary","scope":"repo","token_type":"bearer"}`, "repo", ""},
		"github's no": {"github", "/login/oauth/access_token", `{"error":"bad_verification_code","error_description":"The code passed is incorrect or expired."}`, "", "bad_verification_code"},
		"a list":      {"linear", "/oauth/token", `{"access_token":"lin_canary","token_type":"Bearer","expires_in":315705599,"scope":["read","write"]}`, "read write", ""},
		"sentry":      {"sentry", "/oauth/token/", `{"access_token":"canary","refresh_token":"r-canary","expires_in":2591999,"expires_at":"2026-12-21T00:00:00Z","token_type":"bearer","scope":"event:read"}`, "event:read", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t)
			b.mux.HandleFunc("POST "+c.path, func(w http.ResponseWriter, r *http.Request) {
				_ = r.ParseForm()
				if f := r.PostForm; f.Get("code") != "c" || f.Get("client_secret") != "secret-canary" || f.Get("redirect_uri") != callback+"/acme" || len(f.Get("code_verifier")) < 43 ||
					r.Header.Get("Accept") != "application/json" {
					t.Errorf("it is asked with %v", f)
				}
				_, _ = w.Write([]byte(c.body))
			})
			tokens := b.instance(b.module(func(m *sources.Module) { m.Needs[1].Preset = c.preset }))
			b.register(tokens, action.ProviderApp{Provider: "acme", ClientID: "client", BaseURL: b.url}, map[string]string{action.AppClientSecret: "secret-canary"})
			step := begin(t, tokens, oauth())
			in, err := tokens.Finish(t.Context(), "org", "ann", "l1", true, action.ConnectCallback{Provider: "acme", State: step.State, Code: "c"})
			if c.says != "" {
				fails(t, err, action.ErrInvalid, "oauth_flow", c.says)
				return
			}
			if err != nil || strings.Join(in.Scopes, " ") != c.scopes {
				t.Errorf("got %+v, %v", in, err)
			}
		})
	}
}

// Where people are led without a base URL of one's own.
func TestPresets(t *testing.T) {
	for preset, want := range map[string]string{
		"linear": "https://linear.app/oauth/authorize?",
		"sentry": "https://sentry.io/oauth/authorize/?",
		"slack":  "https://slack.com/oauth/v2/authorize?",
		"github": "https://github.com/login/oauth/authorize?",
		"google": "https://accounts.google.com/o/oauth2/v2/auth?access_type=offline&",
	} {
		b := newBank(t)
		tokens := b.instance(b.module(func(m *sources.Module) { m.Needs[1].Preset = preset }))
		b.register(tokens, action.ProviderApp{Provider: "acme", ClientID: "client"}, nil)
		if got := begin(t, tokens, oauth()).URL; !strings.HasPrefix(got, want) {
			t.Errorf("%s leads to %s", preset, got)
		}
	}
}

// A server of one's own may be under a path. Sentry's base URL is that path, and
// its OAuth is below it; those of others are of the API, beside which it is.
func TestPresetsOfAServerUnderAPath(t *testing.T) {
	for preset, want := range map[string]string{
		"linear": "https://host.example/oauth/authorize?",
		"sentry": "https://host.example/under/a%2Fpath/oauth/authorize/?",
		"github": "https://host.example/login/oauth/authorize?",
	} {
		b := newBank(t)
		tokens := b.instance(b.module(func(m *sources.Module) { m.Needs[1].Preset = preset }))
		b.register(tokens, action.ProviderApp{Provider: "acme", ClientID: "client", BaseURL: "https://host.example/under/a%2Fpath/"}, nil)
		if got := begin(t, tokens, oauth()).URL; !strings.HasPrefix(got, want) {
			t.Errorf("%s leads to %s", preset, got)
		}
	}
}
