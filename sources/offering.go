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

// Limits on resources, templates and prompts of a source.
const (
	maxResources     = 2_000
	maxTemplates     = 500
	maxPrompts       = 2_000
	maxOfferingBytes = 64 << 10
	maxURIBytes      = 2 << 10
	maxPromptName    = 256
)

// platformScheme is the URI scheme of the gateway's own resources.
const platformScheme = "sallyport"

// item is a resource, a template or a prompt of a source: the part of an
// [action.Offering] that does not depend on other sources.
type item struct {
	raw     json.RawMessage
	name    string            // URI, URI template or name at the source
	digest  [sha256.Size]byte // of raw
	pattern template          // of a template
}

// offerings are the resources, templates and prompts of a source.
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

// itemKind describes one kind of item: its label, the member of its definition
// that names it, and its limits.
type itemKind struct {
	label, member string
	limit         int
	check         func(i *item) error
}

// compileOfferings compiles the listed resources, templates and prompts. Items
// whose bytes did not change are reused.
func compileOfferings(l Listing, before offerings) (o offerings, warnings []string) {
	o.capabilities = l.Capabilities
	for _, s := range []struct {
		kind itemKind
		raw  []json.RawMessage
		old  itemList
		new  *itemList
		gone bool // it could not be listed
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

// compile reads the name of an item. The error says why the item is left out.
func (w itemKind) compile(i *item) error {
	if len(i.raw) > maxOfferingBytes {
		return fmt.Errorf("its definition is larger than %d KiB", maxOfferingBytes>>10)
	}
	members, ok := Members(i.raw)
	if !ok {
		return errors.New("it is not an object")
	}
	i.name = stringMember(i.raw, members, w.member)
	if i.name == "" {
		return fmt.Errorf("it has no %s", w.member)
	}
	// Reject duplicate object keys: parsers disagree about them, and would
	// see different items.
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
		return errors.New("its URI does not start with a scheme such as https")
	}
	return checkScheme(u.Scheme)
}

// checkScheme rejects URI schemes that are reserved for the gateway.
func checkScheme(scheme string) error {
	scheme = strings.ToLower(scheme)
	if scheme == platformScheme {
		return fmt.Errorf("the scheme %s: is reserved for the gateway", platformScheme)
	}
	if _, _, ok := unqualify(scheme + ":"); ok {
		return fmt.Errorf("a scheme such as %s: is reserved for the gateway", quote(scheme))
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
		return errors.New("its URI template does not start with a scheme such as https:, so its URIs cannot be routed")
	}
	return checkScheme(u.Scheme)
}

// checkPrompt accepts any name that a person can have chosen.
func checkPrompt(i *item) error {
	switch {
	case len(i.name) > maxPromptName:
		return fmt.Errorf("its name is longer than %d bytes", maxPromptName)
	case !utf8.ValidString(i.name) || strings.ContainsFunc(i.name, unicode.IsControl):
		return errors.New("its name has control characters")
	}
	return nil
}

// qualified returns the URI of one source's resource if other sources list the
// same URI.
func qualified(slug, uri string) string { return "mcp-" + slug + "+" + uri }

// unqualify is the inverse of qualified.
func unqualify(uri string) (slug, plain string, ok bool) {
	rest, ok := strings.CutPrefix(uri, "mcp-")
	if !ok {
		return "", "", false
	}
	slug, plain, ok = strings.Cut(rest, "+")
	return slug, plain, ok && strings.Trim(slug, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
