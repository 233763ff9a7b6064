package sources

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
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
				warnings = append(warnings, fmt.Sprintf("%s %s is left out: %v.", w.label, label(i.name, n), err))
				continue
			}
		}
		if seen[i.name] {
			warnings = append(warnings, fmt.Sprintf("%s %s is listed more than once; only the first is used.", w.label, label(i.name, n)))
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
	return slug, plain, ok && strings.Trim(slug, slugChars) == ""
}

// sourceRef is a resource, template or prompt: its source, and its name there.
type sourceRef struct{ source, name string }

// routes maps what agents see to sources.
type routes struct {
	resources       map[string]sourceRef // by what agents see
	templates       map[string]sourceRef
	prompts         map[string]sourceRef
	ambiguous       map[string][]string // URIs and templates that several sources list, with their qualified forms
	resourceSources []*resourceSource   // sources that have resources
}

// resourceSource is a source that has resources.
type resourceSource struct {
	source, slug string
	templates    []*item
}

// buildOfferingsLocked builds the resources, templates and prompts of the
// organization, or reuses the previous ones if nothing changed.
func (t *tenant) buildOfferingsLocked(before *view) (*action.Offerings, *routes) {
	feeds := make([]*feed, 0, len(t.feeds))
	for _, f := range t.feeds {
		feeds = append(feeds, f)
	}
	slices.SortFunc(feeds, func(a, b *feed) int {
		return cmp.Or(a.connector.CreatedAt.Compare(b.connector.CreatedAt), strings.Compare(a.connector.ID, b.connector.ID))
	})
	resources, prompts := t.offeringVersions(feeds)
	if old := before.offerings; old.ResourcesVersion == resources && old.PromptsVersion == prompts {
		return old, before.routes
	}
	o := &action.Offerings{ResourcesVersion: resources, PromptsVersion: prompts}
	p := &routes{ambiguous: map[string][]string{}}
	var readers []*feed
	for _, f := range feeds {
		can := f.offerings.capabilities
		o.SupportsLogs = o.SupportsLogs || can.Logging
		o.SupportsCompletion = o.SupportsCompletion || can.Completions
		o.HasPrompts = o.HasPrompts || can.Prompts
		if !can.Resources {
			continue
		}
		o.HasResources, o.SupportsSubscriptions = true, o.SupportsSubscriptions || can.Subscribe
		readers = append(readers, f)
		p.resourceSources = append(p.resourceSources, &resourceSource{f.connector.Source(), f.connector.Slug, f.offerings.templates.items})
	}
	o.Resources, p.resources = p.routeResources(readers, "uri", func(f *feed) []*item { return f.offerings.resources.items })
	o.Templates, p.templates = p.routeResources(readers, "uriTemplate", func(f *feed) []*item { return f.offerings.templates.items })
	o.Prompts, p.prompts = routePrompts(feeds, t.ReservedPrompts)
	for _, list := range [][]action.Offering{o.Resources, o.Templates, o.Prompts} {
		slices.SortFunc(list, func(a, b action.Offering) int { return strings.Compare(a.AgentName, b.AgentName) })
	}
	return o, p
}

// offeringVersions returns the versions of what the feeds offer.
func (t *tenant) offeringVersions(feeds []*feed) (resources, prompts string) {
	r, p := sha256.New(), sha256.New()
	fmt.Fprintln(r, t.changes[changedResources])
	fmt.Fprintln(p, t.changes[changedPrompts])
	for _, f := range feeds {
		con, o := f.connector, f.offerings
		who := fmt.Sprintf("%q %q %q %d", con.ID, con.Name, con.Slug, con.CreatedAt.UnixNano())
		fmt.Fprintln(r, who, o.capabilities, o.resources.digest, o.templates.digest)
		fmt.Fprintln(p, who, o.capabilities, o.prompts.digest)
	}
	return hex.EncodeToString(r.Sum(nil)[:16]), hex.EncodeToString(p.Sum(nil)[:16])
}

// routeResources assigns URIs to the resources or templates of all sources. A
// URI stays unchanged, because tool results refer to it, unless several sources
// list it: then only qualified forms work, since otherwise an older source
// could replace what agents read from another.
func (p *routes) routeResources(feeds []*feed, member string, items func(*feed) []*item) (list []action.Offering, at map[string]sourceRef) {
	owners := map[string]int{}
	for _, f := range feeds {
		for _, i := range items(f) {
			owners[i.name]++
		}
	}
	at = make(map[string]sourceRef, len(owners))
	for _, f := range feeds {
		for _, i := range items(f) {
			as := i.name
			if owners[as] > 1 {
				as = qualified(f.connector.Slug, i.name)
				if !slices.Contains(p.ambiguous[i.name], as) { // a resource and a template of one source can share it
					p.ambiguous[i.name] = append(p.ambiguous[i.name], as)
				}
			}
			at[as] = sourceRef{f.connector.Source(), i.name}
			list = append(list, f.offering(i, member, as))
		}
	}
	return list, at
}

func (f *feed) offering(i *item, member, as string) action.Offering {
	definition := i.raw
	if as != i.name {
		definition = replaceMember(i.raw, member, as)
	}
	return action.Offering{Source: f.connector.Source(), SourceName: f.connector.Name, Name: i.name, AgentName: as, Definition: definition}
}

// routePrompts assigns names to the prompts.
func routePrompts(feeds []*feed, reserved []string) (list []action.Offering, at map[string]sourceRef) {
	var origins []nameRequest
	var from []*feed
	var items []*item
	for _, f := range feeds {
		if !f.offerings.capabilities.Prompts {
			continue
		}
		for _, i := range f.offerings.prompts.items {
			origins = append(origins, nameRequest{
				created: f.connector.CreatedAt, source: f.connector.Source(), slug: f.connector.Slug, name: i.name, prompt: true,
			})
			from, items = append(from, f), append(items, i)
		}
	}
	at = make(map[string]sourceRef, len(items))
	for n, as := range names(origins, reserved) {
		o := from[n].offering(items[n], "name", as)
		list, at[as] = append(list, o), sourceRef{o.Source, o.Name}
	}
	return list, at
}

// Params of the read and get actions, with the names at the source.
const (
	readSchemaText = `{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"]}`
	getSchemaText  = `{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object","additionalProperties":{"type":"string"}}},"required":["name"]}`
)

// resourceActions returns the actions that read the source's resources and get
// its prompts. They are the gateway's own code, which no server can change, so
// that there is nothing to review.
func (f *feed) resourceActions() (list []*action.Action) {
	if f.source == nil {
		return nil
	}
	con, can := f.connector, f.offerings.capabilities
	if can.Resources {
		a := f.builtinAction(action.ActionRead, readSchemaText, f.tenant.readParams, "uri")
		a.Title, a.Description = "Read a resource of "+con.Name, "Reads a resource of the connector "+con.Name+" by its URI."
		if can.Subscribe {
			a.Subscribe = f.source.Subscribe
		}
		list = append(list, a)
	}
	if can.Prompts {
		a := f.builtinAction(action.ActionPrompt, getSchemaText, f.tenant.getParams, "name")
		a.Title, a.Description = "Get a prompt of "+con.Name, "Gets a prompt of the connector "+con.Name+" by its name, filled in with arguments."
		list = append(list, a)
	}
	return list
}

// builtinAction returns an action that is not a tool.
func (f *feed) builtinAction(name, schema string, c *checker, says string) *action.Action {
	con := f.connector
	sum := sha256.Sum256([]byte(name + "\n" + schema))
	a := &action.Action{
		Source: con.Source(), SourceName: con.Name, Name: name,
		Risk:        effectiveRisk(con.Risks[name], action.RiskRead, ""),
		InputSchema: json.RawMessage(schema),
		Hash:        hex.EncodeToString(sum[:]),
		Revision:    f.revision(),
		Check:       c.Check,
		Summarize: func(params json.RawMessage) string {
			members, _ := Members(params)
			return stringMember(params, members, says)
		},
		Run: func(ctx context.Context, params json.RawMessage, caller action.Caller) (action.Result, error) {
			return f.source.Do(ctx, name, params, caller)
		},
	}
	a.MayAsk, a.Timeout = f.askLimits()
	if f.offerings.capabilities.Completions {
		a.Complete = func(ctx context.Context, params json.RawMessage) (action.Result, error) {
			return f.source.Do(ctx, "completion/complete", params, nil)
		}
	}
	return a
}
