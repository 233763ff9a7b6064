package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"sallyport/action"
)

// Resolve returns the action with the given tool name. If the name is unknown
// it waits as List does. ErrNotFound: no source has it. ErrUnavailable: the
// source that can have it never answered.
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

// ResolveResource returns the source of a resource, or of a template given its
// URI template, and its name there. A URI that no source lists belongs to the
// source that its qualified form names, otherwise to the source with a matching
// template, otherwise to the only source with resources. It waits and fails as
// Resolve does. ErrInvalid with code "ambiguous_resource" lists the qualified
// forms of a URI that several sources have.
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

// ResolvePrompt returns the source of a prompt by the name that agents see, and
// its name there. It waits and fails as Resolve does.
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

// lookup searches the current view, and searches again after waiting for the
// sources.
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

// prefixed reports whether the source with the slug can have the name.
func prefixed(slug, name string) bool { return slug == "" || strings.HasPrefix(name, slug+"_") }

// notFound returns a not-found error, or ErrUnavailable if the name can belong
// to a source that never answered. An unreachable source that only possibly has
// it is merely mentioned: it may be down for days, and must not make every
// mistyped name look temporary.
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
				e.Message = fmt.Sprintf("The connector %s cannot be reached, so its %ss are unknown. Tell the user to ask an admin to check it.", quote(f.connector.Name), what)
			}
			return e
		default:
			unreachable = append(unreachable, quote(f.connector.Name))
		}
	}
	e := action.Errorf(action.ErrNotFound, what+"_not_found", "There is no %s %s. List the %ss again.", what, quote(name), what)
	if len(unreachable) > 0 {
		slices.Sort(unreachable)
		e.Message += fmt.Sprintf(" These connectors cannot be reached: %s. An admin can check them.", strings.Join(unreachable, ", "))
	}
	return e
}

// lookupListed finds a listed URI. If several sources list it, the error shows
// their qualified forms.
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

// lookupByTemplate finds the source of an unlisted URI.
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
		if slices.ContainsFunc(r.templates, func(t *item) bool { return t.pattern.matches(a) }) {
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

// maxListed bounds the names listed in an error.
const maxListed = 5

// ambiguousError reports that several sources can have a URI. Picking the first
// would let one source replace what agents read from another.
func ambiguousError(uri string, forms []string) error {
	return action.NewError("ambiguous_resource", quote(uri), joinEach(forms, strconv.Quote)).WithField("/uri")
}

// template is a URI template (RFC 6570), as far as is needed to find the owner
// of a URI. It matches more than the template can produce, never less: a
// variable matches any text that its kind of expression allows, including
// reserved characters that clients leave unescaped.
type template []segment

// maxExpressions bounds the work of matching a template. Adjacent expressions
// of one kind match what one of them matches, and count as one.
const maxExpressions = 16

// segment is literal text, or an expression when op is set.
type segment struct {
	text string // the literal
	op   byte   // of + # . / ; ? & and, for a plain expression, {
}

// parseTemplate parses a template. Its error says why the template cannot be
// used.
func parseTemplate(s string) (t template, err error) {
	expressions := 0
	if strings.ContainsFunc(s, unicode.IsControl) {
		return nil, errors.New("its URI template has control characters")
	}
	for s != "" {
		literal, rest, open := strings.Cut(s, "{")
		if strings.Contains(literal, "}") {
			return nil, errors.New("its URI template has an unmatched }")
		}
		if literal != "" {
			t = append(t, segment{text: literal})
		}
		if !open {
			break
		}
		expression, rest, closed := strings.Cut(rest, "}")
		if !closed || expression == "" || strings.ContainsAny(expression, "{=!@|") {
			return nil, errors.New("its URI template has an invalid expression")
		}
		op := byte('{')
		if strings.IndexByte("+#./;?&", expression[0]) >= 0 {
			op = expression[0]
		}
		s = rest
		if n := len(t); n > 0 && t[n-1].op == op {
			continue
		}
		if expressions++; expressions > maxExpressions {
			return nil, fmt.Errorf("its URI template has more than %d expressions", maxExpressions)
		}
		t = append(t, segment{op: op})
	}
	return t, nil
}

// scheme returns the scheme that all URIs of the template share, or the empty
// string.
func (t template) scheme() string {
	if len(t) > 0 {
		if scheme, _, ok := strings.Cut(t[0].text, ":"); ok {
			return scheme
		}
	}
	return ""
}

// bitset holds positions in a URI: before each of its bytes, and at its end.
type bitset [maxURIBytes/64 + 1]uint64

// uriIndex is a URI prepared for matching against templates. Matching follows
// all candidate positions in parallel, a machine word at a time, so that many
// templates cost little time.
type uriIndex struct {
	size      int
	words     int         // of a bitset that are in use
	all       bitset      // positions of all bytes
	positions [256]bitset // by byte, where it occurs
}

// indexURI returns nil for a URI that exceeds the limit.
func indexURI(uri string) *uriIndex {
	if len(uri) > maxURIBytes {
		return nil
	}
	a := &uriIndex{size: len(uri), words: len(uri)/64 + 1}
	for i := range len(uri) {
		a.all[i/64] |= 1 << (i % 64)
		a.positions[uri[i]][i/64] |= 1 << (i % 64)
	}
	return a
}

// matches reports whether the template can produce the URI. It does not
// allocate.
func (t template) matches(a *uriIndex) bool {
	if a == nil {
		return false
	}
	last := a.size // latest start of the current segment
	for _, p := range t {
		last -= len(p.text)
	}
	if last < 0 {
		return false
	}
	at := bitset{1} // where the segments matched so far can end
	for _, p := range t {
		last += len(p.text)
		words := at[:last/64+1]
		if p.op != 0 {
			a.matchExpression(p.op, words)
		} else if !a.matchLiteral(p.text, words) {
			return false
		}
	}
	return at[a.size/64]>>(a.size%64)&1 == 1
}

// matchLiteral advances the positions past a literal. It reports whether any
// position is left.
func (a *uriIndex) matchLiteral(literal string, at []uint64) bool {
	low := 0 // first word with a position
	for i := range len(literal) {
		is, carry, some := &a.positions[literal[i]], uint64(0), uint64(0)
		for w := low; w < len(at); w++ {
			here := at[w] & is[w]
			at[w], carry = here<<1|carry, here>>63
			if some |= at[w]; some == 0 {
				low = w + 1
			}
		}
		if some == 0 {
			return false
		}
	}
	return true
}

// matchExpression adds every position at which an expression that starts at one
// of the positions can end. It propagates from byte to byte the way the carry
// of an addition does.
func (a *uriIndex) matchExpression(op byte, at []uint64) {
	ends, carry := excludedBytes(op), uint64(0)
	for w := range at {
		holds := a.all[w]
		for i := range len(ends) {
			holds &^= a.positions[ends[i]][w]
		}
		begins := at[w] & holds
		if op != '{' && op != '+' {
			begins &= a.positions[op][w]
		}
		var sum uint64
		sum, carry = bits.Add64(holds, begins, carry)
		at[w] |= sum ^ holds ^ begins
	}
}

// excludedBytes returns the bytes that the value of an expression cannot
// contain. The value starts with the operator, unless that is + or absent.
func excludedBytes(op byte) string {
	switch op {
	case '+', '#':
		return ""
	case '?', '&':
		return "#"
	case '/':
		return "?#"
	}
	return "/?#"
}
