package routes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
	"sallyport/dashboard/view"
)

func (s *handlers) newConnector(ctx context.Context, p *dashboard.Principal, n api.NewConnector) (action.Connector, *action.SealedSecret, error) {
	c, err := s.unsavedConnector(p, n.Name, n.FromPreset, &n.Upstream)
	if err != nil {
		return c, nil, err
	}
	c.Profile = cmp.Or(n.Profile, action.ProfileAsk)
	if n.Slug != nil {
		c.Slug = *n.Slug
	} else {
		c.Slug = slugOf(n.Name)
	}
	if err := checkConnector(&c); err != nil {
		return c, nil, err
	}
	secret, err := s.withSecret(ctx, p, &c, n.SecretValue)
	if err != nil {
		return c, nil, err
	}
	return c, secret, s.checkSecrets(ctx, nil, &c, secret)
}

// unsavedConnector builds a connector from a preset, overridden by the request.
func (s *handlers) unsavedConnector(p *dashboard.Principal, name string, from api.FromPreset, u *api.Upstream) (action.Connector, error) {
	now := s.Now()
	c := action.Connector{
		ID: uuid.NewString(), Organization: p.Organization, Name: name, Review: action.ReviewTrust, Enabled: true,
		Revision: 1, CreatedAt: now, UpdatedAt: now,
	}
	if err := s.fillPreset(&c, from); err != nil {
		return c, err
	}
	if u.Header != nil && !strings.EqualFold(*u.Header, c.Header) {
		c.Prefix = "" // the preset's prefix belongs to its own header
	}
	upstreamApply(u, &c)
	return c, nil
}

// changeConnector returns the stored row: the store decides whether the change
// makes a new revision, which invalidates approvals of the old one.
func (s *handlers) changeConnector(ctx context.Context, p *dashboard.Principal, ref string, change api.ConnectorChange, enabled *bool) (api.ConnectorView, error) {
	old, err := s.Connector(ctx, p.Organization, ref)
	if err != nil {
		return api.ConnectorView{}, err
	}
	c := old
	setIfGiven(&c.Name, change.Name)
	setIfGiven(&c.Enabled, enabled)
	upstreamApply(&change.Upstream, &c)
	if err := s.checkRisks(ctx, old, c); err != nil {
		return api.ConnectorView{}, err
	}
	if err := checkConnector(&c); err != nil {
		return api.ConnectorView{}, err
	}
	secret, err := s.withSecret(ctx, p, &c, change.SecretValue)
	if err != nil {
		return api.ConnectorView{}, err
	}
	if err := s.checkSecrets(ctx, &old, &c, secret); err != nil {
		return api.ConnectorView{}, err
	}
	if !c.KeepsTokens(&old) {
		s.revokeTokens(ctx, old, p.By())
	}
	if err := s.Sources.UpdateConnector(ctx, c, secret, p.By()); err != nil {
		return api.ConnectorView{}, err
	}
	if c, err = s.Connector(ctx, p.Organization, c.ID); err != nil {
		return api.ConnectorView{}, err
	}
	s.policyChanged(ctx, p, "connector changed", "connector", c.ID, "revision", c.Revision, "enabled", c.Enabled, "secret", secret != nil)
	s.Hint(action.HintCatalog, p.Organization, "")
	v, err := s.ViewConnector(ctx, c, s.Connectors.State(ctx, c))
	v.ReviewReset = c.URL != old.URL
	return v, err
}

// checkConnector validates a connector and refuses names with invisible
// characters.
func checkConnector(c *action.Connector) error {
	if c.Name = strings.TrimSpace(c.Name); !isPlainName(c.Name) {
		return dashboard.Invalid("/name", "name must be plain text without * or /.")
	}
	return c.Check()
}

// checkRisks refuses a risk for a tool that the connector does not have: with a
// typo it would hold no call. Existing entries may stay, and after a change of
// the URL nothing is known.
func (s *handlers) checkRisks(ctx context.Context, old, c action.Connector) error {
	if c.URL != old.URL {
		return nil
	}
	for _, tool := range slices.Sorted(maps.Keys(c.Risks)) {
		if _, said := old.Risks[tool]; said {
			continue
		}
		if err := s.checkAction(ctx, action.Key{Source: old.Source(), Action: tool}, []action.Connector{old}); err != nil {
			return view.AtField(err, "/tool_risks/"+render.PointerToken(tool))
		}
	}
	return nil
}

// slugOf derives a slug from a name: "My GitHub!" becomes "my-github".
func slugOf(name string) string {
	slug := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(name), "-")
	slug = strings.Trim(slug, "-")
	slug = strings.Trim(slug[:min(len(slug), 16)], "-")
	if slug == "" || action.ReservedSlug(slug) {
		slug = strings.Trim("c-"+slug, "-")
	}
	return slug
}

func (s *handlers) connectorRoutes() {
	dashboard.Handle(s.Server, api.ListPresets, func(context.Context, *dashboard.Principal, *api.None) (api.List[api.Preset], error) {
		return view.ListOf(s.Presets), nil
	})
	dashboard.Handle(s.Server, api.SetProfile, s.setProfile)
	dashboard.Handle(s.Server, api.ListConnectors, func(ctx context.Context, p *dashboard.Principal, _ *api.None) (api.List[api.ConnectorView], error) {
		all, err := s.Sources.ListConnectors(ctx, p.Organization)
		return view.ListOf(s.ViewConnectors(ctx, p.Organization, all)), err
	})
	dashboard.Handle(s.Server, api.GetConnector, func(ctx context.Context, p *dashboard.Principal, in *api.ByRef) (api.ConnectorView, error) {
		c, err := s.Connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return api.ConnectorView{}, err
		}
		return s.ViewTools(ctx, c, s.Connectors.State(ctx, c))
	})
	dashboard.Handle(s.Server, api.CreateConnector, func(ctx context.Context, p *dashboard.Principal, in *api.Body[api.NewConnector]) (api.ConnectorView, error) {
		c, secret, err := s.newConnector(ctx, p, in.Body)
		if err != nil {
			return api.ConnectorView{}, err
		}
		if err := s.Sources.CreateConnector(ctx, c, secret, p.By()); err != nil {
			if e := action.Public(err); e.Field == "/slug" && in.Body.Slug == nil {
				err = &action.Error{Kind: e.Kind, Code: e.Code, Field: e.Field, Message: fmt.Sprintf("The slug %q, derived from the name, is taken. Choose another `slug`.", c.Slug)}
			}
			return api.ConnectorView{}, err
		}
		s.Log.InfoContext(ctx, "connector added", "connector", c.ID, "name", c.Name, "url", c.URL, "by", p.By())
		s.Hint(action.HintCatalog, p.Organization, "")
		return s.ViewConnector(ctx, c, s.Connectors.State(ctx, c))
	})
	dashboard.Handle(s.Server, api.UpdateConnector, func(ctx context.Context, p *dashboard.Principal, in *api.ByRefWith[api.ConnectorChange]) (api.ConnectorView, error) {
		return s.changeConnector(ctx, p, in.Ref, in.Body, nil)
	})
	dashboard.Handle(s.Server, api.EnableConnector, func(ctx context.Context, p *dashboard.Principal, in *api.ByRef) (api.ConnectorView, error) {
		return s.changeConnector(ctx, p, in.Ref, api.ConnectorChange{}, new(true))
	})
	dashboard.Handle(s.Server, api.DisableConnector, func(ctx context.Context, p *dashboard.Principal, in *api.ByRef) (api.ConnectorView, error) {
		return s.changeConnector(ctx, p, in.Ref, api.ConnectorChange{}, new(false))
	})
	dashboard.HandleNone(s.Server, api.DeleteConnector, func(ctx context.Context, p *dashboard.Principal, in *api.ByRef) error {
		c, err := s.Connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return err
		}
		s.revokeTokens(ctx, c, p.By())
		withdrew, err := s.Sources.DeleteConnector(ctx, p.Organization, c.ID, p.By())
		if err != nil {
			return err
		}
		s.Withdrew(withdrew)
		s.policyChanged(ctx, p, "connector removed", "connector", c.ID)
		s.Hint(action.HintCatalog, p.Organization, "")
		return nil
	})
	dashboard.Handle(s.Server, api.ValidateConnector, func(ctx context.Context, p *dashboard.Principal, in *api.ByRef) (api.ConnectorView, error) {
		c, err := s.Connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return api.ConnectorView{}, err
		}
		state, err := s.Connectors.Probe(ctx, c)
		if err != nil {
			return api.ConnectorView{}, err
		}
		return s.ViewTools(ctx, c, state)
	})
	dashboard.Handle(s.Server, api.TryConnector, s.tryConnector)
	dashboard.Handle(s.Server, api.SignInConnector, s.beginSignIn)
	dashboard.HandleNone(s.Server, api.SignOutConnector, func(ctx context.Context, p *dashboard.Principal, in *api.ByRef) error {
		c, err := s.Connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return err
		}
		if err := s.Connectors.Disconnect(ctx, c, p.By()); err != nil {
			return err
		}
		s.policyChanged(ctx, p, "connector signed out", "connector", c.ID)
		s.Hint(action.HintCatalog, p.Organization, "")
		return nil
	})
	dashboard.Handle(s.Server, api.FinishOAuth, s.finishSignInOrConnection)
	dashboard.Handle(s.Server, api.OnboardTools, func(ctx context.Context, p *dashboard.Principal, in *api.ByRefWith[api.Onboarding]) (api.List[api.ReviewView], error) {
		c, err := s.Connector(ctx, p.Organization, in.Ref)
		if err != nil {
			return api.List[api.ReviewView]{}, err
		}
		list, err := s.onboard(ctx, p, c, in.Body.Tools)
		return view.ListOf(s.ViewReviews(ctx, c, list)), err
	})
}

// tryConnector probes the server of an unsaved connector.
func (s *handlers) tryConnector(ctx context.Context, p *dashboard.Principal, in *api.Body[api.TriedConnector]) (api.ConnectorView, error) {
	n := in.Body
	c, err := s.unsavedConnector(p, cmp.Or(n.Name, "untitled"), n.FromPreset, &n.Upstream)
	if err != nil {
		return api.ConnectorView{}, err
	}
	c.Slug = slugOf(c.Name)
	if err := checkConnector(&c); err != nil {
		return api.ConnectorView{}, err
	}
	ask := s.Connectors.Probe
	if n.SecretValue != "" {
		if err := checkSecret("untitled", api.NewSecret{Value: n.SecretValue, Host: view.HostOf(c.URL)}); err != nil {
			return api.ConnectorView{}, view.AtField(err, "/secret_value")
		}
		c.Secret = ""
		ask = func(ctx context.Context, c action.Connector) (dashboard.ConnectorState, error) {
			return s.Connectors.Try(ctx, c, n.SecretValue)
		}
	} else if err := s.checkSecrets(ctx, nil, &c, nil); err != nil {
		return api.ConnectorView{}, err
	}
	state, err := ask(ctx, c)
	if err != nil {
		return api.ConnectorView{}, err
	}
	state.RetryAt = time.Time{} // nothing retries it
	v, err := s.ViewConnector(ctx, c, state)
	v.Tools, v.Beside = view.ViewActions(state.Tools)
	v.Recognized = s.RecognizedPreset(&c, &state, v.Tools)
	m := action.ModeChange{Profile: action.ProfileAsk, Preset: c.PresetModes}
	v.Modes = view.CountModes(state.Tools, func(a *action.Action) action.Mode { return m.ModeOf(a.Name, a.Risk, a.Definition) })
	return v, err
}

func (s *handlers) beginSignIn(ctx context.Context, p *dashboard.Principal, in *api.ByRef) (to api.SignInLink, err error) {
	c, err := s.Connector(ctx, p.Organization, in.Ref)
	if err != nil {
		return to, err
	}
	if c.OAuth == nil || c.OAuth.Kind != action.OAuthCode {
		return to, action.NewError("no_sign_in", c.Name)
	}
	authorize, issuer, err := s.Connectors.BeginSignIn(ctx, c, p.By())
	if err != nil {
		return to, err
	}
	before, err := s.OAuthStatus(ctx, c)
	if err != nil {
		return to, err
	}
	s.Log.InfoContext(ctx, "sign-in started", "connector", c.ID, "by", p.By())
	to = api.SignInLink{AuthorizeURL: authorize, Host: view.HostOf(authorize), Known: c.OAuth.Issuer != "" || before.Issuer == issuer}
	if view.HostOf(issuer) != to.Host {
		to.Issuer = issuer
	}
	return to, nil
}

// finishSignIn logs the person and the connector, but nothing of the response.
func (s *handlers) finishSignIn(ctx context.Context, p *dashboard.Principal, n api.FinishedSignIn) (*api.ConnectorView, error) {
	id, err := s.Connectors.FinishSignIn(ctx, p.Organization, p.By(), n.State, n.Code, n.Iss, n.Error)
	if err != nil {
		return nil, err
	}
	s.policyChanged(ctx, p, "connector signed in", "connector", id)
	s.Hint(action.HintCatalog, p.Organization, "")
	c, err := s.Connector(ctx, p.Organization, id)
	if err != nil {
		return nil, err
	}
	v, err := s.ViewConnector(ctx, c, s.Connectors.State(ctx, c))
	return &v, err
}

// giveBackWait bounds how long a change waits for the revocation of tokens.
const giveBackWait = 5 * time.Second

// revokeTokens revokes the tokens of a connector before a change discards them. An
// unreachable service does not prevent the change.
func (s *handlers) revokeTokens(ctx context.Context, c action.Connector, by string) {
	if c.OAuth == nil {
		return
	}
	ctx, stop := context.WithTimeout(ctx, giveBackWait)
	defer stop()
	if err := s.Connectors.Disconnect(ctx, c, by); err != nil && !errors.Is(err, action.ErrNotFound) {
		s.Log.WarnContext(ctx, "could not revoke the tokens of a connector", "connector", c.ID, "error", err)
	}
}

// clientMetadata serves the OAuth client ID metadata document.
func (s *handlers) clientMetadata(w http.ResponseWriter, r *http.Request) {
	document := s.Connectors.ClientMetadata()
	if document == nil {
		s.Fail(w, r, action.NewError("no_client_metadata"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=3600")
	_, _ = w.Write(document) // a client that disconnected can retry
}
