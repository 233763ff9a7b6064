package server

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/dashboard"
	"sallyport/internal/guard"
)

// signInFlags configure sign-in with an identity provider; see docs/sign-in.md.
type signInFlags struct {
	LoginIdle time.Duration `help:"Time without use before a browser is signed out (default: 8h)." default:"8h" placeholder:"D"`
	LoginLife time.Duration `help:"Maximum lifetime of a sign-in (default: 168h)." default:"168h" placeholder:"D"`

	OIDCIssuer       string      `name:"oidc-issuer" help:"Issuer URL of the OpenID provider; its redirect URI is PUBLIC_URL/login/oidc/callback." placeholder:"URL"`
	OIDCClientID     string      `name:"oidc-client-id" help:"Client ID of the gateway at the provider." placeholder:"ID"`
	OIDCClientSecret string      `name:"oidc-client-secret" help:"Client secret; prefer the variable (default: none, a public client)." placeholder:"SECRET"`
	OIDCName         string      `name:"oidc-name" help:"Provider name on the sign-in button (default: the issuer's host)." placeholder:"TEXT"`
	OIDCScopes       []string    `name:"oidc-scopes" help:"Scopes to request besides openid (default: profile,email)." placeholder:"SCOPE,…"`
	OIDCRoleClaim    string      `name:"oidc-role-claim" help:"Claim of the ID token with the role, a string or list; dots separate the names of a path." placeholder:"CLAIM"`
	OIDCRoleMap      roleMap     `name:"oidc-role-map" help:"Roles by claim value; the highest role wins." placeholder:"VALUE=ROLE,…"`
	OIDCDefaultRole  action.Role `name:"oidc-default-role" help:"Role without a matching claim value: admin or member (default: none, sign-in refused)." placeholder:"ROLE"`
	OIDCNameClaim    string      `name:"oidc-name-claim" help:"Claim with the person's name (default: name, preferred_username or email)." placeholder:"CLAIM"`
	OIDCOrganization string      `name:"oidc-organization" help:"Organization of people who sign in this way (default: the first one)." default:"default" placeholder:"ID"`

	UserJWTIssuer    string `name:"user-jwt-issuer" help:"Issuer (iss) of tokens from a host application." placeholder:"TEXT"`
	UserJWTAudience  string `name:"user-jwt-audience" help:"Audience (aud) of these tokens (default: the public URL)." placeholder:"TEXT"`
	UserJWTJWKSURL   string `name:"user-jwt-jwks-url" help:"URL of their public keys." placeholder:"URL"`
	UserJWTPublicKey string `name:"user-jwt-public-key" help:"File with their public key: RSA (RS256), P-256 (ES256) or Ed25519 (EdDSA)." placeholder:"FILE" type:"path"`
}

// roleMap maps values of the provider's role claim to roles.
type roleMap struct{ of map[string]action.Role }

// UnmarshalText parses a flag such as platform=owner,approvers=admin. A claim value
// may contain =.
func (m *roleMap) UnmarshalText(text []byte) error {
	m.of = map[string]action.Role{}
	for one := range strings.SplitSeq(string(text), ",") {
		at := strings.LastIndexByte(one, '=')
		if at < 1 || !action.Role(strings.TrimSpace(one[at+1:])).Valid() {
			return fmt.Errorf("%q does not map to a role; write VALUE=ROLE, such as approvers=admin, where the role is owner, admin or member", one)
		}
		m.of[strings.TrimSpace(one[:at])] = action.Role(strings.TrimSpace(one[at+1:]))
	}
	return nil
}

// check rejects combinations that could admit unintended people.
func (f *signInFlags) check() error {
	switch {
	case f.LoginIdle < 0 || f.LoginLife < 0, f.LoginIdle > 0 && f.LoginIdle < time.Minute, f.LoginLife > 0 && f.LoginLife < time.Minute:
		return fmt.Errorf("--login-idle (%s) and --login-life (%s) must be 1m or more", f.LoginIdle, f.LoginLife)
	case f.LoginLife > 0 && f.LoginIdle > f.LoginLife:
		return fmt.Errorf("--login-idle (%s) must not be longer than --login-life (%s), which ends a sign-in earlier", f.LoginIdle, f.LoginLife)
	case f.OIDCIssuer == "" && (f.OIDCClientID != "" || f.OIDCClientSecret != "" || f.OIDCRoleClaim != "" || len(f.OIDCRoleMap.of) > 0 || f.OIDCDefaultRole != ""):
		return errors.New("the --oidc flags need --oidc-issuer, the provider's issuer URL")
	case f.OIDCIssuer != "" && f.OIDCClientID == "":
		return errors.New("--oidc-issuer needs --oidc-client-id, the client ID of this gateway at the provider")
	case f.OIDCIssuer != "" && len(f.OIDCRoleMap.of) == 0 && f.OIDCDefaultRole == "":
		return errors.New("--oidc-issuer needs roles: set --oidc-role-claim and --oidc-role-map, or --oidc-default-role")
	case len(f.OIDCRoleMap.of) > 0 && f.OIDCRoleClaim == "":
		return errors.New("--oidc-role-map needs --oidc-role-claim, the claim whose values it maps")
	case f.OIDCDefaultRole == action.RoleOwner:
		return errors.New("--oidc-default-role cannot be owner: map a value of the role claim to owner with --oidc-role-map")
	case f.OIDCDefaultRole != "" && !f.OIDCDefaultRole.Valid():
		return fmt.Errorf("--oidc-default-role must be admin or member, not %q", f.OIDCDefaultRole)
	case f.UserJWTIssuer == "" && (f.UserJWTAudience != "" || f.UserJWTJWKSURL != "" || f.UserJWTPublicKey != ""):
		return errors.New("the --user-jwt flags need --user-jwt-issuer, the iss claim of the host application's tokens")
	case f.UserJWTIssuer != "" && (f.UserJWTJWKSURL == "") == (f.UserJWTPublicKey == ""):
		return errors.New("--user-jwt-issuer needs either --user-jwt-jwks-url or --user-jwt-public-key")
	}
	return nil
}

// oidc returns the configured OpenID provider, or nil.
func (f *signInFlags) oidc(g guard.Config) *dashboard.OIDC {
	if f.OIDCIssuer == "" {
		return nil
	}
	return &dashboard.OIDC{
		Issuer: f.OIDCIssuer, ClientID: f.OIDCClientID, ClientSecret: f.OIDCClientSecret, Name: f.OIDCName, Scopes: f.OIDCScopes,
		Organization: f.OIDCOrganization, RoleClaim: f.OIDCRoleClaim, RoleMap: f.OIDCRoleMap.of, DefaultRole: f.OIDCDefaultRole, NameClaim: f.OIDCNameClaim,
		Guard: g,
	}
}

// userJWT returns the configured host application, or nil.
func (f *signInFlags) userJWT(g guard.Config, public string) (*dashboard.UserJWT, error) {
	if f.UserJWTIssuer == "" {
		return nil, nil
	}
	u := &dashboard.UserJWT{Issuer: f.UserJWTIssuer, Audience: f.UserJWTAudience, JWKSURL: f.UserJWTJWKSURL, Guard: g}
	if u.Audience == "" {
		u.Audience = public
	}
	if f.UserJWTPublicKey == "" {
		return u, nil
	}
	key, err := os.ReadFile(f.UserJWTPublicKey)
	if err != nil {
		return nil, fmt.Errorf("reading --user-jwt-public-key: %w", err)
	}
	u.PublicKey = key
	return u, nil
}

// webhookSecrets are the signing secrets of provider-wide webhook URLs.
type webhookSecrets struct{ of map[string][]string }

// minSecretLength is the minimum length of a secret in characters, as for triggers.
const minSecretLength = 16

// UnmarshalText parses a flag such as github=first,github=second,linear=third.
func (s *webhookSecrets) UnmarshalText(text []byte) error {
	s.of = map[string][]string{}
	for one := range strings.SplitSeq(string(text), ",") {
		provider, secret, ok := strings.Cut(strings.TrimSpace(one), "=")
		if !ok || provider == "" || secret == "" {
			return errors.New("write each secret as PROVIDER=SECRET, such as github=…, and separate them with commas")
		}
		if len(secret) < minSecretLength {
			return fmt.Errorf("the secret of %s has fewer than %d characters and could be guessed; set a longer one here and at the service", provider, minSecretLength)
		}
		s.of[provider] = append(s.of[provider], secret)
	}
	return nil
}

// webhookTolerances are the maximum ages of signed timestamps by provider.
type webhookTolerances struct{ of map[string]time.Duration }

// UnmarshalText parses a flag such as slack=10m,linear=2m.
func (t *webhookTolerances) UnmarshalText(text []byte) error {
	t.of = map[string]time.Duration{}
	known := timestampProviders()
	for one := range strings.SplitSeq(string(text), ",") {
		provider, value, _ := strings.Cut(strings.TrimSpace(one), "=")
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 || !slices.Contains(known, provider) {
			return fmt.Errorf("%q is not a tolerance; write PROVIDER=DURATION, such as %s=10m. These providers sign a timestamp: %s", one, known[0], strings.Join(known, ", "))
		}
		t.of[provider] = d
	}
	return nil
}

// timestampProviders returns the providers that sign the time of a delivery.
func timestampProviders() (ids []string) {
	for _, p := range ingestProviders() {
		if p.Webhook != nil && p.Webhook.Tolerance > 0 {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// runLife is the maximum duration of a run; zero if no flag was parsed.
type runLife struct{ time.Duration }

// UnmarshalText parses a flag.
func (l *runLife) UnmarshalText(text []byte) (err error) {
	if l.Duration, err = time.ParseDuration(string(text)); err != nil || l.Duration < time.Minute {
		return fmt.Errorf("%q is not a run duration; write a duration of 1m or more, such as 48h", text)
	}
	return nil
}

// checkInbound rejects options that would lose events or runs.
func (o *Options) checkInbound() error {
	switch {
	case o.WebhookRate < 0:
		return errors.New("--webhook-rate must be 0 (no limit) or more")
	case o.PayloadRetention != 0 && o.PayloadRetention < 48*time.Hour:
		return fmt.Errorf("--payload-retention (%s) must be 48h or more, so that payloads are kept until they are processed; set 0 to keep all payloads", o.PayloadRetention)
	}
	return nil
}
