package dashboard

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"sallyport/action"
	"sallyport/api"
	"sallyport/internal/guard"
)

// UserJWT configures the tokens with which a host application asserts its
// users: sub, org and role, valid for at most an hour.
type UserJWT struct {
	Issuer    string // iss of every token
	Audience  string // aud of every token
	JWKSURL   string // URL of its keys, or
	PublicKey []byte // its key in PEM; exactly one of the two is required
	Guard     guard.Config
}

// tokenLife is how far in the future a host application's token may expire.
const tokenLife = time.Hour

// check refuses a configuration that would accept tokens of others.
func (u *UserJWT) check() error {
	switch {
	case u == nil:
		return nil
	case u.Issuer == "" || u.Audience == "":
		return errors.New("tokens of a host application need an issuer and an audience")
	case (u.JWKSURL == "") == (len(u.PublicKey) == 0):
		return errors.New("tokens of a host application need either the URL of its keys or a public key")
	case u.JWKSURL != "":
		_, err := checkIssuer("the URL of a host application's keys", u.JWKSURL)
		return err
	}
	_, _, err := publicKey(u.PublicKey)
	return err
}

// publicKey parses a key and returns its signature algorithm.
func publicKey(text []byte) (key crypto.PublicKey, alg string, err error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, "", errors.New("the public key of a host application is not a PEM block PUBLIC KEY; openssl pkey -pubout writes one")
	}
	if key, err = x509.ParsePKIXPublicKey(block.Bytes); err != nil {
		return nil, "", fmt.Errorf("reading the public key of a host application: %w", err)
	}
	switch k := key.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() >= 2048 {
			return key, oidc.RS256, nil
		}
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() {
			return key, oidc.ES256, nil
		}
	case ed25519.PublicKey:
		return key, oidc.EdDSA, nil
	}
	return nil, "", errors.New("the public key of a host application must be RSA of 2048 bits or more (RS256), of the curve P-256 (ES256) or Ed25519 (EdDSA)")
}

// hostVerifier verifies the tokens of a host application.
type hostVerifier struct {
	issuer   string
	verifier *oidc.IDTokenVerifier
	now      func() time.Time
}

func newHostVerifier(u *UserJWT, now func() time.Time) (*hostVerifier, error) {
	if u == nil {
		return nil, nil
	}
	algs, keys := []string{oidc.RS256, oidc.ES256, oidc.EdDSA}, oidc.KeySet(nil)
	if u.JWKSURL != "" {
		at, err := checkIssuer("the URL of a host application's keys", u.JWKSURL)
		if err != nil {
			return nil, err
		}
		client := newRestrictedClient(u.Guard, at)
		client.Transport = &cachingTransport{next: client.Transport, now: now}
		keys = oidc.NewRemoteKeySet(oidc.ClientContext(context.Background(), client), u.JWKSURL)
	} else {
		key, alg, err := publicKey(u.PublicKey)
		if err != nil {
			return nil, err
		}
		algs, keys = []string{alg}, &oidc.StaticKeySet{PublicKeys: []crypto.PublicKey{key}}
	}
	return &hostVerifier{issuer: u.Issuer, now: now, verifier: oidc.NewVerifier(u.Issuer, keys, &oidc.Config{
		ClientID: u.Audience, SupportedSigningAlgs: algs, Now: func() time.Time { return now().Add(-clockSkew) },
	})}, nil
}

// verify returns the identity in a token.
func (h *hostVerifier) verify(ctx context.Context, text string) (action.Identity, error) {
	token, err := h.verifier.Verify(ctx, text)
	if err != nil {
		e := errBadToken("its signature, expiry or audience is not valid")
		e.Err = err
		return action.Identity{}, e
	}
	var c claims
	if err := token.Claims(&c); err != nil {
		return action.Identity{}, errBadToken("its claims are not a JSON object")
	}
	who := action.Identity{
		Organization: c.text("org"), Issuer: h.issuer, Subject: token.Subject, Role: action.Role(c.text("role")), Name: c.name("", token.Subject),
		AssertedAt: token.IssuedAt,
	}
	switch {
	case token.Expiry.After(h.now().Add(tokenLife + clockSkew)):
		return who, errBadToken("its exp is more than an hour ahead")
	case !token.IssuedAt.IsZero() && token.IssuedAt.After(h.now().Add(clockSkew)):
		return who, errBadToken("its iat is in the future")
	case who.Organization == "":
		return who, errBadToken("it lacks the claim org")
	case !who.Role.Valid():
		return who, errBadToken("its claim role must be owner, admin or member")
	}
	return who, checkSubject(token.Subject)
}

func errBadToken(why string) *action.Error {
	return action.NewError("bad_user_token", why)
}

// identifyHost authenticates a token of the host application.
func (s *Server) identifyHost(ctx context.Context, text string) (*Principal, error) {
	who, err := s.hostTokens.verify(ctx, text)
	if err != nil {
		var e *action.Error
		if errors.As(err, &e) && e.Err != nil {
			s.Log.WarnContext(ctx, "a token of the host application was refused", "error", e.Err)
		}
		return nil, err
	}
	u, err := s.admitUser(ctx, who)
	if errors.Is(err, action.ErrNotFound) {
		return nil, errBadToken("its claim org is not an existing organization")
	}
	if err != nil {
		return nil, err
	}
	// A token older than the last one may assert an outdated role. It grants the
	// lower of that role and the stored one.
	role := lowerRole(who.Role, u.Role)
	return &Principal{Organization: u.Organization, User: u.ID, Name: u.Name, Role: role, LimitedRole: role != u.Role, hostToken: true}, nil
}

// admitUser creates or updates an external user. If the last owner would lose
// that role, it ends the user's access and notifies open pages.
func (s *Server) admitUser(ctx context.Context, who action.Identity) (action.User, error) {
	u, err := s.People.AdmitUser(ctx, who)
	if !errors.Is(err, action.ErrConflict) {
		return u, err
	}
	s.Log.WarnContext(ctx, "could not admit a user", "issuer", who.Issuer, "role", who.Role, "error", err)
	s.Hint(action.HintLogin, who.Organization, "")
	if action.Public(err).Code == "last_owner" {
		err = action.Errorf(action.ErrForbidden, "last_owner",
			"This sign-in would remove the owner role from you, the last owner, so it was refused. Make someone else an owner first. The operator gets a sign-in link by restarting the gateway.")
	}
	return u, err
}

// HostLink creates a sign-in link for the bearer of a host application's token.
// The application sends the browser there.
func (s *Server) HostLink(ctx context.Context, p *Principal) (api.Link, error) {
	if p.LimitedRole { // the link would grant the stored role
		return api.Link{}, errBadToken("it is older than the current role of its user, or has no iat")
	}
	s.Log.InfoContext(ctx, "sign-in link created for a user of the host application", "user", p.User)
	return s.createLink(ctx, p.Organization, p.User, action.ViaHost)
}
