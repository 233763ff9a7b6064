package conformance_test

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestComposeServes runs what deploy/compose.yaml runs, with its commands,
// variables and health checks, on servers of this machine: the tables are made
// first, then two gateways behind a balancer and one ingest come up, and a call
// goes through each gateway.
func TestComposeServes(t *testing.T) {
	t.Parallel()
	c := newServers(t, true)
	var file struct {
		Services map[string]struct {
			Command     []string
			Environment map[string]string
			Healthcheck struct{ Test []string }
		}
	}
	if err := yaml.Unmarshal([]byte(textOf(t, "../deploy/compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	b := startBalancer(t, nil, "")
	folder := t.TempDir()
	filled := map[string]string{
		"SALLYPORT_PUBLIC_URL": b.URL, "SALLYPORT_MASTER_KEY": masterKey, "SALLYPORT_TOKEN_KEY": tokenKey,
		"SALLYPORT_METRICS_TOKEN": "a-token-of-metrics", "POSTGRES_PASSWORD": "unused",
	}
	elsewhere := regexp.MustCompile(`^postgres://sallyport:unused@postgres:5432/.*$`)
	part := func(service string) *gateway {
		s := file.Services[service]
		g := newGateway(t, s.Command[0])
		g.args = append([]string{"--local-admin"}, s.Command[1:]...)
		for name, value := range s.Environment {
			value = regexp.MustCompile(`\$\{(\w+)[^}]*\}`).ReplaceAllStringFunc(value, func(v string) string {
				v, _, _ = strings.Cut(strings.Trim(v, "${}"), ":")
				return filled[v]
			})
			value = elsewhere.ReplaceAllLiteralString(value, c.postgres.URL)
			value = strings.Replace(value, "valkey://valkey:6379/0", c.valkey.URL, 1)
			value = strings.Replace(value, "/var/lib/sallyport-evidence", folder, 1)
			if name != "SALLYPORT_SHUTDOWN_DELAY" { // nothing has to notice
				g.env = append(g.env, name+"="+value)
			}
		}
		return g
	}
	healthy := func(g *gateway, service, at string) {
		t.Helper()
		test := slices.Clone(file.Services[service].Healthcheck.Test[2:]) // behind CMD and the program
		test[len(test)-1] = at
		await(t, service+" to be healthy", func() bool { return command(t, g.path, g.env, test...).code == 0 })
	}

	migrate := part("migrate")
	if got := command(t, migrate.path, migrate.env, migrate.part); got.code != 0 || !strings.Contains(got.out, "applied 0001") {
		t.Fatalf("migrate: %+v", got)
	}
	for _, service := range []string{"gateway-1", "gateway-2"} {
		g := part(service)
		c.gateways = append(c.gateways, g)
		g.spawn()
		t.Cleanup(g.finish)
	}
	for i, g := range c.gateways {
		g.serves()
		healthy(g, fmt.Sprint("gateway-", i+1), g.URL)
		at, err := url.Parse(g.URL)
		if err != nil {
			t.Fatal(err)
		}
		b.replicas = append(b.replicas, &replica{url: at, served: map[string]int{}})
		if r := g.do("GET", "/metrics", nil); r.Status != 401 {
			t.Errorf("/metrics answers %d to who has no token for it", r.Status)
		}
	}
	ingest := part("ingest")
	ingest.spawn()
	t.Cleanup(ingest.finish)
	ready := regexp.MustCompile(`ready at (http://[^\s;]+)`)
	var at []string
	ingest.await("ingest to be ready", func() bool { at = ready.FindStringSubmatch(string(ingest.logged())); return at != nil })
	healthy(ingest, "ingest", at[1])

	first := c.gateways[0]
	first.connector("up", c.upstream.URL)
	a := newAgent(t, b.URL+"/mcp", first.mint(nil).Token)
	for n := range 4 {
		if got := a.start(t, "up_read", fmt.Sprintf(`{"n":%d}`, n)).wait(); !got.did(fmt.Sprint("read ", n)) {
			t.Errorf("call %d was answered with %+v, error %+v", n, got, got.Error)
		}
	}
	if served := b.spread("tools/call"); slices.Min(served) < 1 {
		t.Errorf("the calls went to the gateways as %v", served)
	}
	b.calm()
}
