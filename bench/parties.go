package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"sallyport/internal/dbtest"
)

// parties are the processes that are compared.
type parties struct {
	binary   string // of the gateway
	upstream *child
	proxy    *child
	rows     *dbtest.Server
	gateways []*gateway
	calls    map[string]target // gateways that are called, by where their rows are
	lists    map[string]target // and those that list tools, by the kind of cell
}

// startParties starts what the options want, and returns what it started when
// it fails, too.
func (o *options) startParties(ctx context.Context, dir string) (p *parties, err error) {
	p = &parties{calls: map[string]target{}, lists: map[string]target{}}
	if p.upstream, err = startRole(ctx, "-role", "upstream"); err != nil {
		return p, err
	}
	if p.proxy, err = startRole(ctx, "-role", "proxy", "-to", "http://"+p.upstream.addr); err != nil {
		return p, err
	}
	if p.binary, err = build(ctx, dir); err != nil {
		return p, err
	}
	if len(o.sessions) > 0 {
		for _, store := range o.stores {
			if p.calls[store], err = p.gateway(ctx, store, dir, "/mcp", slices.Max(o.sessions)); err != nil {
				return p, err
			}
		}
	}
	for _, n := range o.lists {
		kind := fmt.Sprint("list", n)
		if p.lists[kind], err = p.gateway(ctx, "sqlite", filepath.Join(dir, kind), fmt.Sprint("/mcp/", n), 1); err != nil {
			return p, err
		}
	}
	return p, nil
}

// gateway starts one in front of a path of the upstream.
func (p *parties) gateway(ctx context.Context, store, dir, path string, sessions int) (target, error) {
	part, args := "serve", []string{}
	if store == "postgres" {
		var err error
		// Another user, who cannot look into the gateways' folder.
		if p.rows, err = dbtest.StartPostgresAt(filepath.Dir(dir), "fsync=on", "full_page_writes=on"); err != nil {
			return target{}, err
		}
		part, args = "gateway", []string{"--master-key", newKey(), "--token-key", newKey(), "--database-url", p.rows.URL}
	}
	g, err := startGateway(ctx, p.binary, filepath.Join(dir, store), part, args...)
	if err != nil {
		return target{}, err
	}
	p.gateways = append(p.gateways, g)
	to, err := g.connect(ctx, "http://"+p.upstream.addr+path, sessions)
	if err != nil {
		return target{}, err
	}
	return to, g.allow(ctx, to)
}

// targets are where the requests of a cell go in turn: to the upstream, to the
// proxy, to the gateway.
func (p *parties) targets(c cell) [3]target {
	path, gated := "/mcp", p.calls[c.Store]
	if n := c.tools(); n > 0 {
		path, gated = fmt.Sprint("/mcp/", n), p.lists[c.Kind]
	}
	direct := target{name: "direct", addr: p.upstream.addr, path: path, tokens: []string{"none"}, pid: p.upstream.cmd.Process.Pid}
	thin := target{name: "proxy", addr: p.proxy.addr, path: path, tokens: []string{"none"}, pid: p.proxy.cmd.Process.Pid}
	return [3]target{direct, thin, gated}
}

func (p *parties) stop() {
	for _, g := range p.gateways {
		g.stop()
	}
	if p.rows != nil {
		p.rows.Close()
	}
	for _, c := range []*child{p.proxy, p.upstream} {
		if c != nil {
			c.stop()
		}
	}
}

// startUps starts a gateway on an empty folder some times. The clock runs from
// its start until a tool of a connector, which was added meanwhile, has answered
// its first call; it returns the median.
func (o *options) startUps(ctx context.Context, p *parties, dir string) (median float64, err error) {
	var took []float64
	for i := range o.starts {
		one, err := p.startUp(ctx, filepath.Join(dir, fmt.Sprint("start", i)))
		if err != nil {
			return 0, err
		}
		took = append(took, ms(one))
	}
	if len(took) == 0 {
		return 0, nil
	}
	return middle(took), nil
}

func (p *parties) startUp(ctx context.Context, dir string) (time.Duration, error) {
	start := time.Now()
	g, err := startGateway(ctx, p.binary, dir, "serve")
	if err != nil {
		return 0, err
	}
	defer g.stop()
	to, err := g.connect(ctx, "http://"+p.upstream.addr+"/mcp", 1)
	if err != nil {
		return 0, err
	}
	if err := g.allow(ctx, to); err != nil {
		return 0, err
	}
	c, err := open(ctx, to, to.tokens[0])
	if err != nil {
		return 0, err
	}
	defer c.conn.Close()
	err = c.call(to.prefix+"read", 1)
	return time.Since(start), err
}
