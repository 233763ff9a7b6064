package sources

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sallyport/action"
)

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
				p.addAmbiguous(i.name, as)
			}
			at[as] = sourceRef{f.connector.Source(), i.name}
			list = append(list, f.offering(i, member, as))
		}
	}
	return list, at
}

// addAmbiguous records a qualified form of a URI. A resource and a template of
// one source can share it.
func (p *routes) addAmbiguous(uri, form string) {
	if !slices.Contains(p.ambiguous[uri], form) {
		p.ambiguous[uri] = append(p.ambiguous[uri], form)
	}
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
