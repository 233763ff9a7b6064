package routes

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/view"
	"sallyport/ingest/event"
)

func (s *handlers) secretRoutes() {
	dashboard.Handle(s.Server, api.PutSecret, s.putSecret)
	dashboard.Handle(s.Server, api.ListSecrets, listAll(s.Sources.ListSecrets))
	dashboard.HandleNone(s.Server, api.DeleteSecret, func(ctx context.Context, p *dashboard.Principal, in *api.ByKey) error {
		if err := s.Sources.DeleteSecret(ctx, p.Organization, in.Key); err != nil {
			return err
		}
		s.Log.InfoContext(ctx, "secret deleted", "key", in.Key, "by", p.By())
		s.Hint(action.HintCatalog, p.Organization, "")
		return nil
	})
	dashboard.Handle(s.Server, api.RotateMasterKey, func(ctx context.Context, p *dashboard.Principal, _ *api.None) (api.Rotated, error) {
		s.Log.InfoContext(ctx, "master key rotation requested", "by", p.By())
		return s.Rotate(ctx, p.Organization, p.By())
	})
}

func (s *handlers) putSecret(ctx context.Context, p *dashboard.Principal, in *api.ByKeyWith[api.NewSecret]) (action.Secret, error) {
	if err := checkSecret(in.Key, in.Body); err != nil {
		return action.Secret{}, err
	}
	sealed, err := s.SealSecret(p.Organization, in.Key, []byte(in.Body.Value))
	if err != nil {
		return action.Secret{}, err
	}
	now := s.Now()
	secret := action.Secret{
		Organization: p.Organization, Key: in.Key, Host: strings.ToLower(in.Body.Host),
		UpdatedBy: p.By(), CreatedAt: now, UpdatedAt: now,
	}
	if err := s.Sources.PutSecret(ctx, secret, sealed); err != nil {
		return action.Secret{}, err
	}
	s.policyChanged(ctx, p, "secret set", "key", in.Key, "host", secret.Host) // a new host requires new reviews
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
		return dashboard.Invalid("/secret", "The part after whsec_ must be at least 16 bytes in base64. Copy the whole secret.")
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

func (s *handlers) envRoutes() {
	dashboard.Handle(s.Server, api.ListSessionEnv, func(ctx context.Context, p *dashboard.Principal, in *api.ListSessionEnvInput) (api.List[action.EnvRequest], error) {
		if _, err := s.sessionOf(ctx, p, in.Session); err != nil {
			return api.List[action.EnvRequest]{}, err
		}
		page, err := s.Sessions.ListEnvRequests(ctx, action.EnvFilter{Organization: p.Organization, Session: in.Session, Limit: in.Limit, Cursor: in.Cursor})
		return view.PageOf(page, identity), err
	})
	dashboard.Handle(s.Server, api.PullEnv, s.pullEnv)
	dashboard.Handle(s.Server, api.ListEnvRequests, func(ctx context.Context, p *dashboard.Principal, in *api.ListEnvRequestsInput) (api.List[action.EnvRequest], error) {
		page, err := s.Sessions.ListEnvRequests(ctx, action.EnvFilter{Organization: p.Organization, Session: in.Session, Status: in.Status, Limit: in.Limit, Cursor: in.Cursor})
		return view.PageOf(page, identity), err
	})
	dashboard.Handle(s.Server, api.GetEnvRequest, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (action.EnvRequest, error) {
		return s.Sessions.EnvRequest(ctx, p.Organization, in.ID)
	})
	dashboard.Handle(s.Server, api.AnswerEnvRequest, s.answerEnv)
	dashboard.Handle(s.Server, api.RefuseEnvRequest, func(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[*api.EnvRefusal]) (action.EnvRequest, error) {
		v := action.EnvVerdict{Organization: p.Organization, ID: in.ID, By: p.By()}
		if in.Body != nil {
			v.Note = in.Body.Reason
		}
		return s.decideEnv(ctx, p, v, "variables refused")
	})
}

// envRef binds the sealed values to their request.
func envRef(organization, id string) action.Ref {
	return action.Ref{Organization: organization, Table: "env_requests", Row: id, Column: "sealed"}
}

func (s *handlers) answerEnv(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[api.EnvAnswer]) (action.EnvRequest, error) {
	r, err := s.Sessions.EnvRequest(ctx, p.Organization, in.ID)
	if err != nil {
		return r, err
	}
	given := maps.Clone(in.Body.Values)
	maps.DeleteFunc(given, func(_, v string) bool { return v == "" }) // an empty form field
	if err := action.CheckEnvValues(r.Keys, given); err != nil {
		return r, err
	}
	plain, err := json.Marshal(given)
	if err != nil {
		return r, err
	}
	sealed, err := s.Vault.Seal(envRef(p.Organization, in.ID), plain)
	if err != nil {
		return r, fmt.Errorf("sealing the values of request %s: %w", in.ID, err)
	}
	v := action.EnvVerdict{Organization: p.Organization, ID: in.ID, By: p.By(), Sealed: sealed, Names: slices.Sorted(maps.Keys(given))}
	if in.Body.Keep {
		session, err := s.Session(ctx, p.Organization, r.Session)
		if err != nil {
			return r, err
		}
		if session.Workspace == "" {
			return r, dashboard.Invalid("/keep", "The session has no workspace that could keep the values. Leave keep out.")
		}
		for _, name := range v.Names {
			kept, err := s.sealVariable(p, session.Workspace, name, given[name])
			if err != nil {
				return r, err
			}
			v.Keep = append(v.Keep, kept)
		}
	}
	return s.decideEnv(ctx, p, v, "variables entered")
}

// decideEnv stores a verdict and notifies the waiting sandbox.
func (s *handlers) decideEnv(ctx context.Context, p *dashboard.Principal, v action.EnvVerdict, what string) (action.EnvRequest, error) {
	r, err := s.Sessions.DecideEnv(ctx, v)
	if err == nil {
		s.policyChanged(ctx, p, what, "request", r.ID)
	}
	return r, err
}

// pullEnv returns the answered variables, and which requests are open or refused.
func (s *handlers) pullEnv(ctx context.Context, p *dashboard.Principal, in *api.PullEnvInput) (api.EnvPulled, error) {
	out := api.EnvPulled{Values: map[string]string{}, Pending: []string{}, Refused: []api.EnvRefused{}}
	sum := sha256.Sum256([]byte(cmp.Or(in.Key, dashboard.NewID())))
	list, err := s.Sessions.TakeEnv(ctx, p.Organization, p.Session.ID, hex.EncodeToString(sum[:]))
	if err != nil {
		return out, err
	}
	for _, v := range list {
		plain, err := s.Vault.Open(envRef(p.Organization, v.ID), v.Sealed)
		if err != nil {
			return out, fmt.Errorf("opening the values of request %s: %w", v.ID, err)
		}
		if err := json.Unmarshal(plain, &out.Values); err != nil {
			return out, fmt.Errorf("reading the values of request %s failed", v.ID) // the cause could contain them
		}
	}
	page, err := s.Sessions.ListEnvRequests(ctx, action.EnvFilter{Organization: p.Organization, Session: p.Session.ID, Limit: maxLooked})
	if err != nil {
		return out, err
	}
	out.Pending, out.Refused = newVariables(page.Items, list, s.Now())
	return out, nil
}

// maxLooked is how many of a session's newest requests a pull reads. Only a few can
// be pending at once.
const maxLooked = 50

// newVariables returns the pending requests, and the refusals that the sandbox has
// not seen. A refusal is repeated until a later pull returned variables, or the
// same variables were requested again. Requests are newest first; returned are the
// variables in this response.
func newVariables(requests []action.EnvRequest, returned []action.SealedEnv, now time.Time) (pending []string, refused []api.EnvRefused) {
	pending, refused = []string{}, []api.EnvRefused{}
	var lastTaken time.Time
	for _, r := range requests {
		before := !slices.ContainsFunc(returned, func(h action.SealedEnv) bool { return h.ID == r.ID })
		if r.TakenAt != nil && r.TakenAt.After(lastTaken) && before {
			lastTaken = *r.TakenAt
		}
	}
	newer := map[string]bool{} // variables of newer requests
	for _, r := range requests {
		names := make([]string, len(r.Keys))
		for i, k := range r.Keys {
			names[i] = k.Key
		}
		switch {
		case r.Status == action.EnvPending && r.ExpiresAt.After(now):
			pending = append(pending, names...)
		case r.Status == action.EnvRefused && r.DecidedAt != nil && !r.DecidedAt.Before(lastTaken) && slices.ContainsFunc(names, func(n string) bool { return !newer[n] }):
			refused = append(refused, api.EnvRefused{ID: r.ID, Keys: names, Reason: r.Note})
		}
		for _, n := range names {
			newer[n] = true
		}
	}
	return pending, refused
}
