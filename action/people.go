package action

import (
	"errors"
	"time"
)

// Role is what a person, or an API key, may do in an organization.
type Role string

// The roles, highest first. A member reads and creates plain sessions, and
// cannot approve or change anything.
const (
	RoleOwner  Role = "owner"
	RoleAdmin  Role = "admin"
	RoleMember Role = "member"
)

// Valid reports whether r is one of the three roles.
func (r Role) Valid() bool { return r == RoleOwner || r == RoleAdmin || r == RoleMember }

// Check validates the role.
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
	Issuer       string     `json:"issuer,omitempty"` // of the identity provider that determines the person and the role; empty: a local user
	Subject      string     `json:"-"`                // the person's ID at the issuer
	CreatedAt    time.Time  `json:"created_at"`
	SeenAt       *time.Time `json:"seen_at,omitempty"` // in a browser; nil: never
}

// Check validates the user.
func (u *User) Check() error {
	switch {
	case u.ID == "":
		return errors.New("a user needs an id")
	case u.Name == "":
		return invalid("/name", "A user needs a name.")
	}
	return u.Role.Check()
}

// Identity is a person at an identity provider. The issuer and subject
// identify the person; names are not unique.
type Identity struct {
	Organization string
	Issuer       string
	Subject      string
	Name         string
	Role         Role
	AssertedAt   time.Time // when the identity provider asserted it; zero: unknown
}

// RemovedUser is a person of an identity provider who was removed, and cannot
// sign in until readmitted.
type RemovedUser struct {
	ID        string    `json:"id" doc:"Of a deleted user."`
	Name      string    `json:"name"`
	Role      Role      `json:"role" doc:"When removed. Only an owner lets an owner in again."`
	Issuer    string    `json:"issuer"`
	RemovedBy string    `json:"removed_by"`
	RemovedAt time.Time `json:"removed_at"`
}

// APIKey is a credential for programs, which act as its creator. Only a hash
// of the key is stored.
type APIKey struct {
	ID           string     `json:"id"`
	Organization string     `json:"organization_id"`
	Name         string     `json:"name"`
	User         string     `json:"user_id"`
	Role         Role       `json:"role"`
	Scope        KeyScope   `json:"scope,omitempty"` // empty: everything its role may do
	CreatedAt    time.Time  `json:"created_at"`
	ExpiresAt    *time.Time `json:"expires_at,omitempty"` // nil: never
	RevokedAt    *time.Time `json:"revoked_at,omitempty"`
	UsedAt       *time.Time `json:"used_at,omitempty"` // to a minute; nil: never
}

// KeyScope limits a key.
type KeyScope string

// ScopeRuns is for workers: the key claims, renews and finishes runs, and
// nothing else.
const ScopeRuns KeyScope = "runs"

// Login is a browser sign-in. Only hashes of its cookie and page key are
// stored.
type Login struct {
	ID           string
	Organization string
	User         string
	CreatedAt    time.Time
	Via          Via
	SeenAt       time.Time
	ExpiresAt    time.Time
}

// LoginLink is a one-time sign-in link. Only hashes are stored: of its code
// and of the page key that the login inherits.
type LoginLink struct {
	Organization string
	User         string
	CodeHash     string
	KeyHash      string
	Via          Via       // empty: link
	ExpiresAt    time.Time // at most ten minutes from now
}

// Via is the sign-in method.
type Via string

// The sign-in methods.
const (
	ViaLink Via = "link" // a one-time link from a person or the server
	ViaOIDC Via = "oidc" // an OpenID provider
	ViaHost Via = "host" // a one-time link for the bearer of a host application's token
)

// LoginEnd is why a login ended.
type LoginEnd string

// The ends of logins.
const (
	EndExpired    LoginEnd = "expired"
	EndIdle       LoginEnd = "idle"
	EndEverywhere LoginEnd = "everywhere" // the person signed out everywhere
	EndAdmin      LoginEnd = "admin"      // an owner or admin ended it
	EndRole       LoginEnd = "role"       // the identity provider no longer gives a role
	EndRemoved    LoginEnd = "removed"    // the person was removed
)
