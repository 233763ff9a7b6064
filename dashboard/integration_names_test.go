package dashboard_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
)

// What stands for something else where sessions are bound is no name.
func TestNamesThatAreReserved(t *testing.T) {
	h := newHouse(t)
	id := h.want(201, h.admin, "POST", integrationsPath, `{"provider":"linear","secret":"acme-1","name":"Linear"}`).json(t)["id"].(string)
	for _, name := range []string{"all", " All ", "github", "GitHub", "module:linear", "Module:x", "connector:c1"} {
		for what, r := range map[string]reply{
			"connected": h.do(h.admin, "POST", integrationsPath, `{"provider":"linear","secret":"other-1","name":"`+name+`"}`),
			"begun":     h.do(h.admin, "POST", integrationsPath+"/connect", `{"provider":"linear","name":"`+name+`"}`),
			"changed":   h.do(h.admin, "PATCH", integrationsPath+"/"+id, `{"name":"`+name+`"}`),
		} {
			if r.StatusCode != 400 || r.json(t)["field"] != "/name" {
				t.Errorf("%s as %q: %d %s", what, name, r.StatusCode, r.body)
			}
		}
	}
	h.want(200, h.admin, "PATCH", integrationsPath+"/"+id, `{"name":"All of Acme"}`)
}

// An id goes before a provider's id, and that before a name.
func TestSessionsBoundByName(t *testing.T) {
	h := newHouse(t)
	add := func(id, provider, name, user string) {
		h.connected(action.Integration{ID: id, Provider: provider, User: user, Name: name})
	}
	add("l1", "linear", "Ours", "")
	add("g1", "github", "l1", "")     // which is another's id
	add("g2", "github", "linear", "") // which is a provider's: named so before that was refused
	add("g3", "github", "Twice", "")
	add("g4", "github", "twice", "")
	add("g5", "github", "Code", "")
	add("own", "linear", "Cyd's", "u-cyd")
	add("his", "gmail", "Code", "u-cyd")
	for name, want := range map[string]string{"l1": "l1", "linear": "l1", "module:linear": "l1", "ours": "l1", "Code": "g5"} {
		id := h.want(201, h.member, "POST", "/api/v1/sessions", `{"connections":["`+name+`"]}`).json(t)["session_id"]
		if diff := cmp.Diff([]string{want}, must(h.db.Session(t.Context(), id.(string))).Connections); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for name, says := range map[string]string{
		"Twice": "Use the ID of one: g3 (Twice), g4 (twice)", "Cyd's": "personal connection", "module:Ours": "no integration or provider", "Nobody": "no integration or provider",
	} {
		p := h.problem(400, "invalid_field", h.member, "POST", "/api/v1/sessions", `{"connections":["`+name+`"]}`)
		if !strings.Contains(p["detail"].(string), says) || p["field"] != "/connections/0" {
			t.Errorf("%s: %v", name, p)
		}
	}
}

// Whoever adds a connector that is called like a module is told how to name
// each.
func TestAConnectorThatIsCalledLikeAModule(t *testing.T) {
	h := newHouse(t)
	const body = `","url":"https://mcp.example.com/mcp"}`
	for name, warned := range map[string]bool{`Linear","slug":"issues`: true, `Issues","slug":"linear`: true, "Tickets": false} {
		c := h.want(201, h.admin, "POST", connectorsPath, `{"name":"`+name+body).json(t)
		said := ""
		for _, w := range c["warnings"].([]any) {
			said += w.(string)
		}
		if got := strings.Contains(said, "connector:"+c["id"].(string)) && strings.Contains(said, "module:linear"); got != warned {
			t.Errorf("%s: warned %q", name, said)
		}
		h.want(204, h.admin, "DELETE", connectorsPath+"/"+c["id"].(string), "")
	}
}
