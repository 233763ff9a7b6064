package mcpserver

import (
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
	"sallyport/internal/agent"
	"sallyport/internal/guide"
	"sallyport/internal/jsonlex"
	"sallyport/mcpserver/wire"
)

// The built-in resources: what a session may do, as JSON and as a guide for its agent.
const (
	capabilitiesURI  = "sallyport://capabilities"
	capabilitiesType = "application/json"
	// nextCapabilities is the URI of the next page, without its cursor.
	nextCapabilities     = capabilitiesURI + "?cursor="
	capabilitiesTemplate = capabilitiesURI + "{?cursor}"

	guideURI      = "sallyport://guide"
	guidePrefix   = guideURI + "/"
	guideTemplate = guidePrefix + "{source}"
	guideType     = "text/markdown"
)

// builtinOfferings are the definitions of the built-in resources and prompts.
type builtinOfferings struct {
	resources map[string][]byte // by URI
	templates map[string][]byte
	prompts   map[action.SessionType]map[string][]byte // by sort key, for each type of session
	reserved  map[string][]byte                        // names that prompts of sources cannot have
}

func newBuiltinOfferings(snapshot bool) builtinOfferings {
	encoded := func(v any) []byte {
		raw, _ := json.Marshal(v) // strings always encode
		return raw
	}
	o := builtinOfferings{
		resources: map[string][]byte{guideURI: encoded(&mcp.Resource{
			URI: guideURI, Name: "guide", Title: "Guide to this session's tools", MIMEType: guideType,
			Description: "What this session's tools do, which calls need approval, their arguments and examples. Text from connected servers is marked.",
		})},
		templates: map[string][]byte{guideTemplate: encoded(&mcp.ResourceTemplate{
			URITemplate: guideTemplate, Name: "guide of a source", Title: "Guide to the tools of one service", MIMEType: guideType,
			Description: "The guide to one service in full. source is its id or name, as in the guide.",
		})},
	}
	if snapshot {
		o.resources[capabilitiesURI] = encoded(&mcp.Resource{
			URI: capabilitiesURI, Name: "capabilities", Title: "What this session may do", MIMEType: capabilitiesType,
			Description: "Every service and action behind this gateway, with the policy decision for this session: allow, require_approval or deny, and why. " +
				"Read it before you plan work that needs an action that is not among your tools. Descriptions in it are the services' own text. A long list has next_cursor: read sallyport://capabilities?cursor=NEXT_CURSOR then.",
		})
		o.templates[capabilitiesTemplate] = encoded(&mcp.ResourceTemplate{
			URITemplate: capabilitiesTemplate, Name: "next page of the capabilities", Title: "What this session may do, next page", MIMEType: capabilitiesType,
			Description: "The next page of sallyport://capabilities. cursor is the next_cursor of the page before.",
		})
	}
	o.prompts, o.reserved = builtinPrompts()
	return o
}

// readGuide answers with the guide to all sources of the session, or to one.
func (s *Server) readGuide(x *exchange, uri string) {
	source, err := url.PathUnescape(strings.TrimPrefix(strings.TrimPrefix(uri, guideURI), "/"))
	if err != nil || source == "" && uri != guideURI {
		x.sendError(resourceNotFound(x.stateless, uri))
		return
	}
	g, err := s.buildGuide(x, guide.Request{Source: source})
	switch {
	case err == nil:
		x.sendContents(uri, guideType, g.Markdown)
	case action.Public(err).Code == "source_not_found":
		p := resourceNotFound(x.stateless, uri)
		p.Message = action.Public(err).Message
		x.sendError(p)
	default:
		x.send(s.offeringError(err))
	}
}

// buildDenied returns the list of what is denied to a session.
func (s *Server) buildDenied(x *exchange, r guide.Request) (guide.Guide, error) {
	snapshot, err := s.cfg.Snapshot(x.r.Context(), &x.who)
	if err != nil {
		return guide.Guide{}, err
	}
	return guide.DeniedActions(&snapshot, r.Source, r.Cursor)
}

// buildGuide returns the guide to a session's tools, to one source, or to one
// action.
func (s *Server) buildGuide(x *exchange, r guide.Request) (guide.Guide, error) {
	list, _, err := s.cfg.Gate.Available(x.r.Context(), &x.who)
	if err != nil {
		return guide.Guide{}, err
	}
	denied, err := s.cfg.Gate.Denied(x.r.Context(), &x.who)
	if err != nil {
		return guide.Guide{}, err
	}
	own := s.Listed(&x.who)
	g, err := guide.For(list, denied, r, func(tool string) bool { return slices.Contains(own, tool) })
	return guide.WithOutages(g, err, r.Source, s.outages(&x.who))
}

// sendContents answers a read with a text.
func (x *exchange) sendContents(uri, kind, text string) {
	b := jsonlex.Quote([]byte(`{"contents":[{"uri":`), uri)
	b = jsonlex.Quote(append(b, `,"mimeType":`...), kind)
	b = jsonlex.Quote(append(b, `,"text":`...), text)
	x.send(wire.Response{Result: append(b, `}]}`...)})
}

// capabilitiesPage is how many actions one read of the capabilities returns.
const capabilitiesPage = 100

// readCapabilities answers with a page of what the session may do.
func (s *Server) readCapabilities(x *exchange, uri string) {
	cursor, err := url.QueryUnescape(strings.TrimPrefix(strings.TrimPrefix(uri, capabilitiesURI), "?cursor="))
	if err != nil {
		x.sendError(resourceNotFound(x.stateless, uri))
		return
	}
	snapshot, err := s.cfg.Snapshot(x.r.Context(), &x.who)
	if err == nil {
		err = snapshot.Page(cursor, capabilitiesPage)
	}
	if errors.Is(err, action.ErrInvalid) {
		x.send(s.offeringError(err))
		return
	}
	if err == nil {
		var text []byte
		if text, err = json.Marshal(snapshot); err == nil {
			x.sendContents(uri, capabilitiesType, string(text))
			return
		}
	}
	s.cfg.Log.Error("capabilities could not be read", "session", x.who.ID, "error", err)
	x.sendError(listProblem(err))
}

// promptTypes are the types of session; each has a prompt of the same name.
func promptTypes() []action.SessionType {
	return []action.SessionType{action.TypeSetup, action.TypeCoding, action.TypeAutomation}
}

// PromptNames returns the names of the built-in prompts, which no prompt of a source
// may have.
func PromptNames() (names []string) {
	for _, t := range promptTypes() {
		names = append(names, string(t))
	}
	return names
}

// builtinPrompts returns the definitions of the built-in prompts by their sort keys:
// a session's own prompt comes first, then the other built-in ones, then those of
// sources.
func builtinPrompts() (of map[action.SessionType]map[string][]byte, nothing map[string][]byte) {
	of, nothing = map[action.SessionType]map[string][]byte{}, map[string][]byte{}
	for _, session := range append(promptTypes(), "") {
		of[session] = map[string][]byte{}
		for _, t := range promptTypes() {
			nothing[string(t)] = nil
			place, about := "\x01", "The system prompt of "+string(t)+" sessions."
			if t == session {
				place, about = "\x00", "The system prompt of this session: what it is for, and how to work behind this gateway."
			}
			raw, _ := json.Marshal(&mcp.Prompt{Name: string(t), Title: "System prompt: " + string(t), Description: about}) // strings always encode
			of[session][place+string(t)] = raw
		}
	}
	return of, nothing
}

// getPrompt answers with the system prompt of a session type.
func (s *Server) getPrompt(x *exchange, p *params) {
	now := s.cfg.Now()
	list, err := s.views.of(&x.who, now).current(x.r.Context(), s.cfg.Gate, &x.who, now)
	if err != nil {
		x.send(s.offeringError(err))
		return
	}
	text, own := agent.SessionPrompt(&x.who, action.SessionType(p.name), list.isListed)
	about := "The system prompt of " + p.name + " sessions."
	if own {
		about = "The system prompt that this session was given."
	}
	b := jsonlex.Quote([]byte(`{"description":`), about)
	b = jsonlex.Quote(append(b, `,"messages":[{"role":"user","content":{"type":"text","text":`...), text)
	x.send(wire.Response{Result: append(b, `}}]}`...)})
}

// isListed reports whether a tool is listed.
func (t *toolset) isListed(name string) bool {
	_, found := slices.BinarySearch(t.names, name)
	return found
}
