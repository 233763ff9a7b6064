package action

import "time"

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

// Decides reports whether the role may approve, deny and change policy.
func (r Role) Decides() bool { return r == RoleOwner || r == RoleAdmin }

// User is a person of an organization.
type User struct {
	ID           string    `json:"id"`
	Organization string    `json:"organization_id"`
	Name         string    `json:"name"`
	Role         Role      `json:"role"`
	CreatedAt    time.Time `json:"created_at"`
}

// APIKey is a credential of a program, which acts as the user that made it.
// Only a hash of the key itself is stored.
type APIKey struct {
	ID           string     `json:"id"`
	Organization string     `json:"organization_id"`
	Name         string     `json:"name"`
	User         string     `json:"user_id"`
	Role         Role       `json:"role"`
	CreatedAt    time.Time  `json:"created_at"`
	ExpiresAt    *time.Time `json:"expires_at,omitempty"` // nil: never
	RevokedAt    *time.Time `json:"revoked_at,omitempty"`
}

// Login is a person signed in with a browser. Only hashes of its cookie and of
// the page's key are stored.
type Login struct {
	ID           string
	Organization string
	User         string
	CreatedAt    time.Time
	SeenAt       time.Time
	ExpiresAt    time.Time
}
