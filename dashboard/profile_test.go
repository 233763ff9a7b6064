package dashboard_test

import (
	"slices"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
)

// modesNow are the overrides of the organization, by action.
func (h *house) modesNow() string {
	h.t.Helper()
	overrides, _, err := h.db.Overrides(h.t.Context(), org)
	if err != nil {
		h.t.Fatal(err)
	}
	var modes []string
	for _, o := range overrides {
		modes = append(modes, o.Key.Action+" "+string(o.Mode)+" by "+o.UpdatedBy)
	}
	slices.Sort(modes)
	return strings.Join(modes, ", ")
}

func TestProfileOfConnector(t *testing.T) {
	h := newHouse(t, func(c *dashboard.Config) {
		known(c)
		c.Presets = append(c.Presets, api.Preset{Name: "hub", Title: "Hub", Known: []string{"list", "drop"}, Modes: map[string]action.Mode{"drop": action.ModeAllow}})
	})
	h.watched()
	const profile = connectorsPath + "/github/profile"
	for body, code := range map[string]string{
		`{}`:                                "invalid_field",
		`{"profile":"ask","mode":"deny"}`:   "invalid_field",
		`{"profile":"odd"}`:                 "invalid_request",
		`{"mode":"allow","tools":["x*"]}`:   "invalid",
		`{"profile":"ask","preset":"none"}`: "invalid_field",
	} {
		if r := h.do(h.admin, "POST", profile, body); r.StatusCode < 400 || r.json(t)["code"] != code {
			t.Errorf("%s: %d %s", body, r.StatusCode, r.body)
		}
	}
	h.problem(404, "no_such_connector", h.admin, "POST", connectorsPath+"/none/profile", `{"profile":"ask"}`)
	if got := h.modesNow(); got != "" {
		t.Errorf("refused changes set %s", got)
	}
	view := h.want(200, h.admin, "GET", connectorsPath+"/github", "").json(t)
	if view["recognized_preset"] != "hub" || view["modes"] == nil {
		t.Errorf("the view %v", view)
	}
	h.want(200, h.admin, "POST", profile, `{"mode":"allow","tools":["l*"]}`)
	if got := h.modesNow(); got != "list allow by u-ben" {
		t.Errorf("modes %s", got)
	}
	h.want(200, h.admin, "POST", profile, `{"mode":"require_approval","only_denied":true,"tools":["list","d*"]}`)
	if got := h.modesNow(); got != "drop require_approval by u-ben, list allow by u-ben" {
		t.Errorf("modes %s", got)
	}
	view = h.want(200, h.admin, "POST", profile, `{"profile":"ask","preset":"hub"}`).json(t)
	if got := h.modesNow(); !strings.Contains(got, "drop allow by u-ben") || view["profile"] != "ask" {
		t.Errorf("modes %s, view %v", got, view)
	}
	if view["preset_modes"] == nil {
		t.Errorf("the preset's modes are not kept: %v", view)
	}
}

// A new connector asks, unless another profile is chosen, and has the modes of its
// preset.
func TestProfileOfNewConnector(t *testing.T) {
	h := newHouse(t, known)
	for body, want := range map[string]action.Profile{
		`{"name":"One","url":"https://one.example/mcp"}`:                       action.ProfileAsk,
		`{"name":"Two","url":"https://two.example/mcp","profile":"read-only"}`: action.ProfileReadOnly,
	} {
		if got := h.want(201, h.admin, "POST", connectorsPath, body).json(t)["profile"]; got != string(want) {
			t.Errorf("%s: profile %v", body, got)
		}
	}
	if r := h.do(h.admin, "POST", connectorsPath, `{"name":"Three","url":"https://three.example/mcp","profile":"odd"}`); r.StatusCode != 400 {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}

func TestModeCounts(t *testing.T) {
	for want, m := range map[string]api.ModeCounts{
		"25 tools: 7 allowed, 18 ask": {Allowed: 7, Asks: 18}, "1 tool: 1 denied": {Denied: 1}, "0 tools": {},
		"3 tools: 1 allowed, 1 ask, 1 denied": {Allowed: 1, Asks: 1, Denied: 1},
	} {
		if m.String() != want {
			t.Errorf("%q, want %q", m.String(), want)
		}
	}
}

// TestRecognizedByName: a server that lists too few of a known server's tools is
// recognized by the name that it gives itself, if there are modes for its tools.
func TestRecognizedByName(t *testing.T) {
	for _, test := range []struct {
		server, known, want string
		modes               map[string]action.Mode
	}{
		{"hub-mcp", "list", "hub", map[string]action.Mode{"dr*": action.ModeAllow}},
		{"Hub-MCP", "list", "hub", map[string]action.Mode{"dr*": action.ModeAllow}},
		{"hub-mcp", "list", "", map[string]action.Mode{"other": action.ModeAllow}},
		{"another", "list", "", map[string]action.Mode{"dr*": action.ModeAllow}},
		{"", "list", "", map[string]action.Mode{"dr*": action.ModeAllow}},
	} {
		h := newHouse(t, func(c *dashboard.Config) {
			known(c)
			c.Presets = append(c.Presets, api.Preset{Name: "hub", Title: "Hub", Known: []string{test.known, "x", "y"}, Servers: []string{"hub-mcp"}, Modes: test.modes})
		})
		h.watched()
		h.out.server = test.server
		got, _ := h.want(200, h.admin, "GET", connectorsPath+"/github", "").json(t)["recognized_preset"].(string)
		if got != test.want {
			t.Errorf("%q with modes of %v is recognized as %q, want %q", test.server, test.modes, got, test.want)
		}
	}
}
