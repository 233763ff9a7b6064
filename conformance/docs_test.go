package conformance_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLinksOfDocs has every document name what is there: files that it links to,
// and in the security model the tests that show each line.
func TestLinksOfDocs(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("../docs/*.md")
	if err != nil || len(documents) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	for _, root := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"} {
		documents = append(documents, filepath.Join("..", root))
	}
	link := regexp.MustCompile(`\[([^\]]+)\]\(([^)\s]+)\)`)
	for _, document := range documents {
		tests := 0
		for _, m := range link.FindAllStringSubmatch(textOf(t, document), -1) {
			text, to := strings.Trim(m[1], "`"), m[2]
			file, _, _ := strings.Cut(to, "#")
			if file == "" || strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			path := filepath.Join(filepath.Dir(document), file)
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %s: %v", document, to, err)
				continue
			}
			if strings.HasPrefix(text, "Test") && strings.HasSuffix(file, "_test.go") {
				if tests++; !strings.Contains(textOf(t, path), "\nfunc "+text+"(") {
					t.Errorf("%s: there is no %s in %s", document, text, file)
				}
			}
		}
		if filepath.Base(document) == "security.md" && tests < 40 {
			t.Errorf("the security model names %d tests", tests)
		}
	}
}

func textOf(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
