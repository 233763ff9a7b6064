package dbtest

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// fileTemplates are databases of one file each, as they were prepared, by name.
var fileTemplates struct {
	mu sync.Mutex
	m  map[string][]byte
}

// FileFrom writes a database of one file to path, with what prepare put into
// another one. Prepare is called once in a process for each name; it closes what
// it opens, so that nothing is left beside the file.
func FileFrom(t testing.TB, name, path string, prepare func(path string) error) {
	t.Helper()
	fileTemplates.mu.Lock()
	defer fileTemplates.mu.Unlock()
	if fileTemplates.m[name] == nil {
		first := filepath.Join(t.TempDir(), "first.db")
		if err := prepare(first); err != nil {
			t.Fatalf("the template %q could not be prepared: %v", name, err)
		}
		raw, err := os.ReadFile(first)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(first + "-wal"); err == nil {
			t.Fatalf("the template %q is not closed", name)
		}
		if fileTemplates.m == nil {
			fileTemplates.m = map[string][]byte{}
		}
		fileTemplates.m[name] = raw
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, fileTemplates.m[name], 0o600); err != nil {
		t.Fatal(err)
	}
}
