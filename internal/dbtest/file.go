package dbtest

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// fileTemplates holds the prepared database files, by name.
var fileTemplates struct {
	mu sync.Mutex
	m  map[string][]byte
}

// FileFrom writes a copy of the database file that prepare filled to path.
// prepare runs once in a process for each name, and must close the file, so
// that no WAL is left.
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
