package conformance_test

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// maxDirectModules bounds the modules of others that the program imports itself:
// lower it when one goes; a new one replaces another, or has a reason that is
// worth raising the bound.
const maxDirectModules = 26

// TestImportedModules counts the modules of others that the program imports,
// tests not counted. With -v it names them.
func TestImportedModules(t *testing.T) {
	direct := directModules(t)
	t.Logf("%d direct modules: %s", len(direct), strings.Join(direct, " "))
	if len(direct) > maxDirectModules {
		t.Errorf("the program imports %d modules of others, and may import %d: %s", len(direct), maxDirectModules, strings.Join(direct, " "))
	}
}

// TestImportedModulesExcludeGRPC: gRPC made the binary 3 MB larger, for a client of
// collectors that only spoke HTTP.
func TestImportedModulesExcludeGRPC(t *testing.T) {
	if _, linked := modulesOf(t)["google.golang.org/grpc"]; linked {
		t.Error("the program links gRPC; see go mod why, or go list -deps ./cmd/sallyport")
	}
}

// directModules are the modules of the packages that ours import, of those that
// the program is made of.
func directModules(t *testing.T) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Imports,Module", "./cmd/sallyport")
	list.Dir = ".."
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	moduleOf, imported := map[string]string{}, map[string]bool{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			goPackage
			Module *goModule
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		switch {
		case p.Module == nil: // the standard library's
		case !p.Module.Main:
			moduleOf[p.ImportPath] = p.Module.Path
		default:
			for _, i := range p.Imports {
				imported[i] = true
			}
		}
	}
	direct := map[string]bool{}
	for i := range imported {
		if m := moduleOf[i]; m != "" {
			direct[m] = true
		}
	}
	if len(direct) == 0 {
		t.Fatal("go list found no module of others")
	}
	return slices.Sorted(maps.Keys(direct))
}

// TestImportedVersions: the modules beside the program's own, which go.work joins
// to it, choose no other versions for it. What is tested is then what is
// released.
func TestImportedVersions(t *testing.T) {
	versions := func(env string) map[string]string {
		all := map[string]string{}
		for path, m := range modulesOf(t, env) {
			all[path] = m.Version
		}
		return all
	}
	if diff := cmp.Diff(versions("GOWORK=off"), versions("GOWORK=")); diff != "" {
		t.Errorf("go.work selects other versions for the program than go.mod; raise them in go.mod, then go mod tidy in each module (-go.mod +go.work):\n%s", diff)
	}
}
