package dashboard_test

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
)

var update = flag.Bool("update", false, "write openapi.json anew")

// The description that programs are written against changes only on purpose.
func TestOpenAPI(t *testing.T) {
	h := newHouse(t)
	served := h.want(200, "", "GET", "/api/v1/openapi.json", "").body
	if *update {
		if err := os.WriteFile("openapi.json", []byte(served), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(committed), served); diff != "" {
		t.Errorf("openapi.json is not what is served; run go test ./dashboard -update (-committed +served):\n%s", diff)
	}
}

// Every operation says what it is for, who may use it, and which errors it
// has; every body that is sent has an example.
func TestOpenAPIIsComplete(t *testing.T) {
	h := newHouse(t)
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			Summary, Description string
			Responses            map[string]any
			RequestBody          *struct {
				Content map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					}
				}
			}
		}
		Components struct {
			Schemas map[string]struct{ Examples []any }
		}
	}
	raw, err := h.srv.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("version %s", doc.OpenAPI)
	}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			if op.Summary == "" || !strings.Contains(op.Description, "Who: ") || op.Responses["401"] == nil || op.Responses["400"] == nil {
				t.Errorf("%s %s is described badly", method, path)
			}
			if op.RequestBody == nil || strings.Contains(path, "/evidence/") { // bytes, and no example of them
				continue
			}
			name := strings.TrimPrefix(op.RequestBody.Content["application/json"].Schema.Ref, "#/components/schemas/")
			if len(doc.Components.Schemas[name].Examples) == 0 {
				t.Errorf("%s %s: the body %q has no example", method, path, name)
			}
		}
	}
	if _, ok := doc.Components.Schemas["ErrorModel"]; ok {
		t.Error("huma's own error is described")
	}
}

// What the description shows as an example of a body, the server takes.
func TestExamplesOfBodies(t *testing.T) {
	h := newHouse(t)
	h.connected(action.Integration{ID: "0199a3c6-0000-7000-8000-000000000001", Provider: "linear"})
	var doc struct {
		Paths map[string]map[string]struct {
			RequestBody *struct {
				Content map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					}
				}
			}
		}
		Components struct {
			Schemas map[string]struct{ Examples []json.RawMessage }
		}
	}
	raw, err := h.srv.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			if op.RequestBody == nil || strings.Contains(path, "/evidence/") { // bytes, and no example of them
				continue
			}
			name := strings.TrimPrefix(op.RequestBody.Content["application/json"].Schema.Ref, "#/components/schemas/")
			path := strings.NewReplacer("{session}", "s1", "{name}", "small", "{id}", "none", "{ref}", "github", "{key}", "github:create", "{group}", "developer", "{provider}", "github", "{automation}", "nightly", "{kind}", "webhook").Replace(path)
			if strings.Contains(path, "apps") {
				path = "/api/v1/integrations/apps/linear"
			}
			if strings.HasSuffix(path, "/repositories/sync") { // of an integration, of which there is none here
				continue
			}
			if strings.Contains(path, "secrets") {
				path = "/api/v1/secrets/example"
			}
			credential := h.owner
			if strings.HasSuffix(path, "/invoke") || strings.HasSuffix(path, "/actions/grants") {
				credential = h.agent
			}
			r := h.do(credential, strings.ToUpper(method), path, strings.ReplaceAll(string(doc.Components.Schemas[name].Examples[0]), `"default"`, `"`+org+`"`))
			// The head of a chain is good for that one alone.
			if head := name == "KnownHead" && r.json(t)["field"] == "/head"; r.StatusCode == 400 && !head {
				t.Errorf("%s %s refuses its example: %s", method, path, r.body)
			}
		}
	}
}
