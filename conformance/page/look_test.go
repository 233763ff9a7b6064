package page_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// photo keeps a picture of the full page among the artifacts.
func (w *window) photo(name string) {
	w.t.Helper()
	picture, err := w.picture()
	if err != nil {
		w.t.Fatalf("no picture of the window of %s: %v", w.who, err)
	}
	keep(name, picture)
}

// picture is taken from the top of the page, where what sticks to it belongs.
func (w *window) picture() ([]byte, error) {
	ctx, stop := context.WithTimeout(w.ctx, patience)
	defer stop()
	var at float64
	if err := w.try(`(() => { const at = scrollY; scrollTo({ top: 0, behavior: "instant" }); return at; })()`, &at); err != nil {
		return nil, err
	}
	defer func() { _ = w.try(fmt.Sprintf(`scrollTo({ top: %f, behavior: "instant" })`, at), nil) }() // a page that is gone needs it no more
	return chromedp.Run(ctx, chromedp.FullScreenshot(100))
}

// keep writes a picture and returns where it is.
func keep(name string, picture []byte) string {
	path := filepath.Join(artifacts, name+".png")
	if err := os.WriteFile(path, picture, 0o644); err != nil {
		return err.Error()
	}
	return path
}

// dark and light have the browser prefer such colours.
func (w *window) dark()  { w.t.Helper(); w.prefers("dark") }
func (w *window) light() { w.t.Helper(); w.prefers("light") }

func (w *window) prefers(scheme string) {
	w.t.Helper()
	do(w, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// phone makes the window a phone's, with touch; desk the one of a desk again.
func (w *window) phone() { w.t.Helper(); w.size(390, 844, true) }
func (w *window) desk()  { w.t.Helper(); w.size(1280, 800, false) }

func (w *window) size(width, height int64, mobile bool) {
	w.t.Helper()
	do(w, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: mobile})
	do(w, emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: mobile})
}

// fits fails the story when the page scrolls sideways.
func (w *window) fits() {
	w.t.Helper()
	if wide := w.sticksOut(); len(wide) > 0 {
		w.t.Errorf("%s scrolls sideways; these stick out: %q", w.path(), wide)
	}
}

// sticksOut names what is wider than the page, when that scrolls sideways.
func (w *window) sticksOut() (wide []string) {
	w.t.Helper()
	w.eval(`(() => {
  const room = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= room && document.body.scrollWidth <= room) return [];
  // Text may stick out of an element that does not.
  const right = (e) => { const r = document.createRange(); r.selectNodeContents(e); return Math.max(r.getBoundingClientRect().right, e.getBoundingClientRect().right); };
  const clips = (e) => { for (let p = e.parentElement; p !== document.body; p = p.parentElement) if (getComputedStyle(p).overflowX !== "visible") return true; return false; };
  return [...document.body.querySelectorAll("*")].filter((e) => right(e) > room + 1 && e.checkVisibility() && !clips(e))
    .slice(-8).map((e) => e.cloneNode().outerHTML.slice(0, 160));
})()`, &wide)
	return wide
}
