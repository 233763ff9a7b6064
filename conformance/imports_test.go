package conformance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "sallyport"

// goPackage is what go list tells of a package.
type goPackage struct {
	ImportPath   string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// words are the packages that every other may import, and that themselves
// import nothing but the standard library.
func words() []string { return []string{module + "/action", eventWords} }

const (
	eventWords  = module + "/ingest/event"
	gatePackage = module + "/action/gate"
)

// apiPackage declares the HTTP API; everyone may import it, and it knows the words alone.
const apiPackage = module + "/api"

// outermost are the folders that know everyone: what wires the program, what
// measures it, and what tests parts of it against programs of others.
func outermost() []string {
	return []string{module + "/cmd", module + "/bench", module + "/conformance/connectorclient", module + "/conformance/interop"}
}

// TestImportRule holds the shape of the house: packages share words, never
// each other; only the outermost know everyone.
func TestImportRule(t *testing.T) {
	packages := listPackages(t)
	for _, known := range []string{words()[0], module + "/bench", module + "/conformance"} {
		if !slices.ContainsFunc(packages, func(p goPackage) bool { return p.ImportPath == known }) {
			t.Fatalf("go list did not find %s; was it run in the right folder?", known)
		}
	}
	rooms := drawnArrows(t, packages)
	for _, broken := range brokenImports(packages, rooms) {
		t.Error(broken)
	}
	for _, a := range rooms {
		if !slices.ContainsFunc(packages, func(p goPackage) bool { return p.ImportPath == a.from && slices.Contains(p.Imports, a.to) }) {
			t.Errorf("ARCHITECTURE.md shows %s → %s, and there is no such import: remove the arrow", a.from, a.to)
		}
	}
}

// maxFiles is how many Go files a folder may have, tests not counted: more than
// that are several subjects, and each deserves a package.
const maxFiles = 30

// TestFolderSize keeps folders small enough to be read as a list.
func TestFolderSize(t *testing.T) {
	packages := listPackages(t)
	if len(packages) == 0 {
		t.Fatal("go list found no packages")
	}
	for _, p := range packages {
		folder := strings.TrimPrefix(p.ImportPath, module+"/")
		n := len(p.GoFiles)
		if n > maxFiles {
			t.Errorf("%s has %d Go files, and a folder has at most %d: move a subject into a package of its own, or merge small files", folder, n, maxFiles)
		}
	}
}

// arrow is an import between packages of one top-level folder.
type arrow struct{ from, to string }

// drawnArrows reads the arrows that ARCHITECTURE.md shows between the packages
// of a top-level folder: lines of the form "store/calls → database, people", where
// each target is a child of the package or stands beside it.
func drawnArrows(t *testing.T, packages []goPackage) []arrow {
	t.Helper()
	page, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	var arrows []arrow
	for line := range strings.Lines(string(page)) {
		from, to, drawn := strings.Cut(strings.TrimSpace(line), " → ")
		if !drawn || strings.ContainsAny(from, " |") {
			continue
		}
		for target := range strings.SplitSeq(to, ", ") {
			child := module + "/" + from + "/" + target
			if !slices.ContainsFunc(packages, func(p goPackage) bool { return p.ImportPath == child }) {
				child = module + "/" + path.Dir(from) + "/" + target
			}
			arrows = append(arrows, arrow{module + "/" + from, child})
		}
	}
	return arrows
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,GoFiles,Imports,TestImports,XTestImports", module+"/...")
	list.Dir = ".."
	out, err := list.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	var packages []goPackage
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		packages = append(packages, p)
	}
}

// brokenImports tells every import that the rule forbids, in words.
func brokenImports(packages []goPackage, rooms []arrow) []string {
	var broken []string
	for _, p := range packages {
		for _, i := range p.Imports {
			if why := forbidden(p.ImportPath, i, false, rooms); why != "" {
				broken = append(broken, fmt.Sprintf("%s imports %s: %s", p.ImportPath, i, why))
			}
		}
		tests := slices.Concat(p.TestImports, p.XTestImports)
		slices.Sort(tests)
		for _, i := range slices.Compact(tests) {
			if why := forbidden(p.ImportPath, i, true, rooms); why != "" {
				broken = append(broken, fmt.Sprintf("a test of %s imports %s: %s", p.ImportPath, i, why))
			}
		}
	}
	return broken
}

// forbidden tells why p may not import i, or nothing when it may.
func forbidden(p, i string, test bool, rooms []arrow) string {
	ours := i == module || strings.HasPrefix(i, module+"/")
	switch {
	case ours && !test && i != p && i != path.Dir(p) && i != eventWords && topFolder(p) == topFolder(i) && !within(i, module+"/internal") && !within(p, module+"/conformance"):
		if slices.Contains(rooms, arrow{p, i}) {
			return ""
		}
		return "packages of one top-level folder import only their parent and what ARCHITECTURE.md shows as an arrow"
	case slices.ContainsFunc(outermost(), func(folder string) bool { return within(p, folder) }):
		return ""
	case slices.Contains(words(), p) && !test && (ours || thirdParty(i)):
		return "the words import the standard library only"
	case p == apiPackage && !test && (ours && !slices.Contains(words(), i) || thirdParty(i)):
		return "the API imports the words and the standard library only"
	case !ours, i == p:
		return ""
	case slices.Contains(words(), i), i == apiPackage, within(i, module+"/internal"):
		return ""
	case i == path.Dir(p):
		return ""
	case i == module+"/conformance/harness" && within(p, module+"/conformance"):
		return "" // the parts that tests of whole programs are made of
	case test && within(i, p):
		return "" // what all children have in common, as in sources/modules_test.go
	case test && (realParts(p, i) || slices.Contains(rooms, arrow{p, i})):
		return "" // a test may use what its package may
	}
	return "only cmd imports everyone; the others import action, ingest/event, api, internal and their parent folder"
}

// realParts reports whether tests of p run with the real i, so that no fake
// stands in for the store or the Gate.
func realParts(p, i string) bool {
	switch p {
	case module + "/dashboard":
		return i == module+"/store" || i == gatePackage
	case module + "/policy":
		return i == gatePackage
	}
	return false
}

// topFolder is the first folder of a package's path within the module.
func topFolder(p string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(p, module+"/"), "/")
	return first
}

func within(p, folder string) bool { return p == folder || strings.HasPrefix(p, folder+"/") }

// thirdParty goes by the go command's own convention: the first element of a
// standard library path has no dot.
func thirdParty(i string) bool {
	first, _, _ := strings.Cut(i, "/")
	return strings.Contains(first, ".")
}

// TestImportRuleBites proves that the rule forbids what it should.
func TestImportRuleBites(t *testing.T) {
	rooms := []arrow{{module + "/store", module + "/store/calls"}}
	for _, c := range []struct {
		p, i string
		test bool
		ok   bool
	}{
		{p: "store", i: "store/calls", ok: true},
		{p: "store/calls", i: "store", ok: true},
		{p: "policy", i: "action/gate", test: true, ok: true},
		{p: "cmd/sallyport", i: "store", ok: true},
		{p: "bench", i: "internal/dbtest", ok: true},
		{p: "bench/growth", i: "store", ok: true},
		{p: "conformance/connectorclient", i: "sources/connector", ok: true},
		{p: "conformance/interop", i: "sources/linear", test: true, ok: true},
		{p: "conformance/opencode", i: "conformance/harness", test: true, ok: true},
		{p: "policy", i: "action", ok: true},
		{p: "policy", i: "ingest/event", ok: true},
		{p: "policy", i: "internal/seal", ok: true},
		{p: "policy", i: "github.com/google/uuid", ok: true},
		{p: "sources/connector", i: "sources", ok: true},
		{p: "store", i: "store", test: true, ok: true},
		{p: "sources", i: "sources/linear", test: true, ok: true},
		{p: "dashboard", i: "store", test: true, ok: true},
		{p: "action", i: "encoding/json", ok: true},
		{p: "dashboard", i: "api", ok: true},
		{p: "client", i: "api", ok: true},
		{p: "api", i: "action", ok: true},
		{p: "action", i: "github.com/google/go-cmp/cmp", test: true, ok: true},

		{p: "api", i: "internal/seal"},
		{p: "api", i: "dashboard"},
		{p: "api", i: "github.com/google/uuid"},
		{p: "action", i: "api"},
		{p: "policy", i: "action/gate"},
		{p: "action", i: "action/gate"},
		{p: "store", i: "store/people"},
		{p: "store/people", i: "store/calls"},
		{p: "cmd/sallyport/cli", i: "cmd/sallyport/server"},
		{p: "policy", i: "store"},
		{p: "policy", i: "store", test: true},
		{p: "dashboard", i: "store"},
		{p: "dashboard", i: "store/files", test: true},
		{p: "dashboard/notify", i: "store", test: true},
		{p: "policy", i: "cmd/sallyport"},
		{p: "internal/seal", i: "store"},
		{p: "conformance", i: "dashboard", test: true},
		{p: "conformance/page", i: "store", test: true},
		{p: "conformance/harness", i: "store"},
		{p: "store", i: "conformance/harness", test: true},
		{p: "store", i: "bench"},
		{p: "benches", i: "store"},
		{p: "sources", i: "sources/connector"},
		{p: "sources/linear", i: "sources/connector"},
		{p: "sources/linear", i: "sources/connector", test: true},
		{p: "sources/connector/wire", i: "sources"},
		{p: "ingest", i: "store"},
		{p: "action", i: "internal/seal"},
		{p: "action", i: "policy", test: true},
		{p: "action", i: "ingest/event"},
		{p: "action", i: "github.com/google/uuid"},
		{p: "ingest/event", i: "github.com/google/uuid"},
		{p: "actions", i: "policy"}, // a name that only begins like a word
		{p: "policy", i: "actions"}, // and the other way round
		{p: "policy", i: "internals"},
	} {
		imported := c.i
		if !thirdParty(c.i) && c.i != "encoding/json" {
			imported = module + "/" + c.i
		}
		p := goPackage{ImportPath: module + "/" + c.p, Imports: []string{imported}}
		if c.test {
			p = goPackage{ImportPath: p.ImportPath, XTestImports: p.Imports}
		}
		if diff := cmp.Diff(c.ok, len(brokenImports([]goPackage{p}, rooms)) == 0); diff != "" {
			t.Errorf("%s imports %s (test: %t): allowed (-want +got):\n%s", c.p, c.i, c.test, diff)
		}
	}
}
