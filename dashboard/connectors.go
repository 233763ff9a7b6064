package dashboard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/api"
)

// connector finds one by id, slug or name, in this order.
func (s *Server) connector(ctx context.Context, organization, ref string) (action.Connector, error) {
	all, err := s.Sources.ListConnectors(ctx, organization)
	if err != nil {
		return action.Connector{}, err
	}
	if c := findConnector(all, ref); c != nil {
		return *c, nil
	}
	return action.Connector{}, action.NewError("no_such_connector", ref)
}

func findConnector(all []action.Connector, ref string) *action.Connector {
	id := strings.TrimPrefix(ref, connectorPrefix)
	for _, matches := range []func(action.Connector) bool{
		func(c action.Connector) bool { return c.ID == id },
		func(c action.Connector) bool { return c.Slug != "" && c.Slug == ref },
		func(c action.Connector) bool { return strings.EqualFold(c.Name, ref) },
	} {
		if i := slices.IndexFunc(all, matches); i >= 0 {
			return &all[i]
		}
	}
	return nil
}

func (s *Server) addConnector(ctx context.Context, p *Principal, n api.NewConnector) (action.Connector, error) {
	c, secret, err := s.newConnector(ctx, p, n)
	if err != nil {
		return c, err
	}
	if err := s.Sources.CreateConnector(ctx, c, secret, p.By()); err != nil {
		return c, madeSlugTaken(err, c.Slug, n.Slug == nil)
	}
	s.Log.InfoContext(ctx, "connector added", "connector", c.ID, "name", c.Name, "url", c.URL, "by", p.By())
	s.hint(action.HintCatalog, p.Organization, "")
	return c, nil
}

func (s *Server) newConnector(ctx context.Context, p *Principal, n api.NewConnector) (action.Connector, *action.SealedSecret, error) {
	c, err := s.unsaved(p, n.Name, n.FromPreset, &n.Upstream)
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

// unsaved makes a connector of what a preset says, and over it the request.
func (s *Server) unsaved(p *Principal, name string, from api.FromPreset, u *api.Upstream) (action.Connector, error) {
	now := s.now()
	c := action.Connector{
		ID: uuid.NewString(), Organization: p.Organization, Name: name, Review: action.ReviewTrust, Enabled: true,
		Revision: 1, CreatedAt: now, UpdatedAt: now,
	}
	if err := s.fill(&c, from); err != nil {
		return c, err
	}
	if u.Header != nil && !strings.EqualFold(*u.Header, c.Header) {
		c.Prefix = "" // the preset's belongs to the preset's header
	}
	upstreamApply(u, &c)
	return c, nil
}

// changeConnector answers with the row as it became: whether it has a new
// revision, so that approvals of the old one are stale, is for the rows to say.
func (s *Server) changeConnector(ctx context.Context, p *Principal, ref string, change api.ConnectorChange, enabled *bool) (api.ConnectorView, error) {
	old, err := s.connector(ctx, p.Organization, ref)
	if err != nil {
		return api.ConnectorView{}, err
	}
	c := old
	set(&c.Name, change.Name)
	set(&c.Enabled, enabled)
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
		s.giveBack(ctx, old, p.By())
	}
	if err := s.Sources.UpdateConnector(ctx, c, secret, p.By()); err != nil {
		return api.ConnectorView{}, err
	}
	if c, err = s.connector(ctx, p.Organization, c.ID); err != nil {
		return api.ConnectorView{}, err
	}
	s.changed(ctx, p, "connector changed", "connector", c.ID, "revision", c.Revision, "enabled", c.Enabled, "secret", secret != nil)
	s.hint(action.HintCatalog, p.Organization, "")
	v, err := s.viewConnector(ctx, c, s.Connectors.State(ctx, c))
	v.ReviewReset = c.URL != old.URL
	return v, err
}

// checkConnector refuses what a connector cannot be, and names that hide
// something.
func checkConnector(c *action.Connector) error {
	if c.Name = strings.TrimSpace(c.Name); !plainName(c.Name) {
		return invalid("/name", "name must be plain text without * or /.")
	}
	return c.Check()
}

// checkRisks refuses a risk of a tool that the connector is known to lack: a
// danger with a typo in it would hold nothing back. What was said before may
// stay, and of another server nothing is known.
func (s *Server) checkRisks(ctx context.Context, old, c action.Connector) error {
	if c.URL != old.URL {
		return nil
	}
	for _, tool := range slices.Sorted(maps.Keys(c.Risks)) {
		if _, said := old.Risks[tool]; said {
			continue
		}
		if err := s.checkAction(ctx, action.Key{Source: old.Source(), Action: tool}, []action.Connector{old}); err != nil {
			return placed(err, "/tool_risks/"+segment(tool))
		}
	}
	return nil
}

// slugOf makes a slug of a name: "My GitHub!" becomes "my-github".
func slugOf(name string) string {
	slug := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(name), "-")
	slug = strings.Trim(slug, "-")
	slug = strings.Trim(slug[:min(len(slug), 16)], "-")
	if slug == "" || action.ReservedSlug(slug) {
		slug = strings.Trim("c-"+slug, "-")
	}
	return slug
}

// madeSlugTaken says of a slug that nobody chose where it came from, and how
// to choose one.
func madeSlugTaken(err error, slug string, made bool) error {
	var e *action.Error
	if !made || !errors.As(err, &e) || e.Field != "/slug" {
		return err
	}
	said := *e
	said.Message = fmt.Sprintf("The slug %q, which was made of the name, is taken; choose another `slug`.", slug)
	return &said
}
