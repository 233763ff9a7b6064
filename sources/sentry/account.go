package sentry

import (
	"context"
	"net/url"
	"strings"

	"sallyport/sources"
)

// orgInfo is an organization in Sentry's responses.
type orgInfo struct {
	ID   string `json:"id"`
	Slug string `json:"slug"`
	Name string `json:"name"`
}

const orgNotFound = "Sentry's API is not at the base URL, or the credential does not see the organization of the settings; the base URL is the server's own, such as https://sentry.io, without /api/0."

// account returns the organization in the settings, or the only one that the
// credential can access.
func account(ctx context.Context, c *sources.Conn) (sources.Account, error) {
	org, err := fetchOrganization(ctx, c)
	if err != nil {
		return sources.Account{}, err
	}
	if org.ID == "" || org.Slug == "" {
		return sources.Account{}, invalidResponse(c, nil)
	}
	encoded, err := sources.Encode(settings{Organization: org.Slug})
	return sources.Account{ID: accountID(c, org.ID), Name: org.Name, Settings: encoded}, err
}

func fetchOrganization(ctx context.Context, c *sources.Conn) (org orgInfo, err error) {
	a := request{path: []string{"organizations"}, scope: "org:read", missing: orgNotFound}
	if slug := parseSettings(c.Settings).Organization; slug != "" {
		a.path, a.query = append(a.path, slug), url.Values{"detailed": {"0"}}
		_, err = send(ctx, c, a, &org)
		return org, err
	}
	var all []orgInfo
	if _, err = send(ctx, c, a, &all); err != nil {
		return org, err
	}
	switch len(all) {
	case 1:
		return all[0], nil
	case 0:
		return org, refuse("no_organization", "The credential reaches no organization; make one that has the scope org:read.")
	}
	var slugs []string
	for _, o := range all[:min(10, len(all))] {
		slugs = append(slugs, sources.Printable(o.Slug, 60))
	}
	return org, refuse("several_organizations", "The credential reaches several organizations ("+strings.Join(slugs, ", ")+"); name one as organization in the settings of the connection.")
}

// accountID qualifies an organization ID with the server, because self-hosted
// servers number organizations from 1.
func accountID(c *sources.Conn, id string) string {
	base := c.HTTP.Base()
	if base.Hostname() == "sentry.io" || strings.HasSuffix(base.Hostname(), ".sentry.io") {
		return id
	}
	return base.Host + strings.TrimSuffix(base.Path, "/") + "#" + id
}

// maxFormPages bounds the options in forms, in pages of 100.
const maxFormPages = 5

// metadata returns projects, environments and levels for forms. With the slug
// of a project, environments are those of the project.
func metadata(ctx context.Context, c *sources.Conn, q url.Values) (any, error) {
	org, err := organization(c, q.Get("organization"))
	if err != nil {
		return nil, err
	}
	missing := "There is no such organization or project that this connection sees; check the settings of the connection and the project."
	projects, err := listAll(ctx, c, request{path: []string{"organizations", org, "projects"}, scope: "project:read", missing: missing})
	if err != nil {
		return nil, err
	}
	a := request{path: []string{"organizations", org, "environments"}, scope: "project:read", missing: missing}
	if p := q.Get("project"); p != "" {
		a.path = []string{"projects", org, p, "environments"}
	}
	environments, err := listAll(ctx, c, a)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"projects": projects, "environments": environments,
		"levels": []string{"fatal", "error", "warning", "info", "debug"},
	}, nil
}

// listAll returns the ID, slug and name of each element of a list.
func listAll(ctx context.Context, c *sources.Conn, a request) ([]object, error) {
	all := []object{}
	a.query = url.Values{"per_page": {"100"}}
	for range maxFormPages {
		var page []object
		h, err := send(ctx, c, a, &page)
		if err != nil {
			return nil, err
		}
		for _, o := range page {
			all = append(all, pick(o, "id", "slug", "name"))
		}
		cursor := nextCursor(h)
		if cursor == "" {
			break
		}
		a.query.Set("cursor", cursor)
	}
	return all, nil
}
