package mcpserver

import (
	"context"
	"encoding/json"
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
}

// newOffers encodes what is offered. The gateway's own resource wins a clash.
func newOffers(o *action.Offerings, own map[string][]byte) *offers {
	resources := definitionsOf(o.Resources)
	for uri, definition := range own {
		resources[uri] = definition
	}
	return &offers{
		resourcesVersion: o.ResourcesVersion, promptsVersion: o.PromptsVersion,
		resources: newPages(resources), templates: newPages(definitionsOf(o.Templates)), prompts: newPages(definitionsOf(o.Prompts)),
		can: offeredOf(o, len(own) > 0),
	}
}

func offeredOf(o *action.Offerings, own bool) offered {
	return offered{
		resources: o.Reads || own, changes: o.Reads, subscribe: o.Subscribes,
		prompts: o.Gets, completions: o.Completes, logging: o.Logs,
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
func offersKey(o *action.Offerings, own bool) string {
	return fmt.Sprintf("%s\n%s\n%v", o.ResourcesVersion, o.PromptsVersion, offeredOf(o, own))
}

// offers returns what is offered now to the sessions of the view.
func (w *view) offers(ctx context.Context, gate Gate, s *action.Session) (*offers, error) {
	now, err := gate.Offerings(ctx, s)
	if err != nil {
		return nil, err
	}
	key := offersKey(now, len(w.all.resources) > 0)
	made := w.all.offers.of(w.key.organization, key, func() *offers { return newOffers(now, w.all.resources) })
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
	return &offers{can: offered{resources: len(s.views.resources) > 0}}
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
	c.Completions = ifSo[mcp.CompletionCapabilities](o.completions)
	c.Logging = ifSo[mcp.LoggingCapabilities](o.logging) //nolint:staticcheck // deprecated in the other era
	return c
}

// ownResources are the definitions of the gateway's own, by URI.
func ownResources(snapshot bool) map[string][]byte {
	if !snapshot {
		return nil
	}
	definition, _ := json.Marshal(&mcp.Resource{ // strings always encode
		URI: capabilitiesURI, Name: "capabilities", Title: "What this session may do", MIMEType: capabilitiesType,
		Description: "Every service and every action behind this gateway, with what policy says of it for this session: allow, require_approval or deny, and why. " +
			"Read it before you plan work that needs an action which you do not see among the tools. Descriptions in it are the services' own words.",
	})
	return map[string][]byte{capabilitiesURI: definition}
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
	now[kindTools] = list.version
	return now
}
