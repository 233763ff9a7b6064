package sources

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sallyport/action"
)

// listed finds what a source listed. What several did is nobody's: the error
// says how to name either.
func (p *places) listed(uri string) (at place, ok bool, err error) {
	if at, ok = p.resources[uri]; ok {
		return at, true, nil
	}
	if forms := p.shared[uri]; forms != nil {
		return place{}, true, ambiguous(uri, forms)
	}
	at, ok = p.templates[uri]
	return at, ok, nil
}

// meant finds the source of a URI that nobody listed.
func (p *places) meant(uri string) (at place, ok bool, err error) {
	if slug, plain, ok := unqualify(uri); ok {
		i := slices.IndexFunc(p.readers, func(r *reader) bool { return r.slug == slug })
		if i < 0 {
			return place{}, false, nil
		}
		return place{p.readers[i].source, plain}, true, nil
	}
	var forms []string
	a := newAddress(uri)
	for _, r := range p.readers {
		if r.may(a) {
			at, forms = place{r.source, uri}, append(forms, qualified(r.slug, uri))
		}
	}
	switch scheme, _, _ := strings.Cut(uri, ":"); {
	case len(forms) == 1:
		return at, true, nil
	case len(forms) > 1:
		return place{}, false, ambiguous(uri, forms)
	case len(p.readers) != 1 || strings.EqualFold(scheme, ownScheme):
		return place{}, false, nil
	}
	return place{p.readers[0].source, uri}, true, nil
}

// may reports whether the source has a template for the URI.
func (r *reader) may(a *address) bool {
	return slices.ContainsFunc(r.templates, func(t *item) bool { return t.pattern.matches(a) })
}

// maxForms are told of a URI that several sources may have.
const maxForms = 5

// ambiguous says that a URI may be one of several sources'. Whoever came first,
// or is asked first, would otherwise decide what agents read in place of
// another's.
func ambiguous(uri string, forms []string) error {
	var list []string
	for _, form := range forms[:min(len(forms), maxForms)] {
		list = append(list, strconv.Quote(form))
	}
	if more := len(forms) - maxForms; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return action.NewError("ambiguous_resource", show(uri), strings.Join(list, ", ")).WithField("/uri")
}
