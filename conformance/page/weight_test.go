package page_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/network"
)

// TestFirstPageIsLight: what a browser loads for the inbox with ten calls that
// wait, when it has nothing yet.
func TestFirstPageIsLight(t *testing.T) {
	s := begin(t)
	agent := s.agent("Ten at once")
	var held []string
	for n := range 10 {
		agent.call("demo_write", args{"text": fmt.Sprint("number ", n)})
		held = append(held, agent.held(held...))
	}
	owner := s.person("owner")
	do(owner, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true})
	owner.reload()
	if n := owner.count(".card"); n < 10 {
		t.Fatalf("the page shows %d calls", n)
	}
	var load struct {
		Page, Bytes int
		Server      float64
		Of          []string
	}
	owner.eval(`(() => {
  const [page] = performance.getEntriesByType("navigation");
  const rest = performance.getEntriesByType("resource").filter((r) => !r.name.includes("/api/v1/"));
  return {
    page: page.transferSize, server: page.responseStart - page.requestStart,
    bytes: [page, ...rest].reduce((n, r) => n + r.transferSize, 0),
    of: rest.map((r) => new URL(r.name).pathname + " " + r.transferSize),
  };
})()`, &load)
	t.Logf("the page: %d bytes after %.0f ms; in all %d bytes: %q", load.Page, load.Server, load.Bytes, load.Of)
	if load.Bytes >= 150_000 || load.Page == 0 {
		t.Errorf("the first page is %d bytes, 150,000 or more", load.Bytes)
	}
}
