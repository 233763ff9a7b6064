package store_test

import (
	"fmt"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/store"
	"sallyport/store/connect"
)

var sessionStories = map[string]func(*house){
	"a session is stored as requested, with defaults": func(h *house) {
		ends := h.now.Add(time.Hour)
		s := action.Session{
			ID: newID(), Organization: h.org.ID, Kind: action.Unattended, Type: action.TypeAutomation, Automation: "a", Group: "g", Task: "t",
			Title: "Nightly", CreatedBy: "alice", CreatedAt: h.now, ExpiresAt: &ends,
			Status: action.SessionRunning, Tools: action.ListSearch, Prompt: "Fix it.", Model: "anthropic/claude-sonnet-4", LastSeenAt: &h.now,
			IdleTimeout: time.Minute, LeftOut: []action.LeftOut{{Integration: "i", Name: "Linear", Reason: "It was disconnected."}}, Sandbox: action.SandboxNone,
		}
		h.equal(must(h.db.CreateSession(h.ctx, s))(h), s, "the session")
		h.equal(must(h.db.Session(h.ctx, s.ID))(h), s, "the session")
		plain := must(h.db.CreateSession(h.ctx, action.Session{Organization: h.org.ID, CreatedBy: "alice"}))(h)
		h.equal([]any{plain.Kind, plain.Type, plain.ID != "", plain.CreatedAt.IsZero(), plain.Status, plain.IdleTimeout},
			[]any{action.Interactive, action.TypeCoding, true, false, action.SessionPending, time.Duration(0)}, "a plain one")
		never := must(h.db.CreateSession(h.ctx, action.Session{Organization: h.org.ID, CreatedBy: "alice", IdleTimeout: action.NeverIdle}))(h)
		h.equal(must(h.db.Session(h.ctx, never.ID))(h), never, "one that is never idle")
		auto := must(h.db.CreateSession(h.ctx, action.Session{Organization: h.org.ID, CreatedBy: "alice", Automation: "a"}))(h)
		h.equal(auto.Kind, action.Unattended, "kind with an automation")
	},
	"an invalid session is refused": func(h *house) {
		for _, s := range []action.Session{{Kind: "x"}, {Type: "x"}, {Kind: action.Interactive, Automation: "a"}, {Status: action.SessionStopped}, {Tools: "x"}, {IdleTimeout: -time.Minute}, {IdleTimeout: time.Millisecond}} {
			s.Organization, s.CreatedBy = h.org.ID, "alice"
			_, err := h.db.CreateSession(h.ctx, s)
			code := "invalid"
			if s.Automation != "" {
				code = "invalid_field"
			}
			h.refused(err, action.ErrInvalid, code)
		}
		for field, set := range map[string]func(*action.Session, string){
			"/group":         func(s *action.Session, name string) { s.Group = name },
			"/task":          func(s *action.Session, name string) { s.Task = name },
			"/automation_id": func(s *action.Session, name string) { s.Automation = name },
			"/event_id":      func(s *action.Session, name string) { s.Event = name },
		} {
			for _, name := range []string{long(200), "team*", "a\nb", "a\u202eb", "a\xff"} {
				s := action.Session{Organization: h.org.ID, CreatedBy: "alice"}
				set(&s, name)
				_, err := h.db.CreateSession(h.ctx, s)
				h.equal(h.refused(err, action.ErrInvalid, "invalid").Field, field, fmt.Sprintf("field of %q", name))
			}
		}
		_, err := h.db.Session(h.ctx, newID())
		h.refused(err, action.ErrNotFound, "session_not_found")
	},
	"revoking a session withdraws what it holds, and nothing else": func(h *house) {
		held, approved, running := h.held(`{"a":1}`), h.held(`{"a":2}`), h.allowed(`{"a":3}`)
		for _, d := range []*action.Draft{held, approved, running} {
			h.began(d)
		}
		h.approve(approved.ID)
		first := h.s
		h.s = h.session(action.Interactive)
		other := h.held(`{"a":1}`)
		h.began(other)
		withdrew := must(h.db.RevokeSession(h.ctx, h.org.ID, first.ID))(h)
		if len(withdrew) != 1 || withdrew[0].ID != held.ID || withdrew[0].DeniedReason != action.DeniedWithdrawn {
			h.Fatalf("withdrew %+v", withdrew)
		}
		rec := h.status(held.ID, action.StatusDenied)
		h.equal(rec.Invocation, withdrew[0], "what was returned and what is stored")
		if rec.SealedParams != nil {
			h.Error("the sealed params outlived the end")
		}
		h.status(approved.ID, action.StatusApproved)
		h.status(running.ID, action.StatusExecuting)
		h.status(other.ID, action.StatusPending)
		revoked := must(h.db.Session(h.ctx, first.ID))(h)
		if revoked.RevokedAt == nil {
			h.Fatal("not revoked")
		}
		h.equal(revoked.Status, action.SessionStopped, "its status")
		h.equal(len(must(h.db.RevokeSession(h.ctx, h.org.ID, first.ID))(h)), 0, "withdrawn the second time")
		h.equal(must(h.db.Session(h.ctx, first.ID))(h), revoked, "the session after a second time")
		_, err := h.db.RevokeSession(h.ctx, newHouse(h.T, h.db).org.ID, h.s.ID)
		h.refused(err, action.ErrNotFound, "session_not_found")
	},
	"sessions are listed, newest first": func(h *house) {
		ids := []string{h.s.ID}
		for i := range 5 {
			h.later(time.Second)
			s := action.Session{Organization: h.org.ID, CreatedBy: "alice", CreatedAt: h.now}
			if i == 2 {
				s.Automation = "a"
			}
			ids = append([]string{must(h.db.CreateSession(h.ctx, s))(h).ID}, ids...)
		}
		must(h.db.RevokeSession(h.ctx, h.org.ID, ids[0]))(h)
		var got []string
		f := action.SessionFilter{Organization: h.org.ID, Limit: 2}
		for range 10 {
			p := must(h.db.ListSessions(h.ctx, f))(h)
			h.equal(p.Total, 6, "total")
			for _, s := range p.Items {
				got = append(got, s.ID)
			}
			if f.Cursor = p.Next; f.Cursor == "" {
				break
			}
		}
		h.equal(got, ids, "sessions")
		live := must(h.db.ListSessions(h.ctx, action.SessionFilter{Organization: h.org.ID, Live: true}))(h)
		h.equal([]any{live.Total, live.Items[0].ID}, []any{5, ids[1]}, "live sessions")
		auto := must(h.db.ListSessions(h.ctx, action.SessionFilter{Organization: h.org.ID, Automation: "a"}))(h)
		h.equal(auto.Total, 1, "sessions of the automation")
	},
}

var policyStories = map[string]func(*house){
	"an organization is created once and keeps its name": func(h *house) {
		again := must(h.db.EnsureOrganization(h.ctx, h.org.ID, "Other"))(h)
		h.equal(again, h.org, "the organization")
		h.equal(must(h.db.Organization(h.ctx, h.org.ID))(h), h.org, "the organization")
		must(h.db.Organization(h.ctx, store.DefaultOrganization))(h)
		_, err := h.db.Organization(h.ctx, newID())
		h.refused(err, action.ErrNotFound, "organization_not_found")
	},
	"every change of policy increments its version": func(h *house) {
		read := func() ([]action.Override, int64) {
			list, version, err := h.db.Overrides(h.ctx, h.org.ID)
			h.ok(err)
			for i := range list {
				if d := list[i].UpdatedAt.Sub(h.now); d < -time.Minute || d > time.Minute {
					h.Errorf("%s was set %s from now", list[i].Key, d)
				}
				list[i].UpdatedAt = time.Time{}
			}
			h.equal(must(h.db.PolicyVersion(h.ctx, h.org.ID))(h), version, "version")
			return list, version
		}
		list, first := read()
		h.equal([]any{len(list), first}, []any{0, h.org.PolicyVersion}, "policy at first")
		all := action.Override{Organization: h.org.ID, Key: action.Key{Source: "*", Action: "*"}, Mode: action.ModeDeny, UpdatedBy: "alice"}
		one := action.Override{Organization: h.org.ID, Automation: "a", Key: action.Key{Source: "linear", Action: "create_issue"}, Mode: action.ModeAllow, UpdatedBy: "bob"}
		h.ok(h.db.SetOverride(h.ctx, all))
		h.ok(h.db.SetOverride(h.ctx, one))
		all.Mode = action.ModeRequireApproval
		h.ok(h.db.SetOverride(h.ctx, all))
		list, version := read()
		h.equal(list, []action.Override{all, one}, "policy")
		h.equal(version, first+3, "version")
		h.ok(h.db.UnsetOverride(h.ctx, h.org.ID, "a", one.Key, "alice"))
		h.refused(h.db.UnsetOverride(h.ctx, h.org.ID, "a", one.Key, "alice"), action.ErrNotFound, "override_not_found")
		list, version = read()
		h.equal(list, []action.Override{all}, "policy")
		h.equal(version, first+4, "version")
		other, _, err := h.db.Overrides(h.ctx, newHouse(h.T, h.db).org.ID)
		h.ok(err)
		h.equal(len(other), 0, "policy of another organization")
		_, _, err = h.db.Overrides(h.ctx, newID())
		h.refused(err, action.ErrNotFound, "organization_not_found")
	},
	"a mode or a connector that does not exist is refused": func(h *house) {
		o := action.Override{Organization: h.org.ID, Key: action.Key{Source: "linear", Action: "x"}, Mode: "maybe", UpdatedBy: "alice"}
		h.refused(h.db.SetOverride(h.ctx, o), action.ErrInvalid, "invalid")
		o.Mode, o.Key.Source = action.ModeAllow, "connector:"+newID()
		h.refused(h.db.SetOverride(h.ctx, o), action.ErrNotFound, "connector_not_found")
		other := newHouse(h.T, h.db)
		c := other.connector("github", "https://mcp.example.com/mcp")
		o.Key.Source = c.Source()
		h.refused(h.db.SetOverride(h.ctx, o), action.ErrNotFound, "connector_not_found")
		h.equal(must(h.db.PolicyVersion(h.ctx, h.org.ID))(h), h.org.PolicyVersion, "version")
	},
}

func (h *house) secret(key, host string) action.Secret {
	h.Helper()
	s := action.Secret{Organization: h.org.ID, Key: key, Host: host, UpdatedBy: "alice", CreatedAt: h.now, UpdatedAt: h.now}
	h.ok(h.db.PutSecret(h.ctx, s, []byte("sealed "+key)))
	return s
}

func (h *house) connector(slug, url string) action.Connector {
	h.Helper()
	c := action.Connector{ID: newID(), Organization: h.org.ID, Name: "The " + slug, Slug: slug, URL: url, Enabled: true, CreatedAt: h.now}
	h.ok(h.db.CreateConnector(h.ctx, c, nil, "alice"))
	return must(h.db.Connector(h.ctx, h.org.ID, c.ID))(h)
}

// removed deletes a connector.
func (h *house) removed(c action.Connector, by string) error {
	_, err := h.db.DeleteConnector(h.ctx, h.org.ID, c.ID, by)
	return err
}

var secretStories = map[string]func(*house){
	"a secret is written, replaced and read": func(h *house) {
		s := h.secret("github", "API.example.com")
		h.later(time.Hour)
		s.UpdatedAt, s.UpdatedBy, s.Host = h.now, "bob", "api.example.com:8443"
		h.ok(h.db.PutSecret(h.ctx, action.Secret{Organization: h.org.ID, Key: "github", Host: s.Host, UpdatedBy: "bob", CreatedAt: h.now, UpdatedAt: h.now}, []byte("new")))
		got, sealed, err := h.db.SecretValue(h.ctx, h.org.ID, "github")
		h.ok(err)
		h.equal(got, s, "the secret")
		h.equal(string(sealed), "new", "the sealed value")
		h.equal(must(h.db.ListSecrets(h.ctx, h.org.ID))(h), []action.Secret{s}, "the list")
		_, _, err = h.db.SecretValue(h.ctx, newHouse(h.T, h.db).org.ID, "github")
		h.refused(err, action.ErrNotFound, "secret_not_found")
		h.ok(h.db.DeleteSecret(h.ctx, h.org.ID, "github"))
		h.refused(h.db.DeleteSecret(h.ctx, h.org.ID, "github"), action.ErrNotFound, "secret_not_found")
	},
	"use of a secret is recorded at most once a minute": func(h *house) {
		s := h.secret("github", "api.example.com")
		for _, use := range []struct{ after, noted time.Duration }{{0, 0}, {30 * time.Second, 0}, {-time.Hour, 0}, {2 * time.Minute, 2 * time.Minute}} {
			h.ok(h.db.SecretUsed(h.ctx, h.org.ID, "github", h.now.Add(use.after)))
			h.ok(h.db.Flush(h.ctx))
			noted := h.now.Add(use.noted)
			h.equal(must(h.db.ListSecrets(h.ctx, h.org.ID))(h)[0].LastUsedAt, &noted, "the last use")
		}
		h.ok(h.db.PutSecret(h.ctx, s, []byte("new")))
		if got, _, err := h.db.SecretValue(h.ctx, h.org.ID, "github"); err != nil || got.LastUsedAt == nil {
			h.Errorf("a new value makes it unused: %+v, %v", got, err)
		}
	},
	"a secret without key or host is refused": func(h *house) {
		for field, s := range map[string]action.Secret{"/key": {Host: "a.example"}, "/host": {Key: "k"}} {
			s.Organization = h.org.ID
			h.invalid(h.db.PutSecret(h.ctx, s, nil), field, "a secret")
		}
	},
	"a secret in use stays, and stays with its host": func(h *house) {
		h.secret("k", "mcp.example.com")
		c := action.Connector{ID: newID(), Organization: h.org.ID, Name: "Git", URL: "https://mcp.example.com:443/mcp", Secret: "k"}
		h.ok(h.db.CreateConnector(h.ctx, c, nil, "alice"))
		e := h.refused(h.db.DeleteSecret(h.ctx, h.org.ID, "k"), action.ErrConflict, "secret_in_use")
		if !strings.Contains(e.Message, `"Git"`) {
			h.Errorf("%q does not name the connector", e.Message)
		}
		moved := action.Secret{Organization: h.org.ID, Key: "k", Host: "evil.example.com", UpdatedBy: "alice"}
		h.refused(h.db.PutSecret(h.ctx, moved, []byte("x")), action.ErrConflict, "secret_in_use")
		s, sealed, err := h.db.SecretValue(h.ctx, h.org.ID, "k")
		h.ok(err)
		h.equal([]string{s.Host, string(sealed)}, []string{"mcp.example.com", "sealed k"}, "the secret")
		h.secret("k", "mcp.example.com") // another value for the same host
	},
}

var connectorStories = map[string]func(*house){
	"a connector is found by id, slug and name": func(h *house) {
		c := h.connector("github", "https://mcp.example.com/mcp")
		h.equal(c.Revision, int64(1), "revision")
		for _, name := range []string{"github", "The github", "the GITHUB"} {
			h.equal(must(h.db.ConnectorByName(h.ctx, h.org.ID, name))(h), c, name)
		}
		h.equal(must(h.db.ListConnectors(h.ctx, h.org.ID))(h), []action.Connector{c}, "the list")
		for _, name := range []string{"", "gitlab"} {
			_, err := h.db.ConnectorByName(h.ctx, h.org.ID, name)
			h.refused(err, action.ErrNotFound, "connector_not_found")
		}
		_, err := h.db.Connector(h.ctx, newHouse(h.T, h.db).org.ID, c.ID)
		h.refused(err, action.ErrNotFound, "connector_not_found")
	},
	"names and slugs are unique, also among each other": func(h *house) {
		h.connector("github", "https://mcp.example.com/mcp")
		h.connector("", "https://mcp.example.com/mcp")
		for _, row := range []struct{ name, slug, field string }{
			{"the GITHUB", "other", "/name"},
			{"github", "other", "/name"},
			{"Other", "github", "/slug"},
			{"Other", "", "/slug"},
		} {
			c := action.Connector{ID: newID(), Organization: h.org.ID, Name: row.name, Slug: row.slug, URL: "https://mcp.example.com/mcp"}
			h.equal(h.refused(h.db.CreateConnector(h.ctx, c, nil, "alice"), action.ErrConflict, "connector_exists").Field, row.field, "field")
		}
		newHouse(h.T, h.db).connector("github", "https://mcp.example.com/mcp")
	},
	"an invalid connector is refused": func(h *house) {
		h.secret("k", "mcp.example.com")
		for name, row := range map[string]struct {
			change func(*action.Connector)
			field  string
		}{
			"no name":        {func(c *action.Connector) { c.Name = " " }, "/name"},
			"upper case":     {func(c *action.Connector) { c.Slug = "GitHub" }, "/slug"},
			"too long":       {func(c *action.Connector) { c.Slug = "abcdefghijklmnopq" }, "/slug"},
			"reserved":       {func(c *action.Connector) { c.Slug = "gateway" }, "/slug"},
			"no scheme":      {func(c *action.Connector) { c.URL = "mcp.example.com" }, "/url"},
			"another scheme": {func(c *action.Connector) { c.URL = "file:///etc/passwd" }, "/url"},
			"a key":          {func(c *action.Connector) { c.URL = "https://mcp.example.com/mcp?team=1&api_key=abcdefgh" }, "/url"},
			"a token in it":  {func(c *action.Connector) { c.URL = "https://mcp.example.com/s/sk_live_abcdef1234567890abcdef12/mcp" }, "/url"},
			"a password":     {func(c *action.Connector) { c.URL = "https://u:p@mcp.example.com" }, "/url"},
			"unknown risk":   {func(c *action.Connector) { c.DefaultRisk = "x" }, "/default_risk"},
			"unknown secret": {func(c *action.Connector) { c.Secret = "x" }, "/secret"},
		} {
			c := action.Connector{ID: newID(), Organization: h.org.ID, Name: "Git", Slug: "code", URL: "https://mcp.example.com/mcp"}
			row.change(&c)
			h.invalid(h.db.CreateConnector(h.ctx, c, nil, "alice"), row.field, name)
		}
	},
	"a secret is sent only to its host": func(h *house) {
		h.secret("k", "mcp.example.com")
		for _, url := range []string{"https://evil.example.com/", "https://mcp.example.com:8443/", "http://mcp.example.com:443/"} {
			c := action.Connector{ID: newID(), Organization: h.org.ID, Name: "Git", Slug: "code", URL: url, Secret: "k"}
			h.equal(h.refused(h.db.CreateConnector(h.ctx, c, nil, "alice"), action.ErrInvalid, "secret_host").Field, "/secret", url)
		}
	},
	"an organization has at most fifty": func(h *house) {
		for i := range connect.MaxConnectors {
			h.connector(fmt.Sprint("c", i), "https://mcp.example.com/mcp")
		}
		c := action.Connector{ID: newID(), Organization: h.org.ID, Name: "One more", Slug: "more", URL: "https://mcp.example.com/mcp"}
		h.refused(h.db.CreateConnector(h.ctx, c, nil, "alice"), action.ErrTooMany, "too_many_connectors")
	},
	"a change that affects calls increments the revision and the policy version": func(h *house) {
		h.secret("k", "mcp.example.com")
		c := h.connector("code", "https://mcp.example.com/mcp")
		for i, row := range []struct {
			change        func(*action.Connector)
			counts, moves bool
		}{
			{func(c *action.Connector) { c.Name = "Renamed" }, false, false},
			{func(c *action.Connector) { c.Enabled = false }, false, true},
			{func(c *action.Connector) { c.URL = "https://mcp.example.com/v2" }, true, true},
			{func(c *action.Connector) { c.Header = "X-Api-Key" }, true, true},
			{func(c *action.Connector) { c.Prefix = "Token " }, true, true},
			{func(c *action.Connector) { c.Secret = "k" }, true, true},
			{func(c *action.Connector) { c.DefaultRisk = action.RiskRead }, true, true},
			{func(*action.Connector) {}, false, false},
		} {
			before, revision := must(h.db.PolicyVersion(h.ctx, h.org.ID))(h), c.Revision
			row.change(&c)
			c.Revision = 99 // is not the caller's to say
			h.ok(h.db.UpdateConnector(h.ctx, c, nil, "alice"))
			got := must(h.db.Connector(h.ctx, h.org.ID, c.ID))(h)
			moved := must(h.db.PolicyVersion(h.ctx, h.org.ID))(h) != before
			if (got.Revision == revision+1) != row.counts || moved != row.moves {
				h.Errorf("change %d: revision %d after %d, policy moved %t", i, got.Revision, revision, moved)
			}
			c.Revision, c.UpdatedAt = got.Revision, got.UpdatedAt
			h.equal(got, c, "the connector")
		}
	},
	"a change cannot move a slug or send a secret elsewhere": func(h *house) {
		h.secret("k", "127.0.0.1:9000")
		c := h.connector("code", "http://127.0.0.1:9000/mcp")
		c.Secret = "k"
		h.ok(h.db.UpdateConnector(h.ctx, c, nil, "alice"))
		moved := c
		moved.URL = "http://127.0.0.1:9001/mcp"
		h.equal(h.refused(h.db.UpdateConnector(h.ctx, moved, nil, "alice"), action.ErrInvalid, "secret_host").Field, "/secret", "field")
		moved = c
		moved.Slug = "hub"
		h.equal(h.refused(h.db.UpdateConnector(h.ctx, moved, nil, "alice"), action.ErrInvalid, "invalid").Field, "/slug", "field")
		moved = c
		moved.Organization = newHouse(h.T, h.db).org.ID
		h.refused(h.db.UpdateConnector(h.ctx, moved, nil, "alice"), action.ErrNotFound, "connector_not_found")
	},
	"deleting a connector deletes its policy": func(h *house) {
		c := h.connector("code", "https://mcp.example.com/mcp")
		for _, automation := range []string{"", "a"} {
			h.ok(h.db.SetOverride(h.ctx, action.Override{
				Organization: h.org.ID, Automation: automation, Key: action.Key{Source: c.Source(), Action: "*"}, Mode: action.ModeAllow, UpdatedBy: "alice",
			}))
		}
		_, before, err := h.db.Overrides(h.ctx, h.org.ID)
		h.ok(err)
		h.ok(h.removed(c, "alice"))
		list, after, err := h.db.Overrides(h.ctx, h.org.ID)
		h.ok(err)
		if len(list) != 0 || after == before {
			h.Errorf("policy after: %+v, version %d after %d", list, after, before)
		}
		h.refused(h.removed(c, "alice"), action.ErrNotFound, "connector_not_found")
		h.connector("code", "https://mcp.example.com/mcp")
	},
}
