package dashboard

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/api"
	"sallyport/internal/token"
)

// A browser signs in with a link, PUBLIC_URL/login#CODE.KEY. The fragment stays
// in the browser: the page exchanges the code for a cookie once and keeps the
// key in its own storage. The cookie alone only reads, since browsers also send
// it to other ports of the same host. A change needs the key as well, which only
// pages of the exact origin can read.

// keyHeader carries the page's key.
const keyHeader = "X-Sallyport-Key"

// CreateLoginLink returns a link that signs the user in once.
func (s *Server) CreateLoginLink(ctx context.Context, organization, user string) (api.Link, error) {
	if _, err := s.People.User(ctx, organization, user); err != nil {
		return api.Link{}, err
	}
	return s.createLink(ctx, organization, user, action.ViaLink)
}

func (s *Server) createLink(ctx context.Context, organization, user string, via action.Via) (api.Link, error) {
	if !s.linkLimiter.allow(organization+"/"+user, s.Now()) {
		return api.Link{}, errTooOften(linkEvery, "Too many sign-in links were created for this person within minutes. Use one of them, or try again later.")
	}
	code, key := secret(), secret()
	link := action.LoginLink{
		Organization: organization, User: user, Via: via,
		CodeHash: hashSecret(code), KeyHash: hashSecret(key), ExpiresAt: s.Now().Add(linkLife),
	}
	if err := s.People.CreateLoginLink(ctx, link); err != nil {
		return api.Link{}, err
	}
	return api.Link{URL: s.PublicURL + "/login#" + code + "." + key, ExpiresAt: link.ExpiresAt}, nil
}

// redeem exchanges the code of a link for a cookie.
func (s *Server) redeem(w http.ResponseWriter, r *http.Request) {
	if !s.fromPage(r) {
		s.Fail(w, r, errForeignOrigin())
		return
	}
	var body struct {
		Code string `json:"code"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, 4096)).Decode(&body); err != nil || body.Code == "" {
		s.Fail(w, r, action.NewError("malformed_json"))
		return
	}
	now, cookie := s.Now(), secret()
	was, _ := s.IdentifyLogin(r) // the current login of this browser
	login, err := s.People.RedeemLoginLink(r.Context(), hashSecret(body.Code), hashSecret(cookie), action.Login{
		ID: NewID(), CreatedAt: now, SeenAt: now, ExpiresAt: now.Add(s.LoginLife),
	}, now)
	if errors.Is(err, action.ErrUnauthenticated) {
		// Only invalid codes count: a valid one works for any client that shares
		// the address.
		client := r.RemoteAddr // for IPv6 the network, which belongs to one client
		if at, err := netip.ParseAddrPort(client); err == nil {
			addr := at.Addr().Unmap().WithZone("")
			client = addr.String()
			if net, err := addr.Prefix(64); err == nil && addr.Is6() {
				client = net.String()
			}
		}
		err = action.Errorf(action.ErrUnauthenticated, action.Public(err).Code, "This sign-in link was already used or is older than ten minutes. "+
			"Ask a person who is signed in for another one (People → Sign-in link), or restart the server, which prints a new one.")
		if !s.attemptLimiter.allow(client, now) {
			err = errTooOften(tryEvery, "Too many invalid sign-in links from this address. Wait a few seconds, then open a new link.")
		}
	}
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	if was != nil { // its cookie is replaced, so nothing else can end it
		if err := s.People.DeleteLogin(r.Context(), was.Login.ID); err != nil { // the link is used up: retrying is not possible
			s.Log.ErrorContext(r.Context(), "could not delete the previous login of a browser", "login", was.Login.ID, "user", was.User, "error", err)
		}
	}
	s.Log.InfoContext(r.Context(), "signed in", "user", login.User, "via", login.Via)
	s.setCookie(w, cookie, int(s.LoginLife/time.Second))
	w.WriteHeader(http.StatusNoContent)
}

// signOut deletes the login. The exact Origin suffices, so that a page that lost
// its key can still sign out.
func (s *Server) signOut(w http.ResponseWriter, r *http.Request) {
	if !s.fromPage(r) {
		s.Fail(w, r, errForeignOrigin())
		return
	}
	if p, err := s.IdentifyLogin(r); err == nil {
		if err := s.People.DeleteLogin(r.Context(), p.Login.ID); err != nil {
			s.Fail(w, r, err)
			return
		}
	}
	s.setCookie(w, "", -1)
	w.WriteHeader(http.StatusNoContent)
}

func errForeignOrigin() error {
	return action.Errorf(action.ErrForbidden, "foreign_origin", "A change in a browser must come from the page itself; open it and try again.")
}

// IdentifyLogin returns the person of a browser's cookie. A request with a
// mutating method must come from the page and carry its key.
func (s *Server) IdentifyLogin(r *http.Request) (*Principal, error) {
	c, err := r.Cookie(s.cookieName())
	if err != nil {
		return nil, errBadCredential()
	}
	hash := hashSecret(c.Value)
	login, keyHash, err := s.People.Login(r.Context(), hash)
	if errors.Is(err, action.ErrNotFound) {
		why, err := s.People.LoginEnd(r.Context(), hash)
		switch {
		case err != nil:
			return nil, err
		case why == action.EndExpired, why == action.EndIdle:
			return nil, action.NewError("login_expired")
		}
		return nil, errBadCredential()
	}
	if err != nil {
		return nil, hideNotFound(err)
	}
	now := s.Now()
	u, err := s.People.User(r.Context(), login.Organization, login.User)
	if err != nil {
		return nil, hideNotFound(err)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.URL.Path != "/logout" && r.URL.Path != "/login" {
		if !s.fromPage(r) {
			return nil, errForeignOrigin()
		}
		if subtle.ConstantTimeCompare([]byte(hashSecret(r.Header.Get(keyHeader))), []byte(keyHash)) != 1 {
			return nil, action.NewError("page_key")
		}
	}
	if now.Sub(login.SeenAt) > touchEvery {
		if err := s.People.TouchLogin(r.Context(), login.ID, now); err != nil {
			return nil, err
		}
	}
	return &Principal{Organization: u.Organization, User: u.ID, Name: u.Name, Role: u.Role, Login: &login, CredentialID: login.ID}, nil
}

// LoginEnd returns why the login of the browser's cookie ended; false when there
// is no cookie, or its login is valid.
func (s *Server) LoginEnd(r *http.Request) (why action.LoginEnd, ended bool) {
	c, err := r.Cookie(s.cookieName())
	if err != nil || c.Value == "" {
		return "", false
	}
	if _, err := s.IdentifyLogin(r); err == nil {
		return "", false
	}
	if why, err = s.People.LoginEnd(r.Context(), hashSecret(c.Value)); err != nil {
		s.Log.WarnContext(r.Context(), "could not look up why a login ended", "error", err)
	}
	return why, true
}

func (s *Server) cookieName() string {
	if s.public.Scheme == "https" {
		return "__Host-sallyport"
	}
	return "sallyport"
}

func (s *Server) setCookie(w http.ResponseWriter, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: s.cookieName(), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.public.Scheme == "https",
	})
}

// secret returns 256 random bits in a form that fits a fragment and a cookie.
func secret() string { return token.NewSecret("", 32) }

// hashSecret returns the hash that is stored instead of a secret.
func hashSecret(v string) string { return hex.EncodeToString(token.HashSecret(v)) }

// NewID returns a UUIDv7, which sorts by time.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }
