package dbtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// cluster is the PostgreSQL server that the tests of a process share.
type cluster struct {
	mu        sync.Mutex // protects the fields below; held while the server starts
	server    *Server
	err       error
	databases int
	templates map[string]*template
}

// template is a database that is filled once and then copied.
type template struct {
	fill sync.Once
	name string
	err  error
}

// shared outlives single tests, which do not know of each other: hence this
// global.
var shared cluster

// Main runs the tests and ends what they shared. Call it from TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }
//
// Without it everything ends with the process, only later.
func Main(m interface{ Run() int }) int {
	defer shared.close()
	return m.Run()
}

// Postgres returns the URL of a new, empty database in a PostgreSQL that the
// tests of this process share. It is dropped when the test ends.
func Postgres(t testing.TB) string {
	t.Helper()
	return shared.open(t, "template0")
}

// PostgresFrom returns the URL of a copy of the database that prepare filled.
// prepare runs once in a process for each name, and must close its connections.
func PostgresFrom(t testing.TB, name string, prepare func(url string) error) string {
	t.Helper()
	shared.start(t)
	tmpl := shared.template(name)
	tmpl.fill.Do(func() {
		if tmpl.err = shared.create(tmpl.name, "template0"); tmpl.err == nil {
			tmpl.err = prepare(databaseURL(shared.server.port, tmpl.name))
		}
	})
	if tmpl.err != nil {
		t.Fatalf("the template %q could not be prepared: %v", name, tmpl.err)
	}
	return shared.open(t, tmpl.name)
}

// open creates a database for a test.
func (c *cluster) open(t testing.TB, from string) string {
	t.Helper()
	c.start(t)
	name := c.nextName("test")
	if err := c.create(name, from); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := executeSQL(context.Background(), c.server.port, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("the test's database is not dropped: %v", err)
		}
	})
	return databaseURL(c.server.port, name)
}

// start starts the server for the first test that needs it.
func (c *cluster) start(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: no test that starts postgresql")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == nil && c.err == nil {
		c.server, c.err = StartPostgres()
	}
	requireProgram(t, c.err)
}

func (c *cluster) create(name, from string) error {
	if err := executeSQL(context.Background(), c.server.port, "CREATE DATABASE "+name+" TEMPLATE "+from); err != nil {
		return fmt.Errorf("a database is not made of %s: %w", from, err)
	}
	return nil
}

func (c *cluster) template(name string) *template {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.templates[name] == nil {
		if c.templates == nil {
			c.templates = map[string]*template{}
		}
		c.templates[name] = &template{name: fmt.Sprintf("filled_%d", len(c.templates))}
	}
	return c.templates[name]
}

func (c *cluster) nextName(kind string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.databases++
	return fmt.Sprintf("%s_%d", kind, c.databases)
}

func (c *cluster) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server != nil {
		c.server.Close()
	}
}

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
