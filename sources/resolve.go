package sources

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sallyport/action"
)

// Resolve returns the action that agents see under a name of a tool. It waits
// as List does when the name is not known yet. ErrNotFound means that no
// source has it, ErrUnavailable that the one which may have it never answered.
func (c *Catalog) Resolve(ctx context.Context, organization, tool string) (a *action.Action, err error) {
	err = c.lookup(ctx, organization, func(v *view) bool {
		if a = v.tools[tool]; a == nil {
			a = v.tools[c.platform.resolveAlias(tool)]
		}
		return a != nil
	})
	if err != nil || a != nil {
		return a, err
	}
	return nil, c.tenant(organization).notFound("tool", tool, func(slug string) (may, sure bool) { return prefixed(slug, tool), slug != "" })
}

// ResolveResource returns whose resource agents mean by a URI, or whose template
// by a URI template, and what it is called there. A URI that no source lists is
// that of the source it names in the form that tells two apart, else of the
// source with a template for it, else of the only source that has resources. It
// waits and fails as Resolve does; ErrInvalid with the code "ambiguous_resource"
// names the forms to use for what several sources list, or have templates for.
func (c *Catalog) ResolveResource(ctx context.Context, organization, uri string) (source, name string, err error) {
	var found sourceRef
	var several error
	err = c.lookup(ctx, organization, func(v *view) (ok bool) {
		found, ok, several = v.routes.lookupListed(uri)
		return ok
	})
	if err = cmp.Or(err, several); err != nil || found.source != "" {
		return found.source, found.name, err
	}
	t := c.tenant(organization)
	found, ok, err := t.view.Load().routes.lookupByTemplate(uri)
	if err != nil || ok {
		return found.source, found.name, err
	}
	slug, _, named := unqualify(uri)
	return "", "", t.notFound("resource", uri, func(s string) (may, sure bool) { return !named || s == slug, named })
}

// ResolvePrompt returns whose prompt agents see under a name, and what it is
// called there. It waits and fails as Resolve does.
func (c *Catalog) ResolvePrompt(ctx context.Context, organization, prompt string) (source, name string, err error) {
	var found sourceRef
	err = c.lookup(ctx, organization, func(v *view) (ok bool) {
		found, ok = v.routes.prompts[prompt]
		return ok
	})
	if err != nil || found.source != "" {
		return found.source, found.name, err
	}
	return "", "", c.tenant(organization).notFound("prompt", prompt, func(slug string) (may, sure bool) { return prefixed(slug, prompt), slug != "" })
}

// lookup looks into what is known, and when that is not enough once more
// after waiting for the sources.
func (c *Catalog) lookup(ctx context.Context, organization string, find func(*view) bool) error {
	t := c.tenant(organization)
	if find(t.view.Load()) {
		return nil
	}
	if _, err := c.view(ctx, organization); err != nil {
		return err
	}
	find(t.view.Load())
	return nil
}

// prefixed tells whether the source with the slug may have what agents see
// under the name.
func prefixed(slug, name string) bool { return slug == "" || strings.HasPrefix(name, slug+"_") }

// notFound says that there is no such thing, or ErrUnavailable when it may be
// one of a source that has never answered. Of what may be any source's, one that
// was asked in vain is only named: it may stay away for days, and must not make
// every mistake of an agent look like a matter of seconds.
func (t *tenant) notFound(what, name string, match func(slug string) (possible, certain bool)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var unreachable []string
	for _, f := range t.feeds {
		possible, certain := match(f.connector.Slug)
		switch {
		case !f.fetchedAt.IsZero() || !possible:
		case certain || f.err == nil:
			e := action.NewError("source_unheard", quote(f.connector.Name), what)
			if e.Err = f.err; f.err != nil {
				e.Message = fmt.Sprintf("The connector %s cannot be reached, so its %ss are not known; tell the user that an admin can look into that.", quote(f.connector.Name), what)
			}
			return e
		default:
			unreachable = append(unreachable, quote(f.connector.Name))
		}
	}
	e := action.Errorf(action.ErrNotFound, what+"_not_found", "There is no %s %s. List the %ss again to see what there is.", what, quote(name), what)
	if len(unreachable) > 0 {
		slices.Sort(unreachable)
		e.Message += fmt.Sprintf(" Nobody could ask %s, which cannot be reached; an admin can look into that.", strings.Join(unreachable, ", "))
	}
	return e
}

// lookupListed finds what a source listed. What several did is nobody's: the error
// says how to name either.
func (p *routes) lookupListed(uri string) (at sourceRef, ok bool, err error) {
	if at, ok = p.resources[uri]; ok {
		return at, true, nil
	}
	if forms := p.ambiguous[uri]; forms != nil {
		return sourceRef{}, true, ambiguousError(uri, forms)
	}
	at, ok = p.templates[uri]
	return at, ok, nil
}

// lookupByTemplate finds the source of a URI that nobody listed.
func (p *routes) lookupByTemplate(uri string) (at sourceRef, ok bool, err error) {
	if slug, plain, ok := unqualify(uri); ok {
		i := slices.IndexFunc(p.resourceSources, func(r *resourceSource) bool { return r.slug == slug })
		if i < 0 {
			return sourceRef{}, false, nil
		}
		return sourceRef{p.resourceSources[i].source, plain}, true, nil
	}
	var forms []string
	a := indexURI(uri)
	for _, r := range p.resourceSources {
		if r.matchesTemplate(a) {
			at, forms = sourceRef{r.source, uri}, append(forms, qualified(r.slug, uri))
		}
	}
	switch scheme, _, _ := strings.Cut(uri, ":"); {
	case len(forms) == 1:
		return at, true, nil
	case len(forms) > 1:
		return sourceRef{}, false, ambiguousError(uri, forms)
	case len(p.resourceSources) != 1 || strings.EqualFold(scheme, platformScheme):
		return sourceRef{}, false, nil
	}
	return sourceRef{p.resourceSources[0].source, uri}, true, nil
}

// matchesTemplate reports whether the source has a template for the URI.
func (r *resourceSource) matchesTemplate(a *uriIndex) bool {
	return slices.ContainsFunc(r.templates, func(t *item) bool { return t.pattern.matches(a) })
}

// maxListed are told of a URI that several sources may have.
const maxListed = 5

// ambiguousError says that a URI may be one of several sources'. Whoever came first,
// or is asked first, would otherwise decide what agents read in place of
// another's.
func ambiguousError(uri string, forms []string) error {
	var list []string
	for _, form := range forms[:min(len(forms), maxListed)] {
		list = append(list, strconv.Quote(form))
	}
	if more := len(forms) - maxListed; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return action.NewError("ambiguous_resource", quote(uri), strings.Join(list, ", ")).WithField("/uri")
}
