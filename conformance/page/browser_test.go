package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is the one Chromium of all stories. It starts with the first that
// needs it.
type browser struct {
	once sync.Once
	ctx  context.Context
	stop []context.CancelFunc
	err  error
}

var chromium browser

// need starts the browser, or skips the story where there is none.
func (b *browser) need(t *testing.T) {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		missing(t, "no browser: run make prepare, or install Debian's package chromium")
	}
	b.once.Do(func() { b.start(path) })
	if b.err != nil {
		t.Fatalf("the browser does not start: %v", b.err)
	}
}

func (b *browser) start(path string) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.DisableGPU, chromedp.WindowSize(1280, 800))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which root cannot have
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	b.ctx, b.stop = ctx, []context.CancelFunc{cancel, stop}
	b.err = chromedp.Do(ctx)
}

func (b *browser) close() {
	for _, stop := range b.stop {
		stop()
	}
}

// faults are what no page may do; of one window.
type faults struct {
	origin string
	mu     sync.Mutex
	found  []string
}

func (f *faults) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.found = append(f.found, fmt.Sprintf(format, args...))
}

// take returns what was found until now, and forgets it.
func (f *faults) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := f.found
	f.found = nil
	return found
}

// watch looks at everything that a window tells of itself.
func (f *faults) watch(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if thrown := e.ExceptionDetails.Exception; thrown != nil {
			text += ": " + thrown.Description + string(thrown.Value)
		}
		f.add("an exception: %s", text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeAssert || e.Type == runtime.ConsoleAPICalledTypeWarning {
			f.add("the console: %s", inWords(e.Args))
		}
	case *log.EventEntryAdded:
		// What the network refused is seen below: a page may be told no.
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			f.add("the browser's log: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *network.EventResponseReceived:
		f.response(e)
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; e.Type != network.ResourceTypeDocument && !strings.HasPrefix(u, f.origin+"/") && !strings.HasPrefix(u, "data:") && !strings.HasPrefix(u, "blob:") {
			f.add("a request to somewhere else: %s", u)
		}
	}
}

// response refuses what breaks and what is missing.
func (f *faults) response(e *network.EventResponseReceived) {
	asset := map[network.ResourceType]bool{
		network.ResourceTypeScript: true, network.ResourceTypeStylesheet: true, network.ResourceTypeImage: true, network.ResourceTypeFont: true,
	}
	if s := e.Response.Status; s >= 500 || s >= 400 && asset[e.Type] {
		f.add("status %d: %s", s, e.Response.URL)
	}
}

func inWords(args []*runtime.RemoteObject) string {
	var words []string
	for _, a := range args {
		text := a.Description
		if text == "" && json.Unmarshal(a.Value, &text) != nil {
			text = string(a.Value) // no string
		}
		words = append(words, text)
	}
	return strings.Join(words, " ")
}

// tellViolations makes a violation of the content security policy an error of
// the console, with the directive and what was refused.
const tellViolations = `addEventListener("securitypolicyviolation", (e) =>
  console.error("a violation of the content security policy: " + e.violatedDirective + " " + e.blockedURI + " " + e.sourceFile + ":" + e.lineNumber + " " + e.sample))`

// open opens a window; in has its cookies and storage, or is nil for new ones.
func (s *story) open(who string, in *window) *window {
	s.t.Helper()
	parent, options := chromium.ctx, []chromedp.ContextOption{chromedp.WithNewBrowserContext()}
	if in != nil {
		parent, options = in.ctx, nil
	}
	ctx, cancel := chromedp.NewContext(parent, options...)
	w := &window{s: s, t: s.t, ctx: ctx, who: who, faults: &faults{origin: s.URL}}
	s.t.Cleanup(func() { w.end(); cancel() })
	if err := chromedp.Listen(ctx, w.heard); err != nil {
		s.t.Fatalf("opening a window for %s: %v", who, err)
	}
	do(w, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: tellViolations})
	do(w, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	w.desk()
	return w
}

// heard is told each event; it must not wait.
func (w *window) heard(event any) {
	w.faults.watch(event)
	if e, ok := event.(*page.EventJavascriptDialogOpening); ok {
		if e.Type != page.DialogTypeBeforeunload {
			w.faults.add("a dialog of the browser: %s", e.Message)
		}
		accept := page.HandleJavaScriptDialogParams{Accept: e.Type == page.DialogTypeBeforeunload}
		go func() { _, _ = chromedp.Call(w.ctx, page.HandleJavaScriptDialog, accept) }() // the window may be gone
	}
}

// end tells what went wrong in the window.
func (w *window) end() {
	for _, fault := range w.faults.take() {
		w.t.Errorf("in the window of %s: %s", w.who, fault)
	}
	if !w.t.Failed() || w.ctx.Err() != nil {
		return
	}
	var at, text string
	_ = w.try(`location.href`, &at)
	_ = w.try(`document.body.innerText`, &text)
	w.t.Logf("the window of %s, at %s, shows:\n%.4000s", w.who, at, text)
	name := "failed-" + strings.NewReplacer("/", "-", " ", "-").Replace(w.t.Name()+"-"+w.who)
	if picture, err := w.picture(); err == nil {
		w.t.Logf("a picture of it is %s", keep(name, picture))
	}
}

// do runs a command of the protocol that has to succeed.
func do[P, R any](w *window, command cdp.Command[P, R], params P) R {
	w.t.Helper()
	ctx, stop := context.WithTimeout(w.ctx, patience)
	defer stop()
	got, err := chromedp.Call(ctx, command, params)
	if err != nil {
		w.t.Fatalf("in the window of %s: %s: %v", w.who, command.Method, err)
	}
	return got
}
