package routes

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/view"
	"sallyport/ingest/event"
)

func (s *handlers) secretRoutes() {
	dashboard.Handle(s.Server, api.PutSecret, func(ctx context.Context, p *dashboard.Principal, in *api.ByKeyWith[api.NewSecret]) (action.Secret, error) {
		return s.putSecret(ctx, p, in.Key, in.Body)
	})
	dashboard.Handle(s.Server, api.ListSecrets, func(ctx context.Context, p *dashboard.Principal, _ *api.None) (api.List[action.Secret], error) {
		list, err := s.Sources.ListSecrets(ctx, p.Organization)
		return view.ListOf(list), err
	})
	dashboard.HandleNone(s.Server, api.DeleteSecret, func(ctx context.Context, p *dashboard.Principal, in *api.ByKey) error {
		if err := s.Sources.DeleteSecret(ctx, p.Organization, in.Key); err != nil {
			return err
		}
		s.Log.InfoContext(ctx, "secret deleted", "key", in.Key, "by", p.By())
		s.Hint(action.HintCatalog, p.Organization, "")
		return nil
	})
	dashboard.Handle(s.Server, api.RotateMasterKey, func(ctx context.Context, p *dashboard.Principal, _ *api.None) (api.Rotated, error) {
		s.Log.InfoContext(ctx, "master key about to be replaced", "by", p.By())
		return s.Rotate(ctx, p.Organization, p.By())
	})
}

func (s *handlers) putSecret(ctx context.Context, p *dashboard.Principal, key string, n api.NewSecret) (action.Secret, error) {
	if err := checkSecret(key, n); err != nil {
		return action.Secret{}, err
	}
	sealed, err := s.SealSecret(p.Organization, key, []byte(n.Value))
	if err != nil {
		return action.Secret{}, err
	}
	now := s.Now()
	secret := action.Secret{
		Organization: p.Organization, Key: key, Host: strings.ToLower(n.Host),
		UpdatedBy: p.By(), CreatedAt: now, UpdatedAt: now,
	}
	if err := s.Sources.PutSecret(ctx, secret, sealed); err != nil {
		return action.Secret{}, err
	}
	s.policyChanged(ctx, p, "secret set", "key", key, "host", secret.Host) // a new host requires new reviews
	s.Hint(action.HintCatalog, p.Organization, "")
	return secret, nil
}

func checkSecret(key string, n api.NewSecret) error {
	if err := action.CheckCredential("/value", n.Value); err != nil {
		return err
	}
	return (&action.Secret{Key: key, Host: n.Host}).Check()
}

const (
	secretBytes = 32
	defaultKeep = 24 * time.Hour
	maxKeep     = 30 * 24 * time.Hour
)

// newSecret returns a new signing secret and its text to show, which is empty
// if the caller sent it.
func (s *handlers) newSecret(organization, given string, standard bool) (event.Secret, string, error) {
	text, shown := given, ""
	if given == "" {
		text = generateSecret(standard)
		shown = text
	} else if err := checkSigningSecret(given); err != nil {
		return event.Secret{}, "", err
	}
	secret := event.Secret{ID: dashboard.NewID(), CreatedAt: s.Now()}
	var err error
	secret.Sealed, err = s.Vault.Seal(action.Ref{Organization: organization, Table: "signing_secrets", Row: secret.ID, Column: "sealed"}, []byte(text))
	return secret, shown, err
}

// generateSecret returns a random secret of 32 bytes, in the format of Standard
// Webhooks or in hex. The key is the decoded bytes of the former, and the text
// of the latter.
func generateSecret(standard bool) string {
	key := make([]byte, secretBytes)
	_, _ = rand.Read(key) // never fails
	if standard {
		return "whsec_" + base64.StdEncoding.EncodeToString(key)
	}
	return hex.EncodeToString(key)
}

// checkSigningSecret validates a signing secret from a service.
func checkSigningSecret(secret string) error {
	if len(secret) < 16 || len(secret) > 512 || strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return dashboard.Invalid("/secret", "secret must be 16 to 512 plain characters without spaces, as the service shows it.")
	}
	text, standard := strings.CutPrefix(secret, "whsec_")
	if key, err := base64.StdEncoding.DecodeString(text); standard && (err != nil || len(key) < 16) {
		return dashboard.Invalid("/secret", "What follows whsec_ must be at least 16 bytes in base64; copy the whole secret.")
	}
	return nil
}

// usesStandardWebhooks reports whether deliveries to a trigger are signed with
// Standard Webhooks.
func usesStandardWebhooks(provider string, config json.RawMessage) bool {
	if provider != "custom" && provider != "posthog" {
		return false
	}
	var c struct {
		Verification struct {
			Scheme string `json:"scheme"`
		} `json:"verification"`
	}
	_ = json.Unmarshal(config, &c) // validated when it was stored
	return cmp.Or(c.Verification.Scheme, "standard") == "standard"
}

// rotate adds a signing secret and lets the owner's previous ones expire.
func (s *handlers) rotate(ctx context.Context, p *dashboard.Principal, owner string, r *api.Rotation, standard bool) (api.MintedSecret, error) {
	if r == nil {
		r = &api.Rotation{}
	}
	keep, err := time.ParseDuration(cmp.Or(r.Keep, defaultKeep.String()))
	if err != nil || keep < 0 || keep > maxKeep {
		return api.MintedSecret{}, dashboard.Invalid("/keep", "keep must be a duration up to 720h, such as 24h, or 0s.")
	}
	secret, shown, err := s.newSecret(p.Organization, r.Secret, standard)
	if err != nil {
		return api.MintedSecret{}, err
	}
	if err := s.Inbound.RotateSecret(ctx, p.Organization, owner, secret, s.Now().Add(keep), p.By()); err != nil {
		return api.MintedSecret{}, err
	}
	s.Log.InfoContext(ctx, "signing secret replaced", "owner", owner, "keep", keep.String(), "by", p.By())
	return api.MintedSecret{Secret: shown}, nil
}
