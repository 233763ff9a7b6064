package dashboard

import (
	"context"
	"encoding/hex"
	"net/http"

	"sallyport/action"
	"sallyport/internal/token"
)

// NewKey is an API key as it is wished for.
type NewKey struct {
	Name  string          `json:"name" minLength:"1" maxLength:"120" example:"deploy script"`
	Role  action.Role     `json:"role,omitempty" enum:"owner,admin,member" doc:"Default member; at most the maker's own."`
	Scope action.KeyScope `json:"scope,omitempty" enum:"runs" doc:"A key for workers alone: it claims runs, works on them as long as its maker is an owner or admin, and does nothing else. It has no other role than member."`
	Lifetime
}

// MintedKey is a new API key, shown once.
type MintedKey struct {
	action.APIKey
	Key string `json:"key" doc:"Shown once; only a hash is stored." example:"spk_…"`
}

func (s *Server) keyRoutes() {
	register(s, route{
		method: "GET", path: "/api/v1/api-keys", tag: "api keys", summary: "List API keys",
	}, func(ctx context.Context, p *Principal, _ *none) (*body[List[action.APIKey]], error) {
		list, err := s.APIKeys.ListAPIKeys(ctx, p.Organization)
		return listOf(list), err
	})
	register(s, route{
		method: "POST", path: "/api/v1/api-keys", tag: "api keys", summary: "Make an API key", status: http.StatusCreated,
		doc: "It acts as the person who makes it, with at most the role given, and never more than that person's own.",
	}, func(ctx context.Context, p *Principal, in *struct{ Body NewKey }) (*body[MintedKey], error) {
		k, err := s.mintKey(ctx, p, in.Body)
		return bodyOf(k), err
	})
	register(s, route{
		method: "DELETE", path: "/api/v1/api-keys/{id}", tag: "api keys", summary: "Revoke an API key",
	}, func(ctx context.Context, p *Principal, in *ByID) (*empty, error) {
		if err := s.APIKeys.RevokeAPIKey(ctx, p.Organization, in.ID, s.now()); err != nil {
			return nil, err
		}
		s.log.InfoContext(ctx, "API key revoked", "key", in.ID, "by", p.By())
		return nil, nil
	})
}

func (s *Server) mintKey(ctx context.Context, p *Principal, n NewKey) (MintedKey, error) {
	role := or(n.Role, action.RoleMember)
	if err := p.outranks(role); err != nil {
		return MintedKey{}, err
	}
	id, key, hash := token.NewAPIKey()
	until, err := n.until(s.now())
	if err != nil {
		return MintedKey{}, err
	}
	if n.Scope != "" && role != action.RoleMember {
		return MintedKey{}, invalid("/role", "A key for workers has no role beside its scope; leave out role or scope.")
	}
	row := action.APIKey{ID: id, Organization: p.Organization, Name: n.Name, User: p.User, Role: role, Scope: n.Scope, CreatedAt: s.now(), ExpiresAt: until}
	if err := s.APIKeys.CreateAPIKey(ctx, row, hex.EncodeToString(hash)); err != nil {
		return MintedKey{}, err
	}
	s.log.InfoContext(ctx, "API key made", "key", id, "role", role, "scope", n.Scope, "by", p.By())
	return MintedKey{APIKey: row, Key: key}, nil
}
