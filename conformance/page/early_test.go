package page_test

import (
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// TestClicksBeforeTheScripts: on a slow connection a page is read, clicked and
// filled in before its scripts have arrived. What was clicked counts once they
// have, and what a form holds never appears in the address.
func TestClicksBeforeTheScripts(t *testing.T) {
	s := begin(t)
	owner := s.person("owner")

	release := owner.withhold("*/assets/core.js*")
	owner.early("/policy", "[data-press=capability]")
	release()
	owner.shows("#capability[open]")

	release = owner.withhold("*/assets/core.js*")
	owner.early("/settings", "form[data-form=webhook] button")
	if at := owner.path(); at != "/settings" {
		t.Errorf("without its scripts the page went to %s", at)
	}
	release()
	owner.within("form[data-form=webhook]").sees("must be https")
}

// early opens a page whose scripts are withheld, fills in an address and clicks
// twice, as an impatient person does.
func (w *window) early(path, button string) {
	w.t.Helper()
	w.eval("location.assign("+quote(path)+")", nil) // goTo would wait for the scripts
	w.waitFor("location.pathname === "+quote(path)+" && "+w.visible(button)+".length > 0", button)
	w.eval(`(() => {
  const button = `+w.visible(button)+`[0], url = button.form?.elements.url;
  if (url) url.value = "http://example.com/a-token-that-nobody-reads";
  button.click();
  button.click();
  return new Promise((done) => setTimeout(done, 300)); // a browser that sends the form is gone by then
})()`, nil)
}

// withhold has requests for a pattern of addresses wait until release is called.
func (w *window) withhold(pattern string) (release func()) {
	w.t.Helper()
	paused := make(chan fetch.RequestID, 10)
	if err := chromedp.Listen(w.ctx, func(event any) {
		if e, ok := event.(*fetch.EventRequestPaused); ok {
			paused <- e.RequestID
		}
	}); err != nil {
		w.t.Fatal(err)
	}
	do(w, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true})
	do(w, fetch.Enable, fetch.EnableParams{Patterns: []*fetch.RequestPattern{{URLPattern: pattern}}})
	return func() {
		w.t.Helper()
		select {
		case id := <-paused:
			do(w, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: id})
			do(w, fetch.Disable, cdp.Empty{})
		case <-time.After(patience):
			w.t.Fatalf("nothing was requested like %s", pattern)
		}
	}
}
