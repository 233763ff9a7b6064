package mcpserver

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
)

// capabilitiesURI is the resource that tells a session what it may do.
const capabilitiesURI = "sallyport://capabilities"

// askerKey carries who asks to what the SDK calls. Its servers are shared by
// the sessions of a view, so that the context of the request is the only thing
// that is the caller's own.
type askerKey struct{}

type asker struct {
	who    action.Session
	modern bool
}

// asking returns ctx for what the SDK does for an exchange.
func asking(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, askerKey{}, &asker{who: x.who, modern: x.modern})
}

func askerOf(ctx context.Context) *asker {
	a, _ := ctx.Value(askerKey{}).(*asker)
	return a
}

// offerResources gives the SDK's server what can be read, if there is anything.
func (s *Server) offerResources(server *mcp.Server) {
	if s.cfg.Snapshot == nil {
		return
	}
	server.AddReceivingMiddleware(resourceFaults)
	server.AddResource(&mcp.Resource{
		URI: capabilitiesURI, Name: "capabilities", Title: "What this session may do", MIMEType: "application/json",
		Description: "Every service and every action behind this gateway, with what policy says of it for this session: allow, require_approval or deny, and why. " +
			"Read it before you plan work that needs an action which you do not see among the tools. Descriptions in it are the services' own words.",
	}, s.readCapabilities)
}

// readCapabilities answers with what the session that asks may do.
func (s *Server) readCapabilities(ctx context.Context, _ *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	a := askerOf(ctx)
	if a == nil {
		return nil, wireError(s.unreadable("", errors.New("nobody asks")))
	}
	snapshot, err := s.cfg.Snapshot(ctx, &a.who)
	if err != nil {
		return nil, wireError(s.unreadable(a.who.ID, err))
	}
	text, err := json.Marshal(snapshot)
	if err != nil {
		return nil, wireError(s.unreadable(a.who.ID, err))
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: string(text)}}}, nil // of the URI and type that it is offered as
}

func (s *Server) unreadable(session string, err error) *problem {
	s.cfg.Log.Error("reading capabilities", "session", session, "error", err)
	return listProblem(err)
}

// wireError is a problem as the SDK sends it unchanged.
func wireError(p *problem) error {
	return &jsonrpc.Error{Code: int64(p.code), Message: p.text, Data: p.data}
}

// resourceFaults tells of a resource that is not there as the era of whoever
// asks does. The SDK knows one way for all of them, in which it quotes the URI
// so that the answer may be no JSON.
func resourceFaults(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		read, ok := req.(*mcp.ReadResourceRequest)
		if !ok || read.Params == nil || read.Params.URI == capabilitiesURI {
			return next(ctx, method, req)
		}
		if read.Params.URI == "" {
			return nil, wireError(invalidParams("uri is missing; resources/list tells what there is."))
		}
		p := invalidParams("There is no such resource; resources/list tells what there is.")
		if a := askerOf(ctx); a != nil && !a.modern {
			p.code = codeNoResource
		}
		p.data, _ = json.Marshal(map[string]string{"uri": read.Params.URI}) // strings always encode
		return nil, wireError(p)
	}
}
