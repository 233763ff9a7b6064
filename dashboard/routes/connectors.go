package routes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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

func (s *handlers) addConnector(ctx context.Context, p *dashboard.Principal, n api.NewConnector) (action.Connector, error) {
	c, secret, err := s.newConnector(ctx, p, n)
	if err != nil {
		return c, err
	}
	if err := s.Sources.CreateConnector(ctx, c, secret, p.By()); err != nil {
		return c, isDerivedSlugConflict(err, c.Slug, n.Slug == nil)
	}
	s.Log.InfoContext(ctx, "connector added", "connector", c.ID, "name", c.Name, "url", c.URL, "by", p.By())
	s.Hint(action.HintCatalog, p.Organization, "")
	return c, nil
}

func (s *handlers) newConnector(ctx context.Context, p *dashboard.Principal, n api.NewConnector) (action.Connector, *action.SealedSecret, error) {
	c, err := s.unsavedConnector(p, n.Name, n.FromPreset, &n.Upstream)
	if err != nil {
		return c, nil, err
	}
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

// isDerivedSlugConflict explains the conflict of a slug that was derived from the
// name, and how to set another.
func isDerivedSlugConflict(err error, slug string, made bool) error {
	var e *action.Error
	if !made || !errors.As(err, &e) || e.Field != "/slug" {
		return err
	}
	said := *e
	said.Message = fmt.Sprintf("The slug %q, which was made of the name, is taken; choose another `slug`.", slug)
	return &said
}

func (s *handlers) connectorRoutes() {
	s.presetRoutes()
	s.connectorReads()
	s.connectorChanges()
	s.connectorProbes()
	s.signInRoutes()
	s.onboardRoutes()
}

func (s *handlers) connectorReads() {
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
}

func (s *handlers) connectorChanges() {
	dashboard.Handle(s.Server, api.CreateConnector, func(ctx context.Context, p *dashboard.Principal, in *api.Body[api.NewConnector]) (api.ConnectorView, error) {
		c, err := s.addConnector(ctx, p, in.Body)
		if err != nil {
			return api.ConnectorView{}, err
		}
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
}

func (s *handlers) connectorProbes() {
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
	dashboard.Handle(s.Server, api.TryConnector, func(ctx context.Context, p *dashboard.Principal, in *api.Body[api.TriedConnector]) (api.ConnectorView, error) {
		return s.tryConnector(ctx, p, in.Body)
	})
}

// tryConnector probes the server of an unsaved connector.
func (s *handlers) tryConnector(ctx context.Context, p *dashboard.Principal, n api.TriedConnector) (api.ConnectorView, error) {
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
	return v, err
}
