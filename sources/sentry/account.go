package sentry

import (
	"context"
	"net/url"
	"strings"

	"sallyport/sources"
)

// found is an organization as Sentry tells of it.
type found struct {
	ID   string `json:"id"`
	Slug string `json:"slug"`
	Name string `json:"name"`
}

const noSuch = "Sentry's API is not at the base URL, or the credential does not see the organization of the settings; the base URL is the server's own, such as https://sentry.io, without /api/0."

// account returns the organization that a credential is used for: the one of
// the settings, or the only one that it reaches.
func account(ctx context.Context, c *sources.Conn) (sources.Account, error) {
	one, err := theOrganization(ctx, c)
	if err != nil {
		return sources.Account{}, err
	}
	if one.ID == "" || one.Slug == "" {
		return sources.Account{}, notSentry(c, nil)
	}
	own, err := sources.Encode(settings{Organization: one.Slug})
	return sources.Account{ID: unique(c, one.ID), Name: one.Name, Settings: own}, err
}

func theOrganization(ctx context.Context, c *sources.Conn) (one found, err error) {
	a := ask{path: []string{"organizations"}, scope: "org:read", missing: noSuch}
	if slug := settingsOf(c.Settings).Organization; slug != "" {
		a.path, a.query = append(a.path, slug), url.Values{"detailed": {"0"}}
		_, err = send(ctx, c, a, &one)
		return one, err
	}
	var all []found
	if _, err = send(ctx, c, a, &all); err != nil {
		return one, err
	}
	switch len(all) {
	case 1:
		return all[0], nil
	case 0:
		return one, wrong("no_organization", "The credential reaches no organization; make one that has the scope org:read.")
	}
	var slugs []string
	for _, o := range all[:min(10, len(all))] {
		slugs = append(slugs, sources.Printable(o.Slug, 60))
	}
	return one, wrong("several_organizations", "The credential reaches several organizations ("+strings.Join(slugs, ", ")+"); name one as organization in the settings of the connection.")
}

// unique makes an id of an organization unique among servers: each server of
// one's own counts from 1.
func unique(c *sources.Conn, id string) string {
	base := c.HTTP.Base()
	if base.Hostname() == "sentry.io" || strings.HasSuffix(base.Hostname(), ".sentry.io") {
		return id
	}
	return base.Host + strings.TrimSuffix(base.Path, "/") + "#" + id
}

// formPages bounds what forms are told, in pages of 100.
const formPages = 5

// metadata answers with projects, environments and levels. With project, its
// slug, the environments are that project's, otherwise the organization's.
func metadata(ctx context.Context, c *sources.Conn, q url.Values) (any, error) {
	org, err := organization(c, q.Get("organization"))
	if err != nil {
		return nil, err
	}
	missing := "There is no such organization or project that this connection sees; check the settings of the connection and the project."
	projects, err := pages(ctx, c, ask{path: []string{"organizations", org, "projects"}, scope: "project:read", missing: missing})
	if err != nil {
		return nil, err
	}
	a := ask{path: []string{"organizations", org, "environments"}, scope: "project:read", missing: missing}
	if p := q.Get("project"); p != "" {
		a.path = []string{"projects", org, p, "environments"}
	}
	environments, err := pages(ctx, c, a)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"projects": projects, "environments": environments,
		"levels": []string{"fatal", "error", "warning", "info", "debug"},
	}, nil
}

// pages returns what a list says of each element that forms want to know.
func pages(ctx context.Context, c *sources.Conn, a ask) ([]object, error) {
	all := []object{}
	a.query = url.Values{"per_page": {"100"}}
	for range formPages {
		var page []object
		h, err := send(ctx, c, a, &page)
		if err != nil {
			return nil, err
		}
		for _, o := range page {
			all = append(all, pick(o, "id", "slug", "name"))
		}
		cursor := next(h)
		if cursor == "" {
			break
		}
		a.query.Set("cursor", cursor)
	}
	return all, nil
}
