package server

import (
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/internal/defaults"
)

func TestWebhookSecrets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"github=0123456789abcdef,github=0123456789abcdeg,linear=0123456789=bcdef": "",
		"github=0123456789abcde": "the secret of github has fewer than 16 characters",
		"github=":                "PROVIDER=SECRET",
		"0123456789abcdef":       "PROVIDER=SECRET",
	} {
		var s webhookSecrets
		err := s.UnmarshalText([]byte(text))
		switch {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "0123")):
			t.Errorf("%s: %v", text, err)
		case want == "" && (err != nil || len(s.of["github"]) != 2 || s.of["linear"][0] != "0123456789=bcdef"):
			t.Errorf("%s: %v, %v", text, s.of, err)
		}
	}
}

func TestSignInFlags(t *testing.T) {
	t.Parallel()
	good := signInFlags{
		LoginIdle: 8 * time.Hour, LoginLife: 168 * time.Hour, OIDCIssuer: "https://id.example.com", OIDCClientID: "sallyport",
		OIDCRoleClaim: "groups", OIDCRoleMap: roleMap{map[string]action.Role{"a": action.RoleAdmin}},
	}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*signInFlags){
		"--login-idle (200h0m0s) must not be longer": func(f *signInFlags) { f.LoginIdle = 200 * time.Hour },
		"must be 1m or more":                         func(f *signInFlags) { f.LoginIdle = time.Second },
		"need --oidc-issuer":                         func(f *signInFlags) { f.OIDCIssuer = "" },
		"needs --oidc-client-id":                     func(f *signInFlags) { f.OIDCClientID = "" },
		"needs roles":                                func(f *signInFlags) { f.OIDCRoleMap.of = nil },
		"needs --oidc-role-claim":                    func(f *signInFlags) { f.OIDCRoleClaim = "" },
		"cannot be owner":                            func(f *signInFlags) { f.OIDCDefaultRole = action.RoleOwner },
		"must be admin or member":                    func(f *signInFlags) { f.OIDCDefaultRole = "root" },
		"need --user-jwt-issuer":                     func(f *signInFlags) { f.UserJWTJWKSURL = "https://app.example.com/keys" },
		"needs either":                               func(f *signInFlags) { f.UserJWTIssuer = "app" },
	} {
		f := good
		change(&f)
		if err := f.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	var m roleMap
	if err := m.UnmarshalText([]byte("cn=ops=owner, all=member")); err != nil || m.of["cn=ops"] != action.RoleOwner || m.of["all"] != action.RoleMember {
		t.Errorf("%v %v", m.of, err)
	}
	for _, bad := range []string{"", "a", "a=root", "=owner", "a=owner,"} {
		if m.UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// An interval is refused by the name of its flag, whichever part declares it.
func TestNegativeIntervals(t *testing.T) {
	t.Parallel()
	for flag, change := range map[string]func(*intervals){
		"--hold-every":        func(iv *intervals) { iv.HoldEvery = -1 },
		"--keep-alive":        func(iv *intervals) { iv.MCP.KeepAliveEvery = -1 },
		"--list-for":          func(iv *intervals) { iv.Lists.TTL = -1 },
		"--inbox-lease":       func(iv *intervals) { iv.Inbox.Lease = -1 },
		"--look-every":        func(iv *intervals) { iv.Poll.Every = -1 },
		"--evidence-unsealed": func(iv *intervals) { iv.EvidenceKept = -1 },
	} {
		var o Options
		change(&o.Intervals)
		defaults.Set(&o.Intervals)
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), flag+" must not be negative") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
