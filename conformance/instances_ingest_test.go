package conformance_test

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// startIngest starts `sallyport ingest` on the cluster's servers and returns
// where it listens.
func (c *cluster) startIngest(args ...string) (url string) {
	c.t.Helper()
	g := c.prepare("ingest", append(args, "--public-url", c.gateways[0].URL)...)
	g.spawn()
	c.t.Cleanup(g.finish)
	ready := regexp.MustCompile(`ready at (http://[^\s;]+)`)
	g.await("ingest to be ready", func() bool {
		if found := ready.FindSubmatch(g.logged()); found != nil {
			url = string(found[1])
		}
		return url != ""
	})
	return url
}

// With every gateway gone, ingest ends what is overdue.
func TestIngestEndsWhatIsOverdue(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, true, "--hold-interactive", "3s")
	lost := c.write(c.gateways[0], 1)
	held := c.find(c.gateways[0], "write 1", "pending")
	at := c.startIngest()
	c.gateways[0].kill()
	<-lost.done

	get := func(path string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	if status, body := get("/readyz"); status != http.StatusOK {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if status, body := get("/metrics"); status != http.StatusOK || !strings.Contains(body, "sallyport_valkey_up 1") {
		t.Errorf("/metrics: %d %s", status, body)
	}
	if status, _ := get("/mcp"); status != http.StatusNotFound {
		t.Errorf("ingest answers /mcp with %d", status)
	}

	// A gateway that does not sweep itself sees the verdict.
	witness := c.prepare("gateway", "--sweep-every", "1h")
	witness.start()
	t.Cleanup(witness.finish)
	if got := witness.ends(held.ID, "expired"); got.ApprovedBy != "" {
		t.Errorf("%+v", got)
	}
	c.effects("write 1", 0)
}
