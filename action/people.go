package action

import (
	"errors"
	"time"
)

// Role is what a person, or an API key, may do in an organization.
type Role string

// The roles, mightiest first. A member reads and mints plain sessions; he
// decides nothing.
const (
	RoleOwner  Role = "owner"
	RoleAdmin  Role = "admin"
	RoleMember Role = "member"
)

// Valid reports whether r is one of the three roles.
func (r Role) Valid() bool { return r == RoleOwner || r == RoleAdmin || r == RoleMember }

// Check refuses what is none of the roles.
func (r Role) Check() error {
	if !r.Valid() {
		return invalid("/role", "A role is owner, admin or member.")
	}
	return nil
}

// Decides reports whether the role may approve, deny and change policy.
func (r Role) Decides() bool { return r == RoleOwner || r == RoleAdmin }

// User is a person of an organization.
type User struct {
	ID           string     `json:"id"`
	Organization string     `json:"organization_id"`
	Name         string     `json:"name"`
	Role         Role       `json:"role"`
	Issuer       string     `json:"issuer,omitempty"` // of another house, which says who this is and the role; empty: this gateway alone does
	Subject      string     `json:"-"`                // who it is there
	CreatedAt    time.Time  `json:"created_at"`
	SeenAt       *time.Time `json:"seen_at,omitempty"` // in a browser; nil: never
}

// Check refuses a user without id, name or role.
func (u *User) Check() error {
	switch {
	case u.ID == "":
		return errors.New("a user needs an id")
	case u.Name == "":
		return invalid("/name", "A user needs a name.")
	}
	return u.Role.Check()
}

// Identity is a person as another house knows him: somebody else than whoever
// has the same name, or the same subject at another issuer.
type Identity struct {
	Organization string
	Issuer       string
	Subject      string
	Name         string
	Role         Role
	AssertedAt   time.Time // when the other house said so; zero: not known
}

// RemovedUser is somebody of another house who was removed, and stays away
// until he is let in again.
type RemovedUser struct {
	ID        string    `json:"id" doc:"Of a deleted user."`
	Name      string    `json:"name"`
	Role      Role      `json:"role" doc:"When removed. Only an owner lets an owner in again."`
	Issuer    string    `json:"issuer"`
	RemovedBy string    `json:"removed_by"`
	RemovedAt time.Time `json:"removed_at"`
}

// APIKey is a credential of a program, which acts as the user that made it.
// Only a hash of the key itself is stored.
type APIKey struct {
	ID           string     `json:"id"`
	Organization string     `json:"organization_id"`
	Name         string     `json:"name"`
	User         string     `json:"user_id"`
	Role         Role       `json:"role"`
	Scope        KeyScope   `json:"scope,omitempty"` // empty: all that its role may
	CreatedAt    time.Time  `json:"created_at"`
	ExpiresAt    *time.Time `json:"expires_at,omitempty"` // nil: never
	RevokedAt    *time.Time `json:"revoked_at,omitempty"`
	UsedAt       *time.Time `json:"used_at,omitempty"` // to a minute; nil: never
}

// KeyScope narrows what a key may do.
type KeyScope string

// ScopeRuns is of keys for workers: they claim and work on runs, and do nothing
// else.
const ScopeRuns KeyScope = "runs"

// Login is a person signed in with a browser. Only hashes of its cookie and of
// the page's key are stored.
type Login struct {
	ID           string
	Organization string
	User         string
	CreatedAt    time.Time
	Via          Via
	SeenAt       time.Time
	ExpiresAt    time.Time
}

// LoginLink is a one-time sign-in link. Only hashes are stored: of its code,
// which is redeemed, and of the page's key, which the login inherits.
type LoginLink struct {
	Organization string
	User         string
	CodeHash     string
	KeyHash      string
	Via          Via       // empty: link
	ExpiresAt    time.Time // at most ten minutes from now
}

// Via is how somebody signed in.
type Via string

// The ways to sign in.
const (
	ViaLink Via = "link" // a one-time link that a person or the server made
	ViaOIDC Via = "oidc" // an OpenID provider
	ViaHost Via = "host" // a one-time link for the bearer of a host application's token
)

// LoginEnd is why a login is good no more.
type LoginEnd string

// The ends of logins.
const (
	EndExpired    LoginEnd = "expired"
	EndIdle       LoginEnd = "idle"
	EndEverywhere LoginEnd = "everywhere" // the person ended it elsewhere
	EndAdmin      LoginEnd = "admin"      // somebody who may ended the person's
	EndRole       LoginEnd = "role"       // the other house gives no role any more
	EndRemoved    LoginEnd = "removed"    // the person was
)
