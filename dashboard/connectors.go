package dashboard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"sallyport/action"
)

// connector finds one by id, slug or name, in this order.
func (s *Server) connector(ctx context.Context, organization, ref string) (action.Connector, error) {
	all, err := s.Connectors.ListConnectors(ctx, organization)
	if err != nil {
		return action.Connector{}, err
	}
	if c := findConnector(all, ref); c != nil {
		return *c, nil
	}
	return action.Connector{}, action.Errorf(action.ErrNotFound, "no_such_connector", "There is no connector %q; list them to see their slugs and names.", ref)
}

func findConnector(all []action.Connector, ref string) *action.Connector {
	id := strings.TrimPrefix(ref, "connector:")
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

func (s *Server) addConnector(ctx context.Context, p *Principal, n NewConnector) (action.Connector, error) {
	c, err := s.newConnector(ctx, p, n)
	if err != nil {
		return c, err
	}
	if err := s.Connectors.CreateConnector(ctx, c, nil, p.By()); err != nil {
		return c, madeSlugTaken(err, c.Slug, n.Slug == nil)
	}
	s.log.InfoContext(ctx, "connector added", "connector", c.ID, "name", c.Name, "url", c.URL, "by", p.By())
	s.hint(action.HintCatalog, p.Organization, "")
	return c, nil
}

func (s *Server) newConnector(ctx context.Context, p *Principal, n NewConnector) (action.Connector, error) {
	now := s.now()
	c := action.Connector{
		ID: uuid.NewString(), Organization: p.Organization, Name: n.Name, URL: n.URL, Header: n.Header,
		Secret: n.Secret, DefaultRisk: n.DefaultRisk, Review: action.ReviewTrust, Enabled: true, Revision: 1, CreatedAt: now, UpdatedAt: now,
	}
	n.ToolRules.apply(&c)
	if n.Slug != nil {
		c.Slug = *n.Slug
	} else {
		c.Slug = slugOf(n.Name)
	}
	switch {
	case n.Prefix != nil:
		c.Prefix = *n.Prefix
	case n.Secret != "" && (n.Header == "" || strings.EqualFold(n.Header, "Authorization")):
		c.Prefix = "Bearer "
	}
	return c, s.checkConnector(ctx, &c)
}

func (change ConnectorChange) apply(c *action.Connector) {
	set(&c.Name, change.Name)
	set(&c.URL, change.URL)
	set(&c.Header, change.Header)
	set(&c.Prefix, change.Prefix)
	set(&c.Secret, change.Secret)
	set(&c.DefaultRisk, change.DefaultRisk)
	change.ToolRules.apply(c)
}

func (rules ToolRules) apply(c *action.Connector) {
	set(&c.Risks, rules.Risks)
	set(&c.Review, rules.Review)
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// changeConnector counts the revision up where a call would do something else
// than before: approvals of the old one are stale.
func (s *Server) changeConnector(ctx context.Context, p *Principal, ref string, change func(*action.Connector)) (*body[ConnectorView], error) {
	old, err := s.connector(ctx, p.Organization, ref)
	if err != nil {
		return nil, err
	}
	c := old
	change(&c)
	if err := s.checkConnector(ctx, &c); err != nil {
		return nil, err
	}
	if err := s.checkRisks(ctx, old, c); err != nil {
		return nil, err
	}
	if c.URL != old.URL || c.Header != old.Header || c.Prefix != old.Prefix || c.Secret != old.Secret ||
		c.DefaultRisk != old.DefaultRisk || c.Review != old.Review || !maps.Equal(c.Risks, old.Risks) {
		c.Revision++
	}
	c.UpdatedAt = s.now()
	if err := s.Connectors.UpdateConnector(ctx, c, nil, p.By()); err != nil {
		return nil, err
	}
	s.changed(ctx, p, "connector changed", "connector", c.ID, "revision", c.Revision, "enabled", c.Enabled)
	s.hint(action.HintCatalog, p.Organization, "")
	return bodyOf(viewConnector(c, s.Prober.State(ctx, c))), nil
}

// checkConnector refuses what could not work or must not be.
func (s *Server) checkConnector(ctx context.Context, c *action.Connector) error {
	c.Name = strings.TrimSpace(c.Name)
	if c.Name == "" || len(visible(c.Name)) != 1 || strings.ContainsAny(c.Name, "*/") {
		return invalid("/name", "Give name as plain text without * or /.")
	}
	if err := checkSlug(c.Slug); err != nil {
		return err
	}
	u, err := url.Parse(c.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return invalid("/url", "Give url as an absolute http or https URL, such as https://mcp.example.com/mcp, without user and fragment; put a credential in a secret.")
	}
	if err := checkHeader(c); err != nil {
		return err
	}
	if c.DefaultRisk != "" && !c.DefaultRisk.Valid() {
		return invalid("/default_risk", "default_risk must be one of read, write, danger.")
	}
	for tool, risk := range c.Risks {
		if !risk.Valid() {
			return invalid("/tool_risks/"+segment(tool), "The risk of a tool must be one of read, write, danger.")
		}
	}
	return s.checkBinding(ctx, c, u.Host)
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

// checkBinding keeps a secret to its host.
func (s *Server) checkBinding(ctx context.Context, c *action.Connector, host string) error {
	if c.Secret == "" {
		return nil
	}
	all, err := s.Secrets.ListSecrets(ctx, c.Organization)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(secret action.Secret) bool { return secret.Key == c.Secret })
	if i < 0 {
		return invalid("/secret", fmt.Sprintf("There is no secret %q; set it first, with host %s.", c.Secret, host))
	}
	if !strings.EqualFold(all[i].Host, host) {
		return invalid("/secret", fmt.Sprintf("The secret %q is bound to %s and cannot go to %s; set another for that host.", c.Secret, all[i].Host, host))
	}
	return nil
}

// reserved are the slugs whose tools would look like the gateway's own.
func reserved(slug string) bool {
	return slices.Contains([]string{"invocation", "actions", "grant", "gateway", "platform", "sallyport"}, slug)
}

func checkSlug(slug string) error {
	if slug == "" {
		return nil
	}
	if !regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,14}[a-z0-9])?$`).MatchString(slug) {
		return invalid("/slug", "slug must be 1 to 16 lower-case letters, digits and dashes, such as github.")
	}
	if reserved(slug) {
		return invalid("/slug", fmt.Sprintf("The slug %q is the gateway's own; choose another.", slug))
	}
	return nil
}

// slugOf makes a slug of a name: "My GitHub!" becomes "my-github".
func slugOf(name string) string {
	slug := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(name), "-")
	slug = strings.Trim(slug, "-")
	slug = strings.Trim(slug[:min(len(slug), 16)], "-")
	if slug == "" || reserved(slug) {
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
	said.Message = fmt.Sprintf("The slug %q, which was made of the name, is taken; choose another with \"slug\" (at the command line: --slug).", slug)
	return &said
}

// checkHeader refuses headers that carry the protocol itself.
func checkHeader(c *action.Connector) error {
	if c.Header != "" && !regexp.MustCompile("^[0-9A-Za-z!#$%&'*+.^_`|~-]+$").MatchString(c.Header) {
		return invalid("/header", "header must be the name of an HTTP header, such as X-Api-Key.")
	}
	name := http.CanonicalHeaderKey(c.Header)
	if slices.Contains([]string{
		"Host", "Connection", "Content-Length", "Content-Type", "Transfer-Encoding", "Accept", "Cookie",
		"Upgrade", "Te", "Trailer", "Origin", "Last-Event-Id", "Expect",
	}, name) || strings.HasPrefix(name, "Mcp-") || strings.HasPrefix(name, "Proxy-") {
		return invalid("/header", fmt.Sprintf("%s belongs to the protocol and cannot carry a secret.", name))
	}
	if !regexp.MustCompile(`^[ -~]*$`).MatchString(c.Prefix) {
		return invalid("/prefix", "prefix must be plain text, such as \"Bearer \".")
	}
	return nil
}
