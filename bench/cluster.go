package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"

	"sallyport/internal/dbtest"
)

// cluster is some gateways on the same rows, in front of an upstream that
// counts its effects.
type cluster struct {
	upstream *child
	servers  []*dbtest.Server
	gateways []*gateway
}

// startCluster starts n gateways with all that they need, with their data and
// logs in dir.
func (o *instanceOptions) startCluster(ctx context.Context, s setup, dir string, n int) (*cluster, error) {
	c := &cluster{}
	part, args, err := c.services(ctx, s, o.dir)
	for i := 0; i < n && err == nil; i++ {
		var g *gateway
		if g, err = startGateway(ctx, o.binary, filepath.Join(dir, fmt.Sprint(i)), part, args...); err == nil {
			c.gateways = append(c.gateways, g)
		}
	}
	if err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

// services starts what stands beside the gateways, and says how to start these.
// PostgreSQL is another user, who cannot look into the gateways' folder: its
// data lies beside that.
func (c *cluster) services(ctx context.Context, s setup, dir string) (part string, args []string, err error) {
	if c.upstream, err = startRole(ctx, "-role", "tally"); err != nil {
		return "", nil, err
	}
	// However slow the machine is, no call may expire.
	args = []string{"--hold-interactive", heldFor.String(), "--master-key", newKey(), "--token-key", newKey()}
	if !s.postgres {
		return "serve", args, nil
	}
	rows, err := dbtest.StartPostgresAt(dir, "fsync=on", "full_page_writes=on")
	if err != nil {
		return "", nil, err
	}
	c.servers = append(c.servers, rows)
	args = append(args, "--database-url", rows.URL)
	if s.valkey {
		hints, err := dbtest.StartValkey()
		if err != nil {
			return "", nil, err
		}
		c.servers = append(c.servers, hints)
		args = append(args, "--valkey-url", hints.URL)
	}
	return "gateway", args, nil
}

// newKey is a key for this run; its gateways share it.
func newKey() string {
	key := make([]byte, 32)
	rand.Read(key) //nolint:errcheck // never fails: it ends the process instead
	return hex.EncodeToString(key)
}

func (c *cluster) stop() {
	for _, g := range c.gateways {
		g.stop()
	}
	for _, s := range c.servers {
		s.Close()
	}
	if c.upstream != nil {
		c.upstream.stop()
	}
}

// url is where the upstream is.
func (c *cluster) url(path string) string { return "http://" + c.upstream.addr + path }

// checkEffects makes sure that every call up to n had one effect.
func (c *cluster) checkEffects(ctx context.Context, n int64) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url("/effects"), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var e effects
	if err := json.Unmarshal(raw, &e); err != nil {
		return err
	}
	if int64(e.Once) != n || e.More > 0 {
		return fmt.Errorf("of %d calls %d had one effect and %d more than one", n, e.Once, e.More)
	}
	return nil
}
