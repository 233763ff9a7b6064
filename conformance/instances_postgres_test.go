package conformance_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// PostgreSQL is killed, stopped in good order, and away for longer than calls
// wait for it, in the middle of calls of all kinds. What was acknowledged is
// there, who was told that nothing was executed was told the truth, no gateway
// ends, and calls that were held all the time are answered afterwards.
func TestPostgresRestartsUnderLoad(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, true, "--call-timeout", "5s", "--lease-margin", "1s")
	var held []*calling
	for n, g := range c.gateways {
		held = append(held, c.write(g, n))
		c.find(g, fmt.Sprintf("write %d", n), "pending")
	}
	l := c.startLoad(nil)

	l.more(60, toldResult)
	began := time.Now()
	c.crash()
	c.postgres.Start()
	away := time.Since(began)
	l.more(60, toldResult)

	began = time.Now()
	c.postgres.Stop()
	for _, g := range c.gateways {
		g.ready(http.StatusServiceUnavailable)
	}
	c.postgres.Start()
	for _, g := range c.gateways {
		g.ready(http.StatusOK)
	}
	away = max(away, time.Since(began))
	l.more(60, toldResult)

	// Calls wait 10 s for a database. On a slow machine it may be away for
	// longer, and then they may be told so.
	short := away < 8*time.Second
	if !short {
		t.Logf("PostgreSQL was away for %v: who was told what is not compared", away)
	}
	for words, n := range map[string]int{toldNothing: l.count(toldNothing), toldUnknown: l.count(toldUnknown)} {
		if short && n > 0 {
			t.Errorf("in two short restarts %d callers were told %s; they should only have waited", n, words)
		}
	}
	c.crash()
	l.more(3, toldNothing)
	c.postgres.Start()
	l.more(60, toldResult)

	l.end()
	for n, g := range c.gateways {
		effect := "write " + string(rune('0'+n))
		approver := c.gateways[(n+1)%len(c.gateways)]
		approver.approve(c.find(approver, effect, "pending").ID)
		c.once(g, effect, held[n].wait())
	}
	l.check(c.gateways[0])
	for _, g := range c.gateways {
		if g.ended() {
			t.Errorf("a gateway ended:\n%s", g.logged())
		}
	}
}

// ready waits for the status of /readyz.
func (g *gateway) ready(status int) {
	g.t.Helper()
	g.await("/readyz to be "+http.StatusText(status), func() bool { return g.do("GET", "/readyz", nil).Status == status })
}

// crash kills PostgreSQL and waits until the last of its processes is gone:
// one that still ends keeps a new server from starting.
func (c *cluster) crash() {
	c.t.Helper()
	var dir string
	c.query("SHOW data_directory", &dir)
	c.postgres.Kill()
	await(c.t, "all processes of PostgreSQL to be gone", func() bool {
		folders, _ := filepath.Glob("/proc/[0-9]*/cwd")
		for _, f := range folders {
			if at, err := os.Readlink(f); err == nil && at == dir {
				return false
			}
		}
		return true
	})
}

// query asks the database for one row.
func (c *cluster) query(statement string, into ...any) {
	c.t.Helper()
	c.connected(func(ctx context.Context, conn *pgx.Conn) error { return conn.QueryRow(ctx, statement).Scan(into...) })
}

// execute changes the database behind everybody's back.
func (c *cluster) execute(statement string) {
	c.t.Helper()
	c.connected(func(ctx context.Context, conn *pgx.Conn) error { _, err := conn.Exec(ctx, statement); return err })
}

func (c *cluster) connected(f func(context.Context, *pgx.Conn) error) {
	c.t.Helper()
	conn, err := pgx.Connect(c.t.Context(), c.postgres.URL)
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close(c.t.Context())
	if err := f(c.t.Context(), conn); err != nil {
		c.t.Fatal(err)
	}
}
