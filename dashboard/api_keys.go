package dashboard

import (
	"cmp"
	"context"
	"encoding/hex"

	"sallyport/action"
	"sallyport/api"
	"sallyport/internal/token"
)

func (s *Server) keyRoutes() {
	handle(s, api.ListKeys, func(ctx context.Context, p *Principal, _ *api.None) (api.List[action.APIKey], error) {
		list, err := s.People.ListAPIKeys(ctx, p.Organization)
		return listOf(list), err
	})
	handle(s, api.CreateKey, func(ctx context.Context, p *Principal, in *api.Body[api.NewKey]) (api.MintedKey, error) {
		return s.mintKey(ctx, p, in.Body)
	})
	handleNone(s, api.RevokeKey, func(ctx context.Context, p *Principal, in *api.ByID) error {
		if err := s.People.RevokeAPIKey(ctx, p.Organization, in.ID, s.now()); err != nil {
			return err
		}
		s.Log.InfoContext(ctx, "API key revoked", "key", in.ID, "by", p.By())
		return nil
	})
}

func (s *Server) mintKey(ctx context.Context, p *Principal, n api.NewKey) (api.MintedKey, error) {
	role := cmp.Or(n.Role, action.RoleMember)
	if err := p.outranks(role); err != nil {
		return api.MintedKey{}, err
	}
	id, key, hash := token.NewAPIKey()
	until, err := lifetimeUntil(n.Lifetime, s.now())
	if err != nil {
		return api.MintedKey{}, err
	}
	if n.Scope != "" && role != action.RoleMember {
		return api.MintedKey{}, invalid("/role", "A key for workers has no role beside its scope; leave out role or scope.")
	}
	row := action.APIKey{ID: id, Organization: p.Organization, Name: n.Name, User: p.User, Role: role, Scope: n.Scope, CreatedAt: s.now(), ExpiresAt: until}
	if err := s.People.CreateAPIKey(ctx, row, hex.EncodeToString(hash)); err != nil {
		return api.MintedKey{}, err
	}
	s.Log.InfoContext(ctx, "API key made", "key", id, "role", role, "scope", n.Scope, "by", p.By())
	return api.MintedKey{APIKey: row, Key: key}, nil
}
