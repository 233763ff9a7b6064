package conformance_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestRoutesOfDocs keeps the overview of the API what the API is: its routes by
// resource, from the description that the gateway serves.
func TestRoutesOfDocs(t *testing.T) {
	t.Parallel()
	const (
		page   = "../docs/api.md"
		opens  = "<!-- A test writes this: go test ./conformance -run TestRoutesOfDocs -update -->\n"
		closes = "<!-- the end of what the test writes -->\n"
	)
	before, rest, ok := strings.Cut(textOf(t, page), opens)
	old, after, closed := strings.Cut(rest, closes)
	if !ok || !closed {
		t.Fatalf("%s lacks one of the lines\n%s%s", page, opens, closes)
	}
	made := routesOf(t, textOf(t, "../dashboard/openapi.json"))
	if *update {
		if err := os.WriteFile(page, []byte(before+opens+made+closes+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if old != made {
		t.Errorf("%s has other routes than the API; run: go test ./conformance -run TestRoutesOfDocs -update", page)
	}
}

func routesOf(t *testing.T, description string) string {
	t.Helper()
	var api struct {
		Paths map[string]map[string]struct {
			Tags        []string
			Summary     string
			Description string
		}
	}
	if err := json.Unmarshal([]byte(description), &api); err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for _, path := range slices.Sorted(maps.Keys(api.Paths)) {
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			o, there := api.Paths[path][method]
			if !there {
				continue
			}
			_, who, told := strings.Cut(o.Description, "Who: ")
			if !told || len(o.Tags) != 1 || o.Summary == "" {
				t.Fatalf("%s %s does not tell its resource, what it does, or who may", method, path)
			}
			summary := strings.ToUpper(o.Summary[:1]) + o.Summary[1:]
			rows[o.Tags[0]] = append(rows[o.Tags[0]],
				fmt.Sprintf("| `%s %s` | %s | %s |\n", strings.ToUpper(method), path, summary, strings.TrimSuffix(who, ".")))
		}
	}
	if len(rows) < 10 {
		t.Fatalf("the description has %d resources", len(rows))
	}
	var b strings.Builder
	for _, resource := range slices.Sorted(maps.Keys(rows)) {
		title := strings.ToUpper(resource[:1]) + resource[1:]
		if resource == "api keys" {
			title = "API keys"
		}
		fmt.Fprintf(&b, "\n### %s\n\n| route | does | who |\n|---|---|---|\n%s", title, strings.Join(rows[resource], ""))
	}
	return b.String() + "\n"
}
