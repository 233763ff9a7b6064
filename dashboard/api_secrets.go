package dashboard

import (
	"context"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

func (s *Server) secretRoutes() {
	handle(s, api.PutSecret, func(ctx context.Context, p *Principal, in *api.ByKeyWith[api.NewSecret]) (action.Secret, error) {
		return s.putSecret(ctx, p, in.Key, in.Body)
	})
	handle(s, api.ListSecrets, func(ctx context.Context, p *Principal, _ *api.None) (api.List[action.Secret], error) {
		list, err := s.Sources.ListSecrets(ctx, p.Organization)
		return listOf(list), err
	})
	handleNone(s, api.DeleteSecret, func(ctx context.Context, p *Principal, in *api.ByKey) error {
		if err := s.Sources.DeleteSecret(ctx, p.Organization, in.Key); err != nil {
			return err
		}
		s.Log.InfoContext(ctx, "secret deleted", "key", in.Key, "by", p.By())
		s.hint(action.HintCatalog, p.Organization, "")
		return nil
	})
	handle(s, api.RotateMasterKey, func(ctx context.Context, p *Principal, _ *api.None) (api.Rotated, error) {
		s.Log.InfoContext(ctx, "master key about to be replaced", "by", p.By())
		return s.Rotate(ctx, p.Organization, p.By())
	})
}

func (s *Server) putSecret(ctx context.Context, p *Principal, key string, n api.NewSecret) (action.Secret, error) {
	if err := checkSecret(key, n); err != nil {
		return action.Secret{}, err
	}
	sealed, err := s.SealSecret(p.Organization, key, []byte(n.Value))
	if err != nil {
		return action.Secret{}, err
	}
	now := s.now()
	secret := action.Secret{
		Organization: p.Organization, Key: key, Host: strings.ToLower(n.Host),
		UpdatedBy: p.By(), CreatedAt: now, UpdatedAt: now,
	}
	if err := s.Sources.PutSecret(ctx, secret, sealed); err != nil {
		return action.Secret{}, err
	}
	s.changed(ctx, p, "secret set", "key", key, "host", secret.Host) // a new host asks for new reviews
	s.hint(action.HintCatalog, p.Organization, "")
	return secret, nil
}

func checkSecret(key string, n api.NewSecret) error {
	if err := action.CheckCredential("/value", n.Value); err != nil {
		return err
	}
	return (&action.Secret{Key: key, Host: n.Host}).Check()
}
