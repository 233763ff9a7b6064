package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"sallyport/action"
)

// NewCapability is how far a group's sessions may go at a provider.
type NewCapability struct {
	Level          levelOrName `json:"level"`
	AllowedActions []string    `json:"allowed_actions,omitempty" maxItems:"1000" doc:"The only ones; null or absent: all that the level reaches. An empty list allows none."`
	DeniedActions  []string    `json:"denied_actions,omitempty" maxItems:"1000" doc:"Denied whatever else is said."`
	Gate           string      `json:"required_gate,omitempty" maxLength:"200" doc:"Must be approved for the session's task before an action of level 3 runs; required with that level." example:"deploy"`
	Rate           *GroupRate  `json:"rate,omitempty"`
	Lifetime
}

// GroupRate is the rate of a whole group at a provider.
type GroupRate struct {
	_ struct{} `nullable:"true"`
	NewRate
}

// CapabilityView is one capability.
type CapabilityView struct {
	action.Capability
	Name    string `json:"name" doc:"Of the provider, as people write it." example:"github"`
	Warning string `json:"warning,omitempty" doc:"Only in the answer to a change: nobody could tell whether the connector has the actions that are named."`
}

// ByCapability is the parameters of a route about one capability.
type ByCapability struct {
	Group    string `path:"group" maxLength:"200" example:"developer"`
	Provider string `path:"provider" maxLength:"200" doc:"Id of a source, or slug or name of a connector." example:"github"`
}

func (s *Server) capabilityRoutes() {
	s.capabilityReads()
	register(s, route{
		method: "PUT", path: "/api/v1/capabilities/{group}/{provider}", tag: "capabilities", summary: "Give a group a capability", status: http.StatusOK,
		doc: "Replaces the one that the group has at the provider. The same again changes nothing.",
	}, func(ctx context.Context, p *Principal, in *struct {
		ByCapability
		Body NewCapability
	},
	) (*body[CapabilityView], error) {
		c, all, err := s.newCapability(ctx, p, in.Group, in.Provider, in.Body)
		if err != nil {
			return nil, err
		}
		warning := ""
		for _, name := range slices.Concat(c.AllowedActions, c.DeniedActions) {
			if warning != "" {
				break
			}
			if warning, err = s.unsure(ctx, action.Key{Source: c.Provider, Action: name}, all); err != nil {
				return nil, err
			}
		}
		if c, err = s.Capabilities.PutCapability(ctx, c); err != nil {
			return nil, err
		}
		s.changed(ctx, p, "capability given", "group", c.Group, "provider", c.Provider, "level", c.Level.String())
		return bodyOf(CapabilityView{Capability: c, Name: sourceName(c.Provider, all), Warning: warning}), nil
	})
	register(s, route{
		method: "DELETE", path: "/api/v1/capabilities/{group}/{provider}", tag: "capabilities", summary: "Revoke a capability",
		doc: "Effective for the next call.",
	}, func(ctx context.Context, p *Principal, in *ByCapability) (*empty, error) {
		provider, _, err := s.source(ctx, p.Organization, in.Provider)
		if provider == "" {
			return nil, err
		}
		if err := s.Capabilities.DeleteCapability(ctx, p.Organization, in.Group, provider, p.By()); err != nil {
			return nil, err
		}
		s.changed(ctx, p, "capability revoked", "group", in.Group, "provider", provider)
		return nil, nil
	})
}

func (s *Server) capabilityReads() {
	register(s, route{
		method: "GET", path: "/api/v1/capabilities", tag: "capabilities", summary: "List capabilities",
	}, func(ctx context.Context, p *Principal, in *struct {
		Group string `query:"group" doc:"Absent: all."`
	},
	) (*body[List[CapabilityView]], error) {
		views, err := s.capabilities(ctx, p.Organization, in.Group)
		return listOf(views), err
	})
	register(s, route{
		method: "GET", path: "/api/v1/capabilities/{group}", tag: "capabilities", summary: "Say what a group may do",
		doc: "With the whole catalog: every action, denied ones too, and why. One without a tool is how a connector's resources are read (resources/read) or its prompts gotten (prompts/get).",
	}, func(ctx context.Context, p *Principal, in *struct {
		Group string `path:"group" maxLength:"200" example:"developer"`
		Task  string `query:"task" maxLength:"500" doc:"Whose gate approvals count; absent: none do."`
	},
	) (*body[action.Snapshot], error) {
		snap, err := s.Snapshot(ctx, &action.Session{
			Organization: p.Organization, Kind: action.Interactive, Type: action.TypeCoding, Group: in.Group, Task: in.Task,
		})
		return bodyOf(snap), err
	})
	register(s, route{
		method: "GET", path: actionsPath + "/capabilities", tag: "actions", summary: "Say what the session may do",
		doc: "With the whole catalog: every action, denied ones too, and why. One without a tool is how a connector's resources are read (resources/read) or its prompts gotten (prompts/get).",
	}, func(ctx context.Context, p *Principal, in *InSession) (*body[action.Snapshot], error) {
		session, err := s.sessionOf(ctx, p, in.Session)
		if err != nil {
			return nil, err
		}
		snap, err := s.Snapshot(ctx, &session)
		return bodyOf(snap), err
	})
}

func (s *Server) capabilities(ctx context.Context, organization, group string) ([]CapabilityView, error) {
	list, err := s.Capabilities.ListCapabilities(ctx, organization, group)
	if err != nil {
		return nil, err
	}
	all, err := s.Connectors.ListConnectors(ctx, organization)
	views := make([]CapabilityView, len(list))
	for i, c := range list {
		views[i] = CapabilityView{Capability: c, Name: sourceName(c.Provider, all)}
	}
	return views, err
}

func (s *Server) newCapability(ctx context.Context, p *Principal, group, provider string, n NewCapability) (action.Capability, []action.Connector, error) {
	c := action.Capability{
		Organization: p.Organization, Group: group, Level: n.Level.level(), AllowedActions: n.AllowedActions,
		DeniedActions: n.DeniedActions, Gate: n.Gate, GrantedBy: p.By(), GrantedAt: s.now(),
	}
	if n.Rate != nil {
		rate := action.Rate(n.Rate.NewRate)
		c.Rate = &rate
	}
	id, all, err := s.source(ctx, p.Organization, provider)
	if err != nil {
		return c, all, placed(err, "/provider")
	}
	c.Provider = id
	if c.ExpiresAt, err = n.until(s.now()); err != nil {
		return c, all, err
	}
	if err := s.checkNames(ctx, id, "/allowed_actions", c.AllowedActions, all); err != nil {
		return c, all, err
	}
	return c, all, s.checkNames(ctx, id, "/denied_actions", c.DeniedActions, all)
}

// checkNames refuses names that no action of the source can have, or is known
// to: a denial with a typo in it would deny nothing.
func (s *Server) checkNames(ctx context.Context, source, field string, names []string, all []action.Connector) error {
	for i, name := range names {
		at := fmt.Sprintf("%s/%d", field, i)
		if name == "" || strings.Contains(name, "*") {
			return invalid(at, "Name one action of the provider, without *; the level says how far all others reach.")
		}
		if err := s.checkAction(ctx, action.Key{Source: source, Action: name}, all); err != nil {
			return placed(err, at)
		}
	}
	return nil
}
