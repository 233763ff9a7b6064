package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
	"sallyport/internal/jsonlex"
	"sallyport/mcpserver/wire"
)

// offerings are the resources and prompts of sessions with the same view, encoded
// once. Immutable.
type offerings struct {
	resourcesVersion string
	promptsVersion   string

	resources pages
	templates pages
	prompts   pages
	features  serverFeatures
}

// serverFeatures are the capabilities that clients are told.
type serverFeatures struct {
	resources, resourceChanges, subscribe, prompts, completions, logging bool

	tasks bool // stateless only
}

// newOfferings encodes what sessions of a type are offered. Built-in resources and
// prompts win name clashes.
func newOfferings(o *action.Offerings, own *builtinOfferings, t action.SessionType) *offerings {
	return &offerings{
		resourcesVersion: o.ResourcesVersion, promptsVersion: o.PromptsVersion + "/" + string(t),
		resources: newPages(overlay(definitionsOf(o.Resources), own.resources)),
		templates: newPages(overlay(definitionsOf(o.Templates), own.templates)),
		prompts:   newPages(overlay(overlay(definitionsOf(o.Prompts), own.reserved), own.prompts[t])),
		features:  serverFeaturesOf(o),
	}
}

func overlay(list, own map[string][]byte) map[string][]byte {
	for name, definition := range own {
		if definition == nil {
			delete(list, name)
			continue
		}
		list[name] = definition
	}
	return list
}

func serverFeaturesOf(o *action.Offerings) serverFeatures {
	return serverFeatures{
		resources: true, resourceChanges: o.HasResources, subscribe: o.SupportsSubscriptions,
		prompts: true, completions: o.SupportsCompletion, logging: o.SupportsLogs,
	}
}

func definitionsOf(list []action.Offering) map[string][]byte {
	definitions := make(map[string][]byte, len(list)+1)
	for i := range list {
		if o := &list[i]; o.AgentName != "" && len(o.Definition) > 0 {
			definitions[o.AgentName] = o.Definition
		}
	}
	return definitions
}

// offerings returns the current offerings of the view's sessions.
func (w *view) offerings(ctx context.Context, gate Gate, s *action.Session) (*offerings, error) {
	now, err := gate.Offerings(ctx, s)
	if err != nil {
		return nil, err
	}
	key := fmt.Sprintf("%s\n%s\n%s\n%v", now.ResourcesVersion, now.PromptsVersion, w.key.sessionType, serverFeaturesOf(now))
	made := w.all.offerings.of(w.key.organization, key, func() *offerings { return newOfferings(now, &w.all.builtinOfferings, w.key.sessionType) })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastOfferings = made // kept alive, so that it need not be encoded again
	w.announceLocked(kindResources, made.resourcesVersion)
	w.announceLocked(kindPrompts, made.promptsVersion)
	return made, nil
}

// currentOfferings returns the current offerings, or the last known ones on an
// error.
func (s *Server) currentOfferings(ctx context.Context, v *view, who *action.Session) *offerings {
	o, err := v.offerings(ctx, s.cfg.Gate, who)
	if err == nil {
		return o
	}
	s.cfg.Log.Warn("resources and prompts could not be listed", "session", who.ID, "error", err)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lastOfferings != nil {
		return v.lastOfferings
	}
	return &offerings{features: serverFeatures{resources: true, prompts: true}}
}

// forSDK converts the features to the SDK's type.
func (o serverFeatures) forSDK() *mcp.ServerCapabilities {
	c := &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}}
	if o.resources {
		c.Resources = &mcp.ResourceCapabilities{Subscribe: o.subscribe, ListChanged: o.resourceChanges}
	}
	if o.prompts {
		c.Prompts = &mcp.PromptCapabilities{ListChanged: true}
	}
	if o.tasks {
		c.AddExtension(tasksExtension, nil)
	}
	if o.completions {
		c.Completions = &mcp.CompletionCapabilities{}
	}
	if o.logging {
		c.Logging = &mcp.LoggingCapabilities{} //nolint:staticcheck // deprecated since the stateless protocol, and in use
	}
	return c
}

// refreshView rebuilds the lists of a view that clients know, so that streams are
// notified of changes, and drops subscriptions that are no longer allowed.
func (s *Server) refreshView(ctx context.Context, v *view, who *action.Session, known versions, all []subscribedResource) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if known[kindTools] != "" || len(all) > 0 {
		list, err := v.current(ctx, s.cfg.Gate, who, s.cfg.Now())
		if err != nil {
			s.cfg.Log.Warn("tools could not be listed again after a change", "organization", v.key.organization, "error", err)
		} else {
			s.removeDenied(list, all)
		}
	}
	if known[kindResources] != "" || known[kindPrompts] != "" {
		if _, err := v.offerings(ctx, s.cfg.Gate, who); err != nil {
			s.cfg.Log.Warn("resources and prompts could not be listed again after a change", "organization", v.key.organization, "error", err)
		}
	}
}

// currentVersions returns the versions of all lists of a view, from which on its
// streams are notified.
func (s *Server) currentVersions(ctx context.Context, v *view, who *action.Session, o *offerings) versions {
	within, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	now := versions{kindResources: o.resourcesVersion, kindPrompts: o.promptsVersion}
	list, err := v.current(within, s.cfg.Gate, who, s.cfg.Now())
	if err != nil {
		s.cfg.Log.Warn("tools could not be listed for an event stream", "session", who.ID, "error", err)
		return now
	}
	now[kindTools] = list.announcedVersion
	return now
}

// Reading a resource and getting a prompt of a source are calls of the Gate, like tool
// calls.

// isTool reports whether an invocation is a tool call.
func isTool(inv *action.Invocation) bool {
	return inv.Action != action.ActionRead && inv.Action != action.ActionPrompt
}

// findResource resolves the resource of resources/read.
func (s *Server) findResource(x *exchange, p *params) (t tool, arguments []byte, bad *wire.Response) {
	if p.uri == "" {
		return t, nil, errorResponse(missingURI())
	}
	source, name, err := s.cfg.Resolver.ResolveResource(x.r.Context(), &x.who, p.uri)
	if err != nil {
		if kind, ok := action.RefusalOf(err); ok {
			s.cfg.Gate.CountRefusal(&x.who, kind, "", p.uri)
		}
		m := s.resourceError(x, p.uri, err)
		return t, nil, &m
	}
	return tool{source: source, action: action.ActionRead}, append(jsonlex.Quote([]byte(`{"uri":`), name), '}'), nil
}

// findPrompt resolves the prompt of prompts/get.
func (s *Server) findPrompt(x *exchange, p *params) (t tool, arguments []byte, bad *wire.Response) {
	if p.name == "" {
		return t, nil, errorResponse(wire.InvalidParams("The name of the prompt is missing; prompts/list has the prompts of this session."))
	}
	if p.arguments != nil && !wire.IsObject(p.arguments) {
		return t, nil, errorResponse(wire.InvalidParams("arguments must be an object of strings."))
	}
	source, name, err := s.cfg.Resolver.ResolvePrompt(x.r.Context(), &x.who, p.name)
	switch {
	case errors.Is(err, action.ErrNotFound):
		s.cfg.Gate.CountRefusal(&x.who, action.RefusedUnknown, "", p.name)
		return t, nil, errorResponse(promptNotFound(p.name))
	case err != nil:
		m := s.offeringError(err)
		return t, nil, &m
	}
	b := jsonlex.Quote([]byte(`{"name":`), name)
	if p.arguments != nil {
		b = append(append(b, `,"arguments":`...), p.arguments...)
	}
	return tool{source: source, action: action.ActionPrompt}, append(b, '}'), nil
}

// complete answers completion/complete. The source gets the params with its own name
// for the prompt or resource, without _meta.
func (s *Server) complete(x *exchange) {
	if s.calls.draining() {
		s.sendDraining(x.w)
		return
	}
	source, beside, params, bad := s.completion(x)
	if bad != nil {
		x.send(*bad)
		return
	}
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	answer, err := s.cfg.Gate.Complete(ctx, &x.who, source, beside, params)
	switch {
	case err != nil:
		x.send(s.offeringError(err))
	case answer.Problem != nil:
		x.send(wire.Response{Error: answer.Problem})
	default:
		x.send(wire.Response{Result: answer.Body})
	}
}

// completion resolves the reference of a completion.
func (s *Server) completion(x *exchange) (source, beside string, params json.RawMessage, bad *wire.Response) {
	ref := wire.Member(x.Params, "ref")
	field := func(key string) string { return textMember(ref, key) }
	var name, key string
	var err error
	switch field("type") {
	case "ref/prompt":
		key, beside = "name", action.ActionPrompt
		source, name, err = s.cfg.Resolver.ResolvePrompt(x.r.Context(), &x.who, field("name"))
		if errors.Is(err, action.ErrNotFound) {
			return "", "", nil, errorResponse(promptNotFound(field("name")))
		}
	case "ref/resource":
		key, beside = "uri", action.ActionRead
		source, name, err = s.cfg.Resolver.ResolveResource(x.r.Context(), &x.who, field("uri"))
		if errors.Is(err, action.ErrNotFound) {
			p := resourceNotFound(x.stateless, field("uri"))
			p.Code = wire.CodeInvalidParams // not a read
			return "", "", nil, errorResponse(p)
		}
	default:
		return "", "", nil, errorResponse(wire.InvalidParams("ref.type must be ref/prompt or ref/resource."))
	}
	if err != nil {
		m := s.offeringError(err)
		return "", "", nil, &m
	}
	return source, beside, renamed(x.Params, ref, key, name), nil
}

// renamed returns the params of a completion with another name in its reference, and
// without _meta.
func renamed(params, ref []byte, key, name string) []byte {
	b := []byte{'{'}
	for m := (wire.Members{Text: params}); m.Next(); {
		value := m.Value
		switch string(m.Key) {
		case "_meta":
			continue
		case "ref":
			value = wire.ReplaceMember(ref, key, jsonlex.Quote(nil, name))
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(jsonlex.Quote(b, m.Key), ':')
		b = append(b, value...)
	}
	return append(b, '}')
}
