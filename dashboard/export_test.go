package dashboard

import (
	"maps"
	"slices"
)

// OpenAPI returns the description of the API, as it is served.
func (s *Server) OpenAPI() ([]byte, error) { return s.describe() }

// Patterns returns every route that is served, but for the two that say that
// there is none.
func (s *Server) Patterns() []string { return slices.Sorted(maps.Keys(s.mounted)) }

// CheckOIDC tells what is wrong with a configuration.
func CheckOIDC(o *OIDC) error { return o.check() }

// CheckUserJWT does likewise.
func CheckUserJWT(u *UserJWT) error { return u.check() }
