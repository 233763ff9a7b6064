package mcpserver

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
)

// offers is what sessions that see the same can read and get beside tools,
// encoded once. It does not change after it was made.
type offers struct {
	resourcesVersion string
	promptsVersion   string

	resources pages
	templates pages
	prompts   pages
	can       offered
}

// offered is what clients are told that there is.
type offered struct {
	resources, changes, subscribe, prompts, completions, logging bool

	tasks bool // in the stateless era alone
}

// newOffers encodes what is offered to sessions of a type. The gateway's own
// resources and prompts win a clash.
func newOffers(o *action.Offerings, own *ownOffers, t action.SessionType) *offers {
	return &offers{
		resourcesVersion: o.ResourcesVersion, promptsVersion: o.PromptsVersion + "/" + string(t),
		resources: newPages(over(definitionsOf(o.Resources), own.resources)),
		templates: newPages(over(definitionsOf(o.Templates), own.templates)),
		prompts:   newPages(over(over(definitionsOf(o.Prompts), own.nothing), own.prompts[t])),
		can:       offeredOf(o),
	}
}

func over(list, own map[string][]byte) map[string][]byte {
	for name, definition := range own {
		if definition == nil {
			delete(list, name)
			continue
		}
		list[name] = definition
	}
	return list
}

func offeredOf(o *action.Offerings) offered {
	return offered{
		resources: true, changes: o.Reads, subscribe: o.Subscribes,
		prompts: true, completions: o.Completes, logging: o.Logs,
	}
}

func definitionsOf(list []action.Offering) map[string][]byte {
	definitions := make(map[string][]byte, len(list)+1)
	for i := range list {
		if o := &list[i]; o.As != "" && len(o.Definition) > 0 {
			definitions[o.As] = o.Definition
		}
	}
	return definitions
}

// offersKey is what makes two sessions of an organization be offered the same.
func offersKey(o *action.Offerings, t action.SessionType) string {
	return fmt.Sprintf("%s\n%s\n%s\n%v", o.ResourcesVersion, o.PromptsVersion, t, offeredOf(o))
}

// offers returns what is offered now to the sessions of the view.
func (w *view) offers(ctx context.Context, gate Gate, s *action.Session) (*offers, error) {
	now, err := gate.Offerings(ctx, s)
	if err != nil {
		return nil, err
	}
	key := offersKey(now, w.key.kind)
	made := w.all.offers.of(w.key.organization, key, func() *offers { return newOffers(now, &w.all.beside, w.key.kind) })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.offered = made // kept, so that the next one need not encode it again
	w.announceLocked(kindResources, made.resourcesVersion)
	w.announceLocked(kindPrompts, made.promptsVersion)
	return made, nil
}

// offersOf returns what the session is told that there is. Where that cannot be
// known just now, it is what it was.
func (s *Server) offersOf(ctx context.Context, v *view, who *action.Session) *offers {
	o, err := v.offers(ctx, s.cfg.Gate, who)
	if err == nil {
		return o
	}
	s.cfg.Log.Warn("asking what there is beside tools", "session", who.ID, "error", err)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.offered != nil {
		return v.offered
	}
	return &offers{can: offered{resources: true, prompts: true}}
}

// forSDK returns it as the SDK has it.
func (o offered) forSDK() *mcp.ServerCapabilities {
	c := &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}}
	if o.resources {
		c.Resources = &mcp.ResourceCapabilities{Subscribe: o.subscribe, ListChanged: o.changes}
	}
	if o.prompts {
		c.Prompts = &mcp.PromptCapabilities{ListChanged: true}
	}
	if o.tasks {
		c.AddExtension(tasksExtension, nil)
	}
	c.Completions = ifSo[mcp.CompletionCapabilities](o.completions)
	c.Logging = ifSo[mcp.LoggingCapabilities](o.logging) //nolint:staticcheck // deprecated in the other era
	return c
}

// look makes the lists of a view anew, as far as somebody knows of them, so
// that whoever sees one that changed is told, and nobody is told any more of
// what he may not read.
func (s *Server) look(ctx context.Context, v *view, who *action.Session, known versions, all []watched) {
	ctx, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	if known[kindTools] != "" || len(all) > 0 {
		list, err := v.current(ctx, s.cfg.Gate, who, s.cfg.Now())
		if err != nil {
			s.cfg.Log.Warn("comparing tool lists", "organization", v.key.organization, "error", err)
		} else {
			s.unwatchDenied(list, all)
		}
	}
	if known[kindResources] != "" || known[kindPrompts] != "" {
		if _, err := v.offers(ctx, s.cfg.Gate, who); err != nil {
			s.cfg.Log.Warn("comparing lists of resources and prompts", "organization", v.key.organization, "error", err)
		}
	}
}

// versionsNow returns the versions of all lists of a view, which its streams
// are told of from now on; o has some of them.
func (s *Server) versionsNow(ctx context.Context, v *view, who *action.Session, o *offers) versions {
	within, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	now := versions{kindResources: o.resourcesVersion, kindPrompts: o.promptsVersion}
	list, err := v.current(within, s.cfg.Gate, who, s.cfg.Now())
	if err != nil {
		s.cfg.Log.Warn("looking at the tools for an event stream", "session", who.ID, "error", err)
		return now
	}
	now[kindTools] = list.told
	return now
}
