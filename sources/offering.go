package sources

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"sallyport/action"
	"sallyport/internal/canonical"
)

// Bounds of what a source offers beside tools.
const (
	maxResources     = 2_000
	maxTemplates     = 500
	maxPrompts       = 2_000
	maxOfferingBytes = 64 << 10
	maxURIBytes      = 2 << 10
	maxPromptName    = 256
)

// platformScheme is of the gateway's own resources.
const platformScheme = "sallyport"

// item is a resource, a template or a prompt of a source: all of an
// [action.Offering] that does not depend on the other sources.
type item struct {
	raw     json.RawMessage
	name    string            // its URI, URI template or name there
	digest  [sha256.Size]byte // of raw
	pattern template          // of a template
}

// offerings is what a source has beside tools.
type offerings struct {
	capabilities Capabilities
	resources    itemList
	templates    itemList
	prompts      itemList
}

// itemList holds the items of one kind.
type itemList struct {
	items  []*item
	digest [sha256.Size]byte // of the items
}

// itemKind is a kind of item: how one is called, where its definition names it, and
// what is kept.
type itemKind struct {
	label, member string
	limit         int
	check         func(i *item) error
}

// compileOfferings compiles what a source listed beside tools. What it listed in
// the same bytes before is taken over as it is.
func compileOfferings(l Listing, before offerings) (o offerings, warnings []string) {
	o.capabilities = l.Capabilities
	for _, s := range []struct {
		kind itemKind
		raw  []json.RawMessage
		old  itemList
		new  *itemList
		gone bool // it could not be had
	}{
		{itemKind{"Resource", "uri", maxResources, checkURI}, l.Resources, before.resources, &o.resources, l.Missing.Resources},
		{itemKind{"Template", "uriTemplate", maxTemplates, checkTemplate}, l.Templates, before.templates, &o.templates, l.Missing.Templates},
		{itemKind{"Prompt", "name", maxPrompts, checkPrompt}, l.Prompts, before.prompts, &o.prompts, l.Missing.Prompts},
	} {
		if s.gone {
			*s.new = s.old
			continue
		}
		var notes []string
		*s.new, notes = s.kind.compileList(s.raw, s.old)
		warnings = append(warnings, notes...)
	}
	return o, warnings
}

// compileList compiles the items of one kind.
func (w itemKind) compileList(list []json.RawMessage, before itemList) (s itemList, warnings []string) {
	known := make(map[[sha256.Size]byte]*item, len(before.items))
	for _, i := range before.items {
		known[i.digest] = i
	}
	h := sha256.New()
	seen := make(map[string]bool, len(list))
	for n, raw := range list {
		if n == w.limit {
			warnings = append(warnings, fmt.Sprintf("%d %ss are listed; only the first %d are used.", len(list), strings.ToLower(w.label), w.limit))
			break
		}
		digest := sha256.Sum256(raw)
		i, ok := known[digest]
		if !ok {
			i = &item{raw: raw, digest: digest}
			if err := w.compile(i); err != nil {
				warnings = append(warnings, fmt.Sprintf("%s %s is left out: %v.", w.label, i.label(n), err))
				continue
			}
		}
		if seen[i.name] {
			warnings = append(warnings, fmt.Sprintf("%s %s is listed more than once; only the first is used.", w.label, i.label(n)))
			continue
		}
		seen[i.name] = true
		s.items = append(s.items, i)
		_, _ = h.Write(digest[:])
	}
	h.Sum(s.digest[:0])
	return s, warnings
}

// compile reads the item's name. The error says why it is left out.
func (w itemKind) compile(i *item) error {
	if len(i.raw) > maxOfferingBytes {
		return fmt.Errorf("its definition is larger than %d KiB", maxOfferingBytes>>10)
	}
	members, ok := Members(i.raw)
	if !ok {
		return errors.New("it is no object")
	}
	i.name = stringMember(i.raw, members, w.member)
	if i.name == "" {
		return fmt.Errorf("it has no %s", w.member)
	}
	// Repeated names in an object are refused here too: different readers would
	// see different things.
	if _, err := canonical.JSON(i.raw); err != nil {
		return errors.New(action.Public(err).Message)
	}
	return w.check(i)
}

func (i *item) label(n int) string {
	if i.name == "" {
		return fmt.Sprintf("number %d", n+1)
	}
	return quote(i.name)
}

func checkURI(i *item) error {
	if len(i.name) > maxURIBytes {
		return fmt.Errorf("its URI is longer than %d KiB", maxURIBytes>>10)
	}
	u, err := url.Parse(i.name)
	if err != nil || u.Scheme == "" {
		return errors.New("its URI does not begin with a scheme, as https: is one")
	}
	return checkScheme(u.Scheme)
}

// checkScheme refuses the schemes that only the gateway gives out.
func checkScheme(scheme string) error {
	scheme = strings.ToLower(scheme)
	if scheme == platformScheme {
		return fmt.Errorf("the scheme %s: is the gateway's own", platformScheme)
	}
	if _, _, ok := unqualify(scheme + ":"); ok {
		return fmt.Errorf("a scheme such as %s: is one that the gateway gives out", quote(scheme))
	}
	return nil
}

func checkTemplate(i *item) (err error) {
	if len(i.name) > maxURIBytes {
		return fmt.Errorf("its URI template is longer than %d KiB", maxURIBytes>>10)
	}
	if i.pattern, err = parseTemplate(i.name); err != nil {
		return err
	}
	u, err := url.Parse(i.pattern.scheme() + ":")
	if err != nil || u.Scheme == "" {
		return errors.New("its URI template does not begin with a scheme such as https:, so nobody could tell whose the URIs are")
	}
	return checkScheme(u.Scheme)
}

// checkPrompt keeps every name that a person could have meant.
func checkPrompt(i *item) error {
	switch {
	case len(i.name) > maxPromptName:
		return fmt.Errorf("its name is longer than %d bytes", maxPromptName)
	case !utf8.ValidString(i.name) || strings.ContainsFunc(i.name, unicode.IsControl):
		return errors.New("its name has control characters")
	}
	return nil
}

// qualified is the URI by which agents reach one source's resource when another
// source lists the same URI, too.
func qualified(slug, uri string) string { return "mcp-" + slug + "+" + uri }

// unqualify is the reverse of qualified.
func unqualify(uri string) (slug, plain string, ok bool) {
	rest, ok := strings.CutPrefix(uri, "mcp-")
	if !ok {
		return "", "", false
	}
	slug, plain, ok = strings.Cut(rest, "+")
	return slug, plain, ok && strings.Trim(slug, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
