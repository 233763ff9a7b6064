package dashboard

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"sallyport/action"
)

// NewTerms is what a grant is to cover.
type NewTerms struct {
	Scope    wishedScope    `json:"scope,omitempty" enum:"session,organization,org" doc:"Default session." example:"session"`
	Source   string         `json:"source,omitempty" maxLength:"200" doc:"Id of a source, or slug or name of a connector." example:"github"`
	Action   string         `json:"action,omitempty" maxLength:"200" doc:"Exact." example:"create_issue"`
	Any      bool           `json:"any,omitempty" doc:"Instead of action: any of the source, or of all; none that is dangerous."`
	Pins     map[string]raw `json:"pins,omitempty" doc:"Params that must have exactly these values, by JSON Pointer."`
	MaxCalls *int64         `json:"max_calls,omitempty" minimum:"1" doc:"The budget; absent: none." example:"5"`
	Lifetime
}

// NewGrant is a grant as it is made by hand.
type NewGrant struct {
	Session    string `json:"session_id,omitempty" maxLength:"200" doc:"Required with scope session."`
	Unreviewed bool   `json:"unreviewed,omitempty" doc:"Grant it although the tool is not as it was reviewed; without, such a grant is refused."`
	NewTerms
}

// GrantView is one grant.
type GrantView struct {
	action.Grant
	Name string `json:"name,omitempty" doc:"Of the source, as people write it." example:"github"`
}

// CoveringGrant is one grant of those that cover a session. To the session's
// own token, those of the organization tell less.
type CoveringGrant struct {
	GrantView
	// What another person chose, or came of other sessions, shadows the same
	// of the grant, to be left out.
	UsedCalls *int64     `json:"used_calls,omitempty"`
	CreatedBy string     `json:"created_by,omitempty"`
	CreatedAt *time.Time `json:"created_at,omitempty"`
	CallsLeft *int64     `json:"calls_left,omitempty" doc:"Absent: any number."`
	Pinned    []string   `json:"pinned,omitempty" nullable:"false" doc:"Params that must have values which are not shown here, as JSON Pointers." example:"[\"/channel\"]"`
}

// covering is a grant as p may see it in the list of what covers a session.
func (v GrantView) covering(p *Principal) CoveringGrant {
	c := CoveringGrant{GrantView: v}
	if v.MaxCalls != nil {
		left := *v.MaxCalls - v.UsedCalls
		c.CallsLeft = &left
	}
	if p.Session == nil || v.Session != "" {
		c.UsedCalls, c.CreatedBy, c.CreatedAt = &v.UsedCalls, v.CreatedBy, &v.CreatedAt
		return c
	}
	c.Pinned = slices.Sorted(maps.Keys(v.Pins))
	c.Grant = action.Grant{ID: v.ID, Organization: v.Organization, Terms: v.Terms}
	c.Pins, c.MaxCalls = nil, nil
	return c
}

// wishedScope is a scope as people write it.
type wishedScope string

func (w wishedScope) scope() action.GrantScope {
	switch w {
	case "org":
		return action.ScopeOrganization
	case "":
		return action.ScopeSession
	}
	return action.GrantScope(w)
}

func (s *Server) grantRoutes() {
	s.grantReads()
	register(s, route{
		method: "POST", path: "/api/v1/grants", tag: "grants", summary: "Make a grant", status: http.StatusCreated,
		doc:    "Calls that it covers run without asking. It is for the action as it is now: a changed one asks again.",
		errors: []int{http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *struct{ Body NewGrant }) (*body[GrantView], error) {
		g, err := s.makeGrant(ctx, p, in.Body)
		if err != nil {
			return nil, err
		}
		v, err := s.viewGrant(ctx, g)
		return bodyOf(v), err
	})
	register(s, route{
		method: "DELETE", path: "/api/v1/grants/{id}", tag: "grants", summary: "Revoke a grant", status: http.StatusOK, doc: "Effective for the next call.",
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[GrantView], error) {
		g, err := s.Grants.RevokeGrant(ctx, p.Organization, in.ID, p.By())
		if err != nil {
			return nil, err
		}
		s.changed(ctx, p, "grant revoked", "grant", g.ID)
		v, err := s.viewGrant(ctx, g)
		return bodyOf(v), err
	})
}

func (s *Server) grantReads() {
	register(s, route{
		method: "GET", path: "/api/v1/grants", tag: "grants", summary: "List grants, newest first",
	}, func(ctx context.Context, p *Principal, in *struct {
		Paging
		Session string            `query:"session"`
		Scope   action.GrantScope `query:"scope" enum:"session,organization"`
		Source  string            `query:"source" doc:"Id of a source, or slug or name of a connector."`
		Action  string            `query:"action"`
		Usable  bool              `query:"usable" doc:"Only those that are neither revoked, expired nor used up."`
	},
	) (*body[List[GrantView]], error) {
		return s.listGrants(ctx, action.GrantFilter{
			Organization: p.Organization, Session: in.Session, Scope: in.Scope, Source: in.Source, Action: in.Action, Usable: in.Usable, Limit: in.Limit, Cursor: in.Cursor,
		})
	})
	register(s, route{
		method: "GET", path: "/api/v1/grants/{id}", tag: "grants", summary: "Read a grant",
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[GrantView], error) {
		g, err := s.Grants.Grant(ctx, p.Organization, in.ID)
		if err != nil {
			return nil, err
		}
		v, err := s.viewGrant(ctx, g)
		return bodyOf(v), err
	})
	register(s, route{
		method: "GET", path: actionsPath + "/grants", tag: "actions", summary: "List the usable grants that cover the session",
		doc: "A session sees its own grants whole; of the organization's, what they let run, how many calls are left, and the names of pinned params.",
	}, func(ctx context.Context, p *Principal, in *struct {
		InSession
		Paging
	},
	) (*body[List[CoveringGrant]], error) {
		if _, err := s.sessionOf(ctx, p, in.Session); err != nil {
			return nil, err
		}
		page, all, err := s.grants(ctx, action.GrantFilter{Organization: p.Organization, Session: in.Session, Covering: true, Usable: true, Limit: in.Limit, Cursor: in.Cursor})
		return pageOf(page, func(g action.Grant) CoveringGrant { return GrantView{g, sourceName(g.Source, all)}.covering(p) }), err
	})
}

func (s *Server) listGrants(ctx context.Context, f action.GrantFilter) (*body[List[GrantView]], error) {
	page, all, err := s.grants(ctx, f)
	return pageOf(page, func(g action.Grant) GrantView { return GrantView{g, sourceName(g.Source, all)} }), err
}

func (s *Server) grants(ctx context.Context, f action.GrantFilter) (action.Page[action.Grant], []action.Connector, error) {
	all, err := s.Connectors.ListConnectors(ctx, f.Organization)
	if err != nil {
		return action.Page[action.Grant]{}, nil, err
	}
	if id, err := s.sourceID(ctx, f.Organization, f.Source, all); err == nil {
		f.Source = id
	}
	page, err := s.Grants.ListGrants(ctx, f)
	return page, all, err
}

func (s *Server) viewGrant(ctx context.Context, g action.Grant) (GrantView, error) {
	all, err := s.Connectors.ListConnectors(ctx, g.Organization)
	return GrantView{g, sourceName(g.Source, all)}, err
}

// terms reads what a grant is to cover, and leaves the rest of the checks to
// the Gate.
func (s *Server) terms(ctx context.Context, organization string, n NewTerms) (action.Terms, error) {
	t := action.Terms{Scope: n.Scope.scope(), Action: n.Action, Any: n.Any, Pins: n.Pins, MaxCalls: n.MaxCalls}
	var err error
	if t.ExpiresAt, err = n.until(s.now()); err != nil || n.Source == "" {
		return t, err
	}
	t.Source, _, err = s.source(ctx, organization, n.Source)
	return t, placed(err, "/source")
}

// makeGrant leaves to the rows whether the session is one that this person may
// decide for.
func (s *Server) makeGrant(ctx context.Context, p *Principal, n NewGrant) (action.Grant, error) {
	t, err := s.terms(ctx, p.Organization, n.NewTerms)
	if err != nil {
		return action.Grant{}, err
	}
	g := action.Grant{Organization: p.Organization, Session: n.Session, Terms: t, CreatedBy: p.By()}
	if g.ToolHash, err = s.Gate.Terms(ctx, p.Organization, &g.Terms, n.Unreviewed); err != nil {
		return g, err
	}
	if g, err = s.Grants.CreateGrant(ctx, g); err != nil {
		return g, err
	}
	s.granted(ctx, p, &g)
	return g, nil
}

func (s *Server) granted(ctx context.Context, p *Principal, g *action.Grant) {
	s.changed(ctx, p, "grant made", "grant", g.ID, "scope", g.Scope, "source", g.Source, "action", g.Action, "invocation", g.Invocation, "request", g.Request)
}
