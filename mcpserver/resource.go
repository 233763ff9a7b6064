package mcpserver

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
	"sallyport/internal/guide"
	"sallyport/internal/jsonlex"
)

// The gateway's own resources: what a session may do, for programs, and the same
// for its agent.
const (
	capabilitiesURI  = "sallyport://capabilities"
	capabilitiesType = "application/json"
	guideURI         = "sallyport://guide"
	guidePrefix      = guideURI + "/"
	guideTemplate    = guidePrefix + "{source}"
	guideType        = "text/markdown"
)

// ownOffers are the definitions of what the gateway itself offers beside tools.
type ownOffers struct {
	resources map[string][]byte // by URI
	templates map[string][]byte
	prompts   map[action.SessionType]map[string][]byte // by what they are listed under, for each type of session
	nothing   map[string][]byte                        // the names that no prompt of a source has
}

func newOwnOffers(snapshot bool) ownOffers {
	encoded := func(v any) []byte {
		raw, _ := json.Marshal(v) // strings always encode
		return raw
	}
	o := ownOffers{
		resources: map[string][]byte{guideURI: encoded(&mcp.Resource{
			URI: guideURI, Name: "guide", Title: "Guide to this session's tools", MIMEType: guideType,
			Description: "What the tools behind this gateway do, what becomes of a call of each, their arguments and examples. Texts of connected servers are marked as theirs.",
		})},
		templates: map[string][]byte{guideTemplate: encoded(&mcp.ResourceTemplate{
			URITemplate: guideTemplate, Name: "guide of a source", Title: "Guide to the tools of one service", MIMEType: guideType,
			Description: "The same of one service, in full. source is its id or its name, as the guide has it.",
		})},
	}
	if snapshot {
		o.resources[capabilitiesURI] = encoded(&mcp.Resource{
			URI: capabilitiesURI, Name: "capabilities", Title: "What this session may do", MIMEType: capabilitiesType,
			Description: "Every service and every action behind this gateway, with what policy says of it for this session: allow, require_approval or deny, and why. " +
				"Read it before you plan work that needs an action which you do not see among the tools. Descriptions in it are the services' own words.",
		})
	}
	o.prompts, o.nothing = ownPrompts()
	return o
}

// ownResource returns what answers a read of one of the gateway's own; nil for
// any other URI.
func (s *Server) ownResource(uri string) func(x *exchange, uri string) {
	switch {
	case uri == capabilitiesURI && s.cfg.Snapshot != nil:
		return s.readCapabilities
	case uri == guideURI, strings.HasPrefix(uri, guidePrefix):
		return s.readGuide
	}
	return nil
}

// readGuide answers with the guide of the session that asks, or of one source.
func (s *Server) readGuide(x *exchange, uri string) {
	source, err := url.PathUnescape(strings.TrimPrefix(strings.TrimPrefix(uri, guideURI), "/"))
	if err != nil || source == "" && uri != guideURI {
		x.fail(unknownResource(x.modern, uri))
		return
	}
	g, err := s.guide(x, source, "")
	switch {
	case err == nil:
		x.contents(uri, guideType, g.Markdown)
	case action.Public(err).Code == "source_not_found":
		p := unknownResource(x.modern, uri)
		p.text = action.Public(err).Message
		x.fail(p)
	default:
		x.refuse(s.besideMessage(err))
	}
}

// guide writes the guide of a session, of a source of it, or of one action.
func (s *Server) guide(x *exchange, source, name string) (guide.Guide, error) {
	list, _, err := s.cfg.Gate.Available(x.r.Context(), &x.who)
	if err != nil {
		return guide.Guide{}, err
	}
	own := s.Listed(&x.who)
	return guide.Of(list, source, name, func(tool string) bool { return slices.Contains(own, tool) })
}

// contents answers a read with a text.
func (x *exchange) contents(uri, kind, text string) {
	b := jsonlex.Quote([]byte(`{"contents":[{"uri":`), uri)
	b = jsonlex.Quote(append(b, `,"mimeType":`...), kind)
	b = jsonlex.Quote(append(b, `,"text":`...), text)
	x.refuse(message{result: append(b, `}]}`...)})
}

// readCapabilities answers with what the session that asks may do.
func (s *Server) readCapabilities(x *exchange, _ string) {
	snapshot, err := s.cfg.Snapshot(x.r.Context(), &x.who)
	if err == nil {
		var text []byte
		if text, err = json.Marshal(snapshot); err == nil {
			x.contents(capabilitiesURI, capabilitiesType, string(text))
			return
		}
	}
	s.cfg.Log.Error("reading capabilities", "session", x.who.ID, "error", err)
	x.fail(listProblem(err))
}
