package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// ended is what a command left behind.
type ended struct {
	code     int
	out, err string
}

// command runs the program to its end, which must come soon.
func command(t *testing.T, path string, env []string, args ...string) ended {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), env...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Error(err)
	}
	return ended{cmd.ProcessState.ExitCode(), out.String(), stderr.String()}
}

// migrations is what `sallyport migrate --json` prints.
type migrations struct {
	Items []struct {
		Name      string     `json:"name"`
		Checksum  string     `json:"checksum"`
		AppliedAt *time.Time `json:"applied_at"`
	} `json:"items"`
}

// migrate runs `sallyport migrate` and reads what it printed.
func (c *cluster) migrate(args ...string) (list migrations) {
	c.t.Helper()
	path, err := binary()
	if err != nil {
		c.t.Fatal(err)
	}
	got := command(c.t, path, nil, append(append([]string{"migrate"}, args...), "--json", "--database-url", c.postgres.URL)...)
	if got.code != 0 {
		c.t.Errorf("migrate %v: status %d, %s", args, got.code, got.err)
	} else if err := json.Unmarshal([]byte(got.out), &list); err != nil {
		c.t.Errorf("migrate %v: %v: %s", args, err, got.out)
	}
	return list
}

// tables counts what there is in the database.
func (c *cluster) tables() (n int) {
	c.t.Helper()
	c.query("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace", &n)
	return n
}

// Four commands and two gateways find an empty database at the same moment.
// Each migration is applied once, by one of them, and all succeed.
func TestInstancesMigrateAtOnce(t *testing.T) {
	t.Parallel()
	c := newServers(t, false)
	planned := c.migrate("--dry-run")
	if status := c.migrate("status"); len(planned.Items) == 0 || len(status.Items) != len(planned.Items) {
		t.Fatalf("%d migrations are planned, and the status has %d", len(planned.Items), len(status.Items))
	}
	if n := c.tables(); n != 0 {
		t.Fatalf("a dry run and a look at the status made %d tables and indexes", n)
	}

	var all sync.WaitGroup
	applied := make([]migrations, 4)
	for i := range applied {
		all.Go(func() { applied[i] = c.migrate() })
	}
	for range 2 {
		c.prepare("gateway").spawn()
	}
	all.Wait()
	c.begin()

	times := make(map[string]int)
	for _, list := range applied {
		for _, m := range list.Items {
			times[m.Name]++
		}
	}
	for i, m := range c.migrate("status").Items {
		if m.AppliedAt == nil || m.Checksum != planned.Items[i].Checksum || times[m.Name] > 1 {
			t.Errorf("%s was applied by %d commands, and is %+v", m.Name, times[m.Name], m)
		}
	}
	var rows, names int
	c.query("SELECT count(*), count(DISTINCT name) FROM schema_migrations", &rows, &names)
	if rows != len(planned.Items) || names != rows {
		t.Errorf("%d rows name %d migrations; there are %d", rows, names, len(planned.Items))
	}
	if again := c.migrate(); len(again.Items) != 0 {
		t.Errorf("a second run applied %+v", again)
	}
	call := c.write(c.gateways[0], 1)
	c.gateways[1].approve(c.gateways[1].held().ID)
	c.once(c.gateways[0], "write 1", call.wait())
}

// A database whose history is another than the program's is left alone, and
// it is said which migration it is about and what to do.
func TestForeignMigrationsAreRefused(t *testing.T) {
	t.Parallel()
	c := newServers(t, false)
	first := c.migrate().Items[0]
	for name, change := range map[string]struct{ do, undo, message string }{
		"edited": {
			"UPDATE schema_migrations SET checksum = repeat('0', 64) WHERE name = '" + first.Name + "'",
			"UPDATE schema_migrations SET checksum = '" + first.Checksum + "' WHERE name = '" + first.Name + "'",
			first.Name + ": the file differs",
		},
		"newer": {
			"INSERT INTO schema_migrations SELECT '9999_later.sql', checksum, applied_at FROM schema_migrations WHERE name = '" + first.Name + "'",
			"DELETE FROM schema_migrations WHERE name = '9999_later.sql'",
			"9999_later.sql was applied by a newer version",
		},
	} {
		c.execute(change.do)
		for _, part := range [][]string{{"migrate"}, {"migrate", "--dry-run"}, {"migrate", "status"}, {"gateway", "--listen", "127.0.0.1:0", "--data", t.TempDir()}} {
			c.refuses(change.message, keys(), append(part, "--database-url", c.postgres.URL)...)
		}
		c.execute(change.undo)
		if again := c.migrate(); len(again.Items) != 0 {
			t.Errorf("%s: once undone, %+v was applied", name, again)
		}
	}
}

// refuses checks that a command ends with the message, and without telling a
// password.
func (c *cluster) refuses(message string, env []string, args ...string) {
	c.t.Helper()
	path, err := binary()
	if err != nil {
		c.t.Fatal(err)
	}
	got := command(c.t, path, env, args...)
	if got.code == 0 || !strings.Contains(got.err, message) {
		c.t.Errorf("%v: status %d, and it says %q, not %q", args, got.code, got.err, message)
	}
	if said := got.out + got.err; strings.Contains(said, password) || strings.Contains(said, "goroutine ") {
		c.t.Errorf("%v says %q", args, said)
	}
}
