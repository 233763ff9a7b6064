package connector_test

import (
	"errors"
	"net/http"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/sources/connector"
)

// TestPresets holds every preset to what the form, the command and the
// connector need of it.
func TestPresets(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`^[a-z0-9-]{1,40}$`)
	all := connector.Presets()
	seen := make(map[string]bool)
	for i, p := range all {
		t.Run(p.Name, func(t *testing.T) {
			if !name.MatchString(p.Name) || seen[p.Name] || p.Title == "" {
				t.Errorf("its name or title is bad, or another has it")
			}
			seen[p.Name] = true
			if custom := p.Name == "custom"; custom != (p.URL == "") || custom != (i == len(all)-1) {
				t.Errorf("only the last, custom, has no URL; this one is number %d and has %q", i, p.URL)
			}
			if !strings.HasSuffix(p.Hint, ".") || len(p.Hint) > 300 || strings.Count(p.Hint, ". ") > 1 {
				t.Errorf("the hint is longer than two sentences: %q", p.Hint)
			}
			checkAuth(t, p)
			checkVariants(t, p)
		})
	}
	for _, asked := range []string{"context7", "posthog", "sentry", "linear", "github", "notion", "stripe", "atlassian", "cloudflare", "supabase", "neon", "pagerduty", "playwright", "custom"} {
		if !seen[asked] {
			t.Errorf("%s is missing", asked)
		}
	}
}

func checkAuth(t *testing.T, p connector.Preset) {
	t.Helper()
	takes := func(way connector.Auth) bool { return slices.Contains(p.Auth, way) }
	for _, way := range p.Auth {
		if !slices.Contains([]connector.Auth{connector.AuthNone, connector.AuthSecret, connector.AuthOAuth}, way) {
			t.Errorf("%q is no way to authenticate", way)
		}
	}
	if len(p.Auth) == 0 || len(slices.Compact(slices.Sorted(slices.Values(p.Auth)))) != len(p.Auth) {
		t.Errorf("the ways to authenticate are %v", p.Auth)
	}
	if takes(connector.AuthOAuth) != (p.Registration != "") {
		t.Errorf("OAuth is %t and its registration %q", takes(connector.AuthOAuth), p.Registration)
	}
	if !slices.Contains([]connector.Registration{"", connector.RegisterDynamic, connector.RegisterStatic, connector.RegisterListed}, p.Registration) {
		t.Errorf("%q is no way of registration", p.Registration)
	}
	if !takes(connector.AuthSecret) && p.Header+p.Prefix != "" {
		t.Errorf("it takes no secret, and says how one is sent")
	}
	// After Authorization, the scheme is a word of its own; elsewhere there is none.
	if scheme := regexp.MustCompile(`^([A-Za-z-]+ ([a-z]+=)?)?$`); !scheme.MatchString(p.Prefix) || takes(connector.AuthSecret) && (p.Header == "") != (p.Prefix != "") {
		t.Errorf("a secret would be sent as %q: %q…", p.Header, p.Prefix)
	}
	known := []string{"url", "auth", "header", "prefix", "registration", "headers"}
	for _, field := range p.Unsure {
		if !slices.Contains(known, field) {
			t.Errorf("unsure of %q, which is no field", field)
		}
	}
}

// checkVariants makes a connector of each, as Open would.
func checkVariants(t *testing.T, p connector.Preset) {
	t.Helper()
	plain, err := p.Apply("")
	if err != nil {
		t.Fatal(err)
	}
	checkApplied(t, p, plain)
	seen := make(map[string]bool)
	for _, v := range p.Variants {
		if v.Name == "" || v.Title == "" || seen[v.Name] {
			t.Errorf("the variant %q has no name or title of its own", v.Name)
		}
		seen[v.Name] = true
		c, err := p.Apply(v.Name)
		if err != nil {
			t.Fatal(err)
		}
		checkApplied(t, p, c)
		if cmp.Equal(plain, c) {
			t.Errorf("the variant %s changes nothing", v.Name)
		}
	}
	again, err := p.Apply("")
	if diff := cmp.Diff(plain, again); err != nil || diff != "" {
		t.Errorf("after its variants were applied, the preset is another (%v):\n%s", err, diff)
	}
}

func checkApplied(t *testing.T, p connector.Preset, c action.Connector) {
	t.Helper()
	if p.Name == "custom" {
		return
	}
	u, err := guard.CheckURL(c.URL)
	if err != nil {
		t.Fatalf("%s: %v", c.URL, err)
	}
	if u.Scheme != "https" && !guard.Loopback(u) {
		t.Errorf("%s is not encrypted", c.URL)
	}
	if _, err := connector.New(connector.Config{ID: "connector:x", URL: c.URL, Header: c.Header, Prefix: c.Prefix}); err != nil {
		t.Error(err)
	}
	for name, value := range c.Headers {
		if name != textproto.CanonicalMIMEHeaderKey(name) || value == "" || http.CanonicalHeaderKey(c.Header) == name {
			t.Errorf("the header %q: %q cannot be sent along", name, value)
		}
	}
}

// TestApply has those services whose credential or address is not as anyone
// would guess.
func TestApply(t *testing.T) {
	t.Parallel()
	for _, want := range []struct {
		preset, variant string
		connector       action.Connector
	}{
		{"context7", "", action.Connector{URL: "https://mcp.context7.com/mcp", Header: "CONTEXT7_API_KEY"}},
		{"posthog", "", action.Connector{URL: "https://mcp.posthog.com/mcp?mode=tools", Prefix: "Bearer "}},
		{"sentry", "", action.Connector{URL: "https://mcp.sentry.dev/mcp", Prefix: "Sentry-Bearer "}},
		{"pagerduty", "", action.Connector{URL: "https://mcp.pagerduty.com/mcp", Prefix: "Token token="}},
		{"pagerduty", "eu", action.Connector{URL: "https://mcp.eu.pagerduty.com/mcp", Prefix: "Token token="}},
		{"linear", "read-only", action.Connector{URL: "https://mcp.linear.app/mcp/readonly", Prefix: "Bearer "}},
		{"github", "read-only", action.Connector{URL: "https://api.githubcopilot.com/mcp/readonly", Prefix: "Bearer "}},
		{"neon", "read-only", action.Connector{URL: "https://mcp.neon.tech/mcp", Prefix: "Bearer ", Headers: map[string]string{"X-Read-Only": "true"}}},
		{"atlassian", "", action.Connector{URL: "https://mcp.atlassian.com/v1/mcp/authv2", Prefix: "Bearer "}},
		{"notion", "", action.Connector{URL: "https://mcp.notion.com/mcp"}},
		{"playwright", "", action.Connector{URL: "http://localhost:8931/mcp", PerAgent: true}},
		{"custom", "", action.Connector{Prefix: "Bearer "}},
	} {
		want.connector.Preset = want.preset
		got, err := preset(t, want.preset).Apply(want.variant)
		if diff := cmp.Diff(want.connector, got); err != nil || diff != "" {
			t.Errorf("%s, variant %q: %v (-want +got):\n%s", want.preset, want.variant, err, diff)
		}
	}
}

func TestApplyOfAnUnknownVariant(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{"cloudflare": "docs, bindings", "notion": "leave it out"} {
		_, err := preset(t, name).Apply("nightly")
		var e *action.Error
		if !errors.As(err, &e) || !errors.Is(err, action.ErrInvalid) || e.Field != "/variant" || !strings.Contains(e.Message, says) {
			t.Errorf("%s: %v does not say %q of /variant", name, err, says)
		}
	}
}

func preset(t *testing.T, name string) connector.Preset {
	t.Helper()
	all := connector.Presets()
	at := slices.IndexFunc(all, func(p connector.Preset) bool { return p.Name == name })
	if at < 0 {
		t.Fatalf("there is no preset %s", name)
	}
	return all[at]
}
