package store_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"sallyport/action"
)

// signs is a connector that somebody signed in for, and its tokens.
func (h *house) signs() (action.Connector, action.OAuthGrant) {
	h.Helper()
	c := h.whole()
	h.ok(h.db.CreateConnector(h.ctx, c, nil, "alice"))
	g := h.tokens(c)
	h.ok(h.db.PutOAuthGrant(h.ctx, g))
	g.Version = 1
	return c, g
}

func (h *house) tokens(c action.Connector) action.OAuthGrant {
	return action.OAuthGrant{
		Organization: h.org.ID, Connector: c.ID, Issuer: "https://login.example.com/o", ClientID: "id", Scope: "a b", Status: action.OAuthConnected,
		ExpiresAt: new(h.now.Add(time.Hour)), By: "alice", UpdatedAt: h.now, Sealed: []byte("sealed tokens"),
	}
}

func (h *house) grantOf(c action.Connector) (action.OAuthGrant, error) {
	return h.db.OAuthGrant(h.ctx, h.org.ID, c.ID)
}

func (h *house) flow(c action.Connector, state string) action.OAuthFlow {
	return action.OAuthFlow{
		StateHash: state, Organization: h.org.ID, Connector: c.ID, By: "alice", ExpiresAt: h.now.Add(10 * time.Minute), Sealed: []byte("sealed verifier"),
	}
}

// signIns are the events of a connector's tokens.
func (h *house) signIns(c action.Connector) (list []action.PolicyEvent) {
	h.Helper()
	for _, e := range h.history(action.PolicyEventFilter{Subject: c.Source()}) {
		if strings.Contains(string(e.Before)+string(e.After), "oauth_grant") {
			list = append(list, e)
		}
	}
	return list
}

var oauthStories = map[string]func(*house){
	"tokens are written, refreshed and removed": func(h *house) {
		c, g := h.signs()
		h.equal(must(h.grantOf(c))(h), g, "the tokens")
		h.later(time.Minute)
		g.ExpiresAt, g.UpdatedAt, g.Sealed = new(h.now.Add(time.Hour)), h.now, []byte("refreshed")
		h.ok(h.db.PutOAuthGrant(h.ctx, g))
		h.refused(h.db.PutOAuthGrant(h.ctx, g), action.ErrConflict, "oauth_moved")
		h.refused(h.db.PutOAuthGrant(h.ctx, h.tokens(c)), action.ErrConflict, "oauth_moved")
		g.Version = 2
		h.equal(must(h.grantOf(c))(h), g, "the tokens after the refresh")
		shown := g
		shown.Sealed = nil
		h.equal(must(h.db.ListOAuthGrants(h.ctx, h.org.ID))(h), []action.OAuthGrant{shown}, "the list")
		other := newHouse(h.T, h.db)
		_, err := h.db.OAuthGrant(h.ctx, other.org.ID, c.ID)
		h.refused(err, action.ErrNotFound, "oauth_grant_not_found")
		h.equal(len(must(h.db.ListOAuthGrants(h.ctx, other.org.ID))(h)), 0, "another organization's list")
		h.refused(h.db.DeleteOAuthGrant(h.ctx, other.org.ID, c.ID, "eve"), action.ErrNotFound, "connector_not_found")
		h.ok(h.db.DeleteOAuthGrant(h.ctx, h.org.ID, c.ID, "bob"))
		h.refused(h.db.DeleteOAuthGrant(h.ctx, h.org.ID, c.ID, "bob"), action.ErrNotFound, "oauth_grant_not_found")
		h.refused(h.db.PutOAuthGrant(h.ctx, g), action.ErrConflict, "oauth_moved") // a refresh that comes too late
	},
	"sign-ins are history, refreshes are not": func(h *house) {
		c, g := h.signs()
		put := func(status action.OAuthStatus, reason, by string) {
			h.Helper()
			g.Status, g.Reason, g.By = status, reason, by
			h.ok(h.db.PutOAuthGrant(h.ctx, g))
			g.Version++
		}
		put(action.OAuthConnected, "", "alice")
		put(action.OAuthReconnect, "the service refused the refresh", "alice")
		h.equal(len(h.signIns(c)), 1, "events before she signs in again")
		put(action.OAuthConnected, "of before", "alice")
		h.equal(must(h.grantOf(c))(h).Reason, "", "the reason")
		put(action.OAuthConnected, "", "bob")
		h.ok(h.db.DeleteOAuthGrant(h.ctx, h.org.ID, c.ID, "carol"))
		var by []string
		for _, e := range h.signIns(c) {
			by = append(by, e.By)
			if text := string(e.Before) + string(e.After); e.Kind != action.EventConnector || strings.Contains(text, "sealed") || strings.Contains(text, "c2VhbGVk") {
				h.Errorf("the event %+v", e)
			}
		}
		h.equal(by, []string{"carol", "bob", "alice", "alice"}, "who did it, newest first")
	},
	"tokens need their connector": func(h *house) {
		c := h.whole()
		h.refused(h.db.PutOAuthGrant(h.ctx, h.tokens(c)), action.ErrNotFound, "connector_not_found")
		h.refused(h.db.PutOAuthFlow(h.ctx, h.flow(c, "s")), action.ErrNotFound, "connector_not_found")
		c, _ = h.signs()
		h.ok(h.db.PutOAuthFlow(h.ctx, h.flow(c, "s")))
		h.ok(h.removed(c, "alice"))
		_, err := h.grantOf(c)
		h.refused(err, action.ErrNotFound, "oauth_grant_not_found")
		_, err = h.db.TakeOAuthFlow(h.ctx, "s", h.now)
		h.refused(err, action.ErrNotFound, "sign_in_not_found")
	},
	"tokens are deleted when their connector changes": func(h *house) {
		h.secret("client", "login.example.com")
		c, _ := h.signs()
		for name, row := range map[string]struct {
			change func(*action.Connector)
			stay   bool
		}{
			"another name":   {func(c *action.Connector) { c.Name = "Renamed" }, true},
			"another path":   {func(c *action.Connector) { c.URL = "https://MCP.example.com/v2" }, true},
			"other scopes":   {func(c *action.Connector) { c.OAuth.Scopes = nil }, true},
			"another host":   {func(c *action.Connector) { c.URL = "https://mcp.example.org/mcp" }, false},
			"plain http":     {func(c *action.Connector) { c.URL = "http://mcp.example.com/mcp" }, false},
			"another kind":   {func(c *action.Connector) { c.OAuth.Kind, c.OAuth.ClientSecret = action.OAuthClient, "client" }, false},
			"another issuer": {func(c *action.Connector) { c.OAuth.Issuer = "" }, false},
			"another client": {func(c *action.Connector) { c.OAuth.ClientID = "x" }, false},
			"no OAuth":       {func(c *action.Connector) { c.OAuth = nil }, false},
		} {
			h.ok(h.db.UpdateConnector(h.ctx, c, nil, "alice"))
			g := h.tokens(c)
			if old, err := h.grantOf(c); err == nil {
				g.Version = old.Version
			}
			h.ok(h.db.PutOAuthGrant(h.ctx, g))
			h.ok(h.db.PutOAuthFlow(h.ctx, h.flow(c, name)))
			changed, settings := c, *c.OAuth
			changed.OAuth = &settings
			row.change(&changed)
			h.ok(h.db.UpdateConnector(h.ctx, changed, nil, "alice"))
			_, gone := h.grantOf(c)
			_, over := h.db.TakeOAuthFlow(h.ctx, name, h.now)
			if (gone == nil) != row.stay || (over == nil) != row.stay {
				h.Errorf("%s: tokens %v, sign-in %v", name, gone, over)
			}
		}
	},
	"a sign-in is used once, before it expires": func(h *house) {
		c, _ := h.signs()
		f := h.flow(c, "s")
		h.ok(h.db.PutOAuthFlow(h.ctx, f))
		h.equal(must(h.db.TakeOAuthFlow(h.ctx, "s", h.now))(h), f, "the sign-in")
		_, err := h.db.TakeOAuthFlow(h.ctx, "s", h.now)
		h.refused(err, action.ErrNotFound, "sign_in_not_found")
		h.ok(h.db.PutOAuthFlow(h.ctx, f))
		_, err = h.db.TakeOAuthFlow(h.ctx, "s", f.ExpiresAt)
		h.refused(err, action.ErrGone, "sign_in_over")
		_, err = h.db.TakeOAuthFlow(h.ctx, "s", h.now)
		h.refused(err, action.ErrNotFound, "sign_in_not_found")
	},
	"at most twenty sign-ins are open": func(h *house) {
		c, _ := h.signs()
		over := h.flow(c, "over")
		over.ExpiresAt = h.now.Add(-time.Second)
		h.ok(h.db.PutOAuthFlow(h.ctx, over))
		for i := range 20 {
			h.ok(h.db.PutOAuthFlow(h.ctx, h.flow(c, fmt.Sprint(i))))
		}
		h.refused(h.db.PutOAuthFlow(h.ctx, h.flow(c, "more")), action.ErrTooMany, "too_many_sign_ins")
		other := newHouse(h.T, h.db)
		theirs, _ := other.signs()
		h.ok(h.db.PutOAuthFlow(h.ctx, other.flow(theirs, "theirs")))
	},
	"64 come back from a sign-in, one is let in": func(h *house) {
		c, _ := h.signs()
		h.ok(h.db.PutOAuthFlow(h.ctx, h.flow(c, "s")))
		var taken atomic.Int64
		together(64, func(i int) {
			switch _, err := h.any(i).TakeOAuthFlow(h.ctx, "s", h.now); {
			case err == nil:
				taken.Add(1)
			case !errors.Is(err, action.ErrNotFound):
				h.Error(err)
			}
		})
		h.equal(taken.Load(), int64(1), "sign-ins")
	},
	"of refreshes at once, one is kept": func(h *house) {
		c, g := h.signs()
		var kept atomic.Int64
		together(16, func(i int) {
			switch err := h.any(i).PutOAuthGrant(h.ctx, g); {
			case err == nil:
				kept.Add(1)
			case !errors.Is(err, action.ErrConflict):
				h.Error(err)
			}
		})
		h.equal([]int64{kept.Load(), must(h.grantOf(c))(h).Version}, []int64{1, 2}, "refreshes, version")
	},
}
