package store_test

import (
	"fmt"
	"strings"

	"sallyport/action"
)

// whole is a connector that says all that can be said of one that signs in.
func (h *house) whole() action.Connector {
	return action.Connector{
		ID: newID(), Organization: h.org.ID, Name: "Git", Slug: "code", URL: "https://mcp.example.com/mcp", Review: action.ReviewTrust,
		Headers: map[string]string{"X-Read-Only": "true", "X-Team": "a, b"},
		OAuth: &action.OAuthSettings{
			Kind: action.OAuthCode, ClientID: "https://gate.example.com/client.json", Scopes: []string{"repo:read", "user"}, Issuer: "https://login.example.com/o",
		},
		MayAsk: []action.AskKind{action.AskElicitation, action.AskRoots}, PerAgent: true, PinnedProtocol: "2025-11-25", Preset: "git", TimeoutSeconds: 90, Enabled: true, CreatedAt: h.now,
	}
}

// sealed is a secret that comes along with a connector.
func (h *house) sealed(key, host string) *action.SealedSecret {
	return &action.SealedSecret{
		Secret: action.Secret{Organization: h.org.ID, Key: key, Host: host, UpdatedBy: "alice", CreatedAt: h.now, UpdatedAt: h.now},
		Sealed: []byte("along " + key),
	}
}

// secretIs checks a secret's host and its sealed value.
func (h *house) secretIs(key, host, sealed string) {
	h.Helper()
	s, value, err := h.db.SecretValue(h.ctx, h.org.ID, key)
	h.ok(err)
	h.equal([]string{s.Host, string(value)}, []string{host, sealed}, "the secret")
}

var extentStories = map[string]func(*house){
	"every field of a connector is stored and counts": func(h *house) {
		h.secret("client", "login.example.com")
		c := h.whole()
		h.ok(h.db.CreateConnector(h.ctx, c, nil, "alice"))
		c.Revision = 1
		for i, row := range []struct {
			change func()
			counts int64
		}{
			{func() {}, 0},
			{func() { c.Preset = "" }, 0},
			{func() { c.Headers = map[string]string{"X-Read-Only": "false", "X-Team": "a, b"} }, 1},
			{func() { c.Headers = nil }, 1},
			{func() { c.MayAsk = c.MayAsk[:1] }, 1},
			{func() { c.MayAsk = nil }, 1},
			{func() { c.PerAgent = false }, 1},
			{func() { c.PinnedProtocol = "" }, 1},
			{func() { c.TimeoutSeconds = 0 }, 1},
			{func() { o := *c.OAuth; o.Scopes = o.Scopes[:1]; c.OAuth = &o }, 1},
			{func() { o := *c.OAuth; o.Kind, o.ClientSecret = action.OAuthClient, "client"; c.OAuth = &o }, 1},
			{func() { c.OAuth = nil }, 1},
		} {
			row.change()
			h.ok(h.db.UpdateConnector(h.ctx, c, nil, "alice"))
			got := must(h.db.Connector(h.ctx, h.org.ID, c.ID))(h)
			c.Revision, c.UpdatedAt = c.Revision+row.counts, got.UpdatedAt
			h.equal(got, c, fmt.Sprint("the connector after change ", i))
		}
	},
	"invalid headers, questions and OAuth settings are refused": func(h *house) {
		h.secret("k", "mcp.example.com")
		many, scopes := map[string]string{}, []string{}
		for i := range 51 {
			scopes = append(scopes, fmt.Sprint("s", i))
			if i < 11 {
				many[fmt.Sprint("X-", i)] = "x"
			}
		}
		one := func(name, value string) func(*action.Connector) {
			return func(c *action.Connector) { c.Headers = map[string]string{name: value} }
		}
		oauth := func(change func(*action.OAuthSettings)) func(*action.Connector) {
			return func(c *action.Connector) { change(c.OAuth) }
		}
		for name, row := range map[string]struct {
			change func(*action.Connector)
			field  string
		}{
			"eleven headers":        {func(c *action.Connector) { c.Headers = many }, "/headers"},
			"no name":               {one("", "x"), "/headers/"},
			"a name with a space":   {one("X Y", "x"), "/headers/X Y"},
			"a name with a colon":   {one("X:", "x"), "/headers/X:"},
			"a name with a break":   {one("X\r\nY", "x"), "/headers/X\r\nY"},
			"a long name":           {one(strings.Repeat("x", 101), "x"), "/headers/" + strings.Repeat("x", 101)},
			"the protocol's":        {one("mcp-session-id", "x"), "/headers/mcp-session-id"},
			"HTTP's":                {one("content-LENGTH", "1"), "/headers/content-LENGTH"},
			"a cookie":              {one("Cookie", "a=b"), "/headers/Cookie"},
			"who speaks":            {one("User-Agent", "x"), "/headers/User-Agent"},
			"a leave to repeat":     {one("idempotency-key", "x"), "/headers/idempotency-key"},
			"where it comes from":   {one("Origin", "https://x"), "/headers/Origin"},
			"a secret as protocol":  {func(c *action.Connector) { c.Header = "Keep-Alive" }, "/header"},
			"a secret as nothing":   {func(c *action.Connector) { c.Header = "X Y" }, "/header"},
			"a break before it":     {func(c *action.Connector) { c.Prefix = "Bearer\n" }, "/prefix"},
			"the usual credential":  {one("authorization", "x"), "/headers/authorization"},
			"the credential's own":  {func(c *action.Connector) { c.Header = "X-Git"; one("x-git", "x")(c) }, "/headers/x-git"},
			"twice":                 {func(c *action.Connector) { c.Headers = map[string]string{"X-a": "1", "x-A": "2"} }, "/headers/x-A"},
			"no value":              {one("X-A", ""), "/headers/X-A"},
			"a break in the value":  {one("X-A", "a\r\nX-B: c"), "/headers/X-A"},
			"beyond ASCII":          {one("X~A", "ä"), "/headers/X~0A"},
			"a long value":          {one("X-A", strings.Repeat("x", 1025)), "/headers/X-A"},
			"a token":               {one("X-A", "sk_live_abcdef1234567890abcdef12"), "/headers/X-A"},
			"a name for a secret":   {one("X-Api-Key", "abc"), "/headers/X-Api-Key"},
			"a long time":           {func(c *action.Connector) { c.TimeoutSeconds = 121 }, "/timeout_seconds"},
			"no time at all":        {func(c *action.Connector) { c.TimeoutSeconds = -1 }, "/timeout_seconds"},
			"an unknown question":   {func(c *action.Connector) { c.MayAsk = []action.AskKind{action.AskRoots, "riddle"} }, "/may_ask/1"},
			"a question twice":      {func(c *action.Connector) { c.MayAsk = []action.AskKind{action.AskRoots, action.AskRoots} }, "/may_ask/1"},
			"a long preset":         {func(c *action.Connector) { c.Preset = strings.Repeat("x", 41) }, "/preset"},
			"a preset in two lines": {func(c *action.Connector) { c.Preset = "a\nb" }, "/preset"},
			"OAuth and a secret":    {func(c *action.Connector) { c.Secret = "k" }, "/oauth"},
			"an unknown grant type": {oauth(func(o *action.OAuthSettings) { o.Kind = "implicit" }), "/oauth/kind"},
			"an issuer over http":   {oauth(func(o *action.OAuthSettings) { o.Issuer = "http://login.example.com" }), "/oauth/issuer"},
			"an issuer's query":     {oauth(func(o *action.OAuthSettings) { o.Issuer = "https://login.example.com/?a=b" }), "/oauth/issuer"},
			"an issuer's user":      {oauth(func(o *action.OAuthSettings) { o.Issuer = "https://u:p@login.example.com" }), "/oauth/issuer"},
			"no URL":                {oauth(func(o *action.OAuthSettings) { o.Issuer = "login.example.com" }), "/oauth/issuer"},
			"too many scopes":       {oauth(func(o *action.OAuthSettings) { o.Scopes = scopes }), "/oauth/scopes"},
			"a long scope":          {oauth(func(o *action.OAuthSettings) { o.Scopes = []string{strings.Repeat("s", 201)} }), "/oauth/scopes/0"},
			"a long client":         {oauth(func(o *action.OAuthSettings) { o.ClientID = strings.Repeat("c", 1025) }), "/oauth/client_id"},
			"a scope with a space":  {oauth(func(o *action.OAuthSettings) { o.Scopes = []string{"a", "b c"} }), "/oauth/scopes/1"},
			"a scope twice":         {oauth(func(o *action.OAuthSettings) { o.Scopes = []string{"a", "a"} }), "/oauth/scopes/1"},
			"a client in two lines": {oauth(func(o *action.OAuthSettings) { o.ClientID = "a\nb" }), "/oauth/client_id"},
			"a secret of no client": {oauth(func(o *action.OAuthSettings) { o.ClientID, o.ClientSecret = "", "k" }), "/oauth/client_id"},
			"an unknown secret":     {oauth(func(o *action.OAuthSettings) { o.ClientSecret = "x" }), "/oauth/client_secret"},
		} {
			c := h.whole()
			row.change(&c)
			h.invalid(h.db.CreateConnector(h.ctx, c, nil, "alice"), row.field, name)
		}
		c := h.whole()
		c.OAuth.Issuer, c.OAuth.ClientSecret = "http://127.0.0.1:9000", "k"
		c.OAuth.ClientID, c.OAuth.Scopes = strings.Repeat("c", 1024), append(scopes[:49:49], strings.Repeat("s", 200))
		c.Headers = map[string]string{strings.Repeat("x", 100): strings.Repeat("y ", 511) + "yy"}
		h.ok(h.db.CreateConnector(h.ctx, c, nil, "alice"))
		c.Headers = map[string]string{"Cookie": "a=b"}
		h.invalid(h.db.UpdateConnector(h.ctx, c, nil, "alice"), "/headers/Cookie", "a change")
	},
	"a secret and its connector are stored together or not at all": func(h *house) {
		c := h.whole()
		c.OAuth, c.Secret = nil, "k"
		h.refused(h.db.CreateConnector(h.ctx, c, h.sealed("k", "other.example.com"), "alice"), action.ErrInvalid, "secret_host")
		_, _, err := h.db.SecretValue(h.ctx, h.org.ID, "k")
		h.refused(err, action.ErrNotFound, "secret_not_found")
		h.refused(h.db.CreateConnector(h.ctx, c, h.sealed("else", "mcp.example.com"), "alice"), action.ErrInvalid, "invalid")
		h.ok(h.db.CreateConnector(h.ctx, c, h.sealed("k", "mcp.example.com"), "alice"))
		h.secretIs("k", "mcp.example.com", "along k")

		c.URL = "https://new.example.com/mcp"
		e := h.refused(h.db.UpdateConnector(h.ctx, c, nil, "alice"), action.ErrInvalid, "secret_host")
		if !strings.Contains(e.Message, "Set it again") {
			h.Errorf("%q does not say what to do", e.Message)
		}
		h.ok(h.db.UpdateConnector(h.ctx, c, h.sealed("k", "new.example.com"), "alice"))
		h.secretIs("k", "new.example.com", "along k")
		h.equal(must(h.db.Connector(h.ctx, h.org.ID, c.ID))(h).URL, c.URL, "URL")
		stranger := h.sealed("k", "new.example.com")
		stranger.Organization = newHouse(h.T, h.db).org.ID
		h.refused(h.db.UpdateConnector(h.ctx, c, stranger, "alice"), action.ErrInvalid, "invalid")
	},
	"a secret used by others keeps its host": func(h *house) {
		c := h.whole()
		c.OAuth, c.Secret = nil, "k"
		h.ok(h.db.CreateConnector(h.ctx, c, h.sealed("k", "mcp.example.com"), "alice"))
		other := h.whole()
		other.OAuth, other.Secret, other.Name, other.Slug = nil, "k", "Hub", "hub"
		h.ok(h.db.CreateConnector(h.ctx, other, nil, "alice"))
		c.URL = "https://new.example.com/mcp"
		h.refused(h.db.UpdateConnector(h.ctx, c, h.sealed("k", "new.example.com"), "alice"), action.ErrConflict, "secret_in_use")
		h.secretIs("k", "mcp.example.com", "along k")
	},
	"a client secret in use cannot be deleted": func(h *house) {
		c := h.whole()
		c.OAuth.ClientSecret = "client"
		h.ok(h.db.CreateConnector(h.ctx, c, h.sealed("client", "login.example.com"), "alice"))
		h.refused(h.db.DeleteSecret(h.ctx, h.org.ID, "client"), action.ErrConflict, "secret_in_use")
		moved := h.sealed("client", "evil.example.com")
		h.refused(h.db.PutSecret(h.ctx, moved.Secret, moved.Sealed), action.ErrConflict, "secret_in_use")
		other := h.whole()
		other.OAuth, other.Secret, other.Name, other.Slug, other.URL = nil, "client", "Hub", "hub", "https://evil.example.com/mcp"
		h.refused(h.db.CreateConnector(h.ctx, other, moved, "alice"), action.ErrConflict, "secret_in_use")
		h.secretIs("client", "login.example.com", "along client")
		h.secret("client", "LOGIN.example.com:443")
		h.ok(h.db.UpdateConnector(h.ctx, c, h.sealed("client", "token.example.com"), "alice"))
		h.ok(h.removed(c, "alice"))
		h.ok(h.db.DeleteSecret(h.ctx, h.org.ID, "client"))
	},
}
