package sources

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"sallyport/action"
)

// place is a resource, template or prompt: its source, and its name there.
type place struct{ source, name string }

// places tells whose resources and prompts agents mean.
type places struct {
	resources map[string]place // by what agents see
	templates map[string]place
	prompts   map[string]place
	readers   []*reader // the sources that have resources, the oldest first
}

// reader is a source that has resources.
type reader struct {
	source, slug string
	templates    []*item
}

// listed finds what a source listed.
func (p *places) listed(uri string) (place, bool) {
	if at, ok := p.resources[uri]; ok {
		return at, true
	}
	at, ok := p.templates[uri]
	return at, ok
}

// meant finds the source of a URI that nobody listed.
func (p *places) meant(uri string) (place, bool) {
	if slug, plain, ok := unqualify(uri); ok {
		i := slices.IndexFunc(p.readers, func(r *reader) bool { return r.slug == slug })
		if i < 0 {
			return place{}, false
		}
		return place{p.readers[i].source, plain}, true
	}
	for _, r := range p.readers {
		for _, t := range r.templates {
			if t.pattern.matches(uri) {
				return place{r.source, uri}, true
			}
		}
	}
	if scheme, _, _ := strings.Cut(uri, ":"); len(p.readers) != 1 || strings.EqualFold(scheme, ownScheme) {
		return place{}, false
	}
	return place{p.readers[0].source, uri}, true
}

// besideLocked builds what the organization's sources offer beside actions, or
// takes over what was built before when nothing of it changed.
func (t *tenant) besideLocked(before *view) (*action.Offerings, *places) {
	feeds := make([]*feed, 0, len(t.feeds))
	for _, f := range t.feeds {
		feeds = append(feeds, f)
	}
	slices.SortFunc(feeds, func(a, b *feed) int {
		return cmp.Or(a.connector.CreatedAt.Compare(b.connector.CreatedAt), strings.Compare(a.connector.ID, b.connector.ID))
	})
	resources, prompts := t.marks(feeds)
	if old := before.offerings; old.ResourcesVersion == resources && old.PromptsVersion == prompts {
		return old, before.places
	}
	o := &action.Offerings{ResourcesVersion: resources, PromptsVersion: prompts}
	p := &places{resources: map[string]place{}, templates: map[string]place{}}
	for _, f := range feeds {
		can := f.offer.can
		o.Logs = o.Logs || can.Logging
		o.Completes = o.Completes || can.Completions
		o.Gets = o.Gets || can.Prompts
		if !can.Resources {
			continue
		}
		o.Reads, o.Subscribes = true, o.Subscribes || can.Subscribe
		p.readers = append(p.readers, &reader{f.connector.Source(), f.connector.Slug, f.offer.templates.items})
		o.Resources = f.shelve(o.Resources, f.offer.resources.items, "uri", p.resources)
		o.Templates = f.shelve(o.Templates, f.offer.templates.items, "uriTemplate", p.templates)
	}
	o.Prompts, p.prompts = prompted(feeds)
	for _, list := range [][]action.Offering{o.Resources, o.Templates, o.Prompts} {
		slices.SortFunc(list, func(a, b action.Offering) int { return strings.Compare(a.As, b.As) })
	}
	return o, p
}

// marks are the versions of what the feeds offer.
func (t *tenant) marks(feeds []*feed) (resources, prompts string) {
	r, p := sha256.New(), sha256.New()
	fmt.Fprintln(r, t.told[toldResources])
	fmt.Fprintln(p, t.told[toldPrompts])
	for _, f := range feeds {
		con, o := f.connector, f.offer
		who := fmt.Sprintf("%q %q %q %d", con.ID, con.Name, con.Slug, con.CreatedAt.UnixNano())
		fmt.Fprintln(r, who, o.can, o.resources.digest, o.templates.digest)
		fmt.Fprintln(p, who, o.can, o.prompts.digest)
	}
	return hex.EncodeToString(r.Sum(nil)[:16]), hex.EncodeToString(p.Sum(nil)[:16])
}

// shelve adds items that are told apart by URIs. A URI stays as it is, because
// results of tools name it too, unless an older source has the same.
func (f *feed) shelve(list []action.Offering, items []*item, member string, taken map[string]place) []action.Offering {
	for _, i := range items {
		as := i.name
		if _, ok := taken[as]; ok {
			as = qualified(f.connector.Slug, as)
		}
		taken[as] = place{f.connector.Source(), i.name}
		list = append(list, f.offering(i, member, as))
	}
	return list
}

func (f *feed) offering(i *item, member, as string) action.Offering {
	definition := i.raw
	if as != i.name {
		definition = replaced(i.raw, member, as)
	}
	return action.Offering{Source: f.connector.Source(), SourceName: f.connector.Name, Name: i.name, As: as, Definition: definition}
}

// prompted names the prompts.
func prompted(feeds []*feed) (list []action.Offering, at map[string]place) {
	var origins []origin
	var from []*feed
	var items []*item
	for _, f := range feeds {
		if !f.offer.can.Prompts {
			continue
		}
		for _, i := range f.offer.prompts.items {
			origins = append(origins, origin{
				created: f.connector.CreatedAt, source: f.connector.Source(), slug: f.connector.Slug, name: i.name, prompt: true,
			})
			from, items = append(from, f), append(items, i)
		}
	}
	at = make(map[string]place, len(items))
	for n, as := range names(origins, nil) {
		o := from[n].offering(items[n], "name", as)
		list, at[as] = append(list, o), place{o.Source, o.Name}
	}
	return list, at
}
