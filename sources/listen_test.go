package sources_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/sources"
)

func (h *house) says(k sources.NoticeKind) { h.words <- sources.Notice{Kind: k} }

func (w *world) told(kind action.HintKind) (list []action.Hint) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hints {
		if h.Kind == kind {
			list = append(list, h)
		}
	}
	return list
}

// versions are those of tools, resources and prompts.
func (w *world) versions(t *testing.T) [3]string {
	t.Helper()
	o := w.offerings(t)
	_, v := w.names(t, "o")
	return [3]string{v, o.ResourcesVersion, o.PromptsVersion}
}

// TestNotices has lists asked for at once, and those who have them told, also
// when the list came out the same.
func TestNotices(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		h := furnish(w.add("a", "x", 1, plain("b")))
		h.resources, h.prompts = []string{resource("a:b")}, []string{prompt("p")}
		before := w.versions(t)
		for i, kind := range []sources.NoticeKind{sources.NoticeTools, sources.NoticeResources, sources.NoticePrompts} {
			lists, hints := h.listed(), len(w.told(action.HintCatalog))
			h.says(kind)
			synctest.Wait()
			if n := h.listed() - lists; n != 1 {
				t.Errorf("%s: asked %d times", kind, n)
			}
			if n := len(w.told(action.HintCatalog)) - hints; n != 1 {
				t.Errorf("%s: told %d times", kind, n)
			}
			after := w.versions(t)
			for j := range after {
				if (after[j] != before[j]) != (i == j) {
					t.Errorf("%s: version %d went from %s to %s", kind, j, before[j], after[j])
				}
			}
			before = after
			time.Sleep(2 * time.Second)
		}
		h.set(func(o *origin) { o.tools = []string{plain("c")} })
		h.says(sources.NoticeTools)
		h.says("notifications/unknown")
		synctest.Wait()
		w.want(t, "x_c", "", "")
	})
}

// TestNoticeWhileItIsAsked: that list may be older than the change.
func TestNoticeWhileItIsAsked(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		h := furnish(w.add("a", "x", 1, plain("b")))
		w.want(t, "x_b", "", "")
		h.set(func(o *origin) { o.slow = 2 * time.Second })
		time.Sleep(2 * time.Second)
		go func() { _, _ = w.Find(t.Context(), "o", "connector:a", "b", true) }()
		time.Sleep(time.Second)
		lists := h.listed()
		for range 5 {
			h.says(sources.NoticeTools)
		}
		time.Sleep(10 * time.Second)
		if n := h.listed() - lists; n != 1 {
			t.Errorf("asked %d times beside the one under way", n)
		}
	})
}

// TestShouting costs little, however much a server shouts.
func TestShouting(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		h := furnish(w.add("a", "x", 1, plain("b")))
		w.names(t, "o")
		lists, began := h.listed(), time.Now()
		for range 10_000 {
			h.says(sources.NoticeTools)
			time.Sleep(time.Millisecond)
		}
		if n := h.listed() - lists; n > 11 {
			t.Errorf("asked %d times in %s", n, time.Since(began))
		}
		for range 600 {
			h.says(sources.NoticeTools)
			time.Sleep(time.Second)
		}
		if n := h.listed() - lists; n < 20 || n > 40 {
			t.Errorf("asked %d times in %s", n, time.Since(began))
		}
		// The last word counts, and after a while of silence it is as before.
		h.set(func(o *origin) { o.tools = []string{plain("c")} })
		h.says(sources.NoticeTools)
		time.Sleep(31 * time.Second)
		w.want(t, "x_c", "", "")
		time.Sleep(2 * time.Minute)
		for _, tool := range []string{"d", "e"} {
			h.set(func(o *origin) { o.tools = []string{plain(tool)} })
			h.says(sources.NoticeTools)
			time.Sleep(1100 * time.Millisecond)
			w.want(t, "x_"+tool, "", "")
		}
	})
}

// TestListThatIsNeverTheSame and says so each time.
func TestListThatIsNeverTheSame(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		h := furnish(w.add("a", "x", 1))
		h.listen = func(ctx context.Context, heard func(sources.Notice)) error {
			for n := -1; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
				if now := h.listed(); now != n {
					n = now
					h.set(func(o *origin) { o.tools = []string{plain(fmt.Sprint("t", n))} })
					heard(sources.Notice{Kind: sources.NoticeTools})
				}
			}
			return ctx.Err()
		}
		w.names(t, "o")
		time.Sleep(10 * time.Minute)
		if n := h.listed(); n < 20 || n > 40 {
			t.Errorf("asked %d times in ten minutes", n)
		}
	})
}

// TestNoticeOfASourceThatFails: the change is seen once the source is back.
func TestNoticeOfASourceThatFails(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		h := furnish(w.add("a", "x", 1, plain("b")))
		before := w.versions(t)
		h.set(func(o *origin) { o.err = errors.New("it is away") })
		lists := h.listed()
		h.says(sources.NoticeTools)
		time.Sleep(4 * time.Minute)
		if n := h.listed() - lists; n < 3 || n > 8 {
			t.Errorf("asked %d times in four minutes of failing", n)
		}
		if now := w.versions(t); now != before {
			t.Error("they were told of what nobody saw")
		}
		h.set(func(o *origin) { o.err = nil })
		time.Sleep(2 * time.Minute)
		if now := w.versions(t); now[0] == before[0] {
			t.Error("they were not told")
		}
	})
}

// TestListening begins with the first good list, again when it broke, and ends
// with its source.
func TestListening(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		h := furnish(w.add("a", "x", 1, plain("b")))
		h.err = errors.New("it is away")
		w.names(t, "o")
		if h.listened() != 0 {
			t.Error("listened to a source that has not answered")
		}
		var ended int
		h.set(func(o *origin) {
			o.err = nil
			h.listen = func(context.Context, func(sources.Notice)) error { panic("broken") }
		})
		w.Invalidate("o")
		w.names(t, "o")
		time.Sleep(10 * time.Minute)
		if n := h.listened(); n < 5 || n > 12 {
			t.Errorf("listened %d times in ten minutes of breaking", n)
		}
		h.set(func(*origin) {
			h.listen = func(ctx context.Context, _ func(sources.Notice)) error {
				<-ctx.Done()
				h.set(func(*origin) { ended++ })
				return ctx.Err()
			}
		})
		time.Sleep(3 * time.Minute)
		before := h.listened()
		if _, err := w.Probe(t.Context(), h.con); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if n := h.listened() - before; n != 0 {
			t.Errorf("listened %d times more to one that is listened to", n)
		}
		// Another revision is another source.
		w.change("a", func(c *action.Connector) { c.Revision++ })
		w.Invalidate("o")
		w.names(t, "o")
		synctest.Wait()
		if n := h.listened() - before; n != 1 || ended != 1 {
			t.Errorf("listened %d times to the new revision, %d ended", n, ended)
		}
		if err := w.Close(); err != nil || ended != 2 {
			t.Errorf("%d ended, %v", ended, err)
		}
	})
}

// TestNothingToListenTo is looked for again once in a while.
func TestNothingToListenTo(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		h := furnish(w.add("a", "x", 1, plain("b")))
		h.listen = func(context.Context, func(sources.Notice)) error { return nil }
		w.names(t, "o")
		time.Sleep(21 * time.Minute)
		if n := h.listened(); n != 5 {
			t.Errorf("listened %d times", n)
		}
		tried := &origin{con: action.Connector{ID: "new", Organization: "o", Name: "N", Slug: "n"}}
		w.origins["new"] = tried
		_, err := w.Probe(t.Context(), furnish(tried).con)
		if synctest.Wait(); err != nil || tried.more.listened() != 0 {
			t.Errorf("listened to a connector that is tried, %v", err)
		}
	})
}

// TestUpdatedResources are told at most once a second each, the last time
// included.
func TestUpdatedResources(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		h := furnish(w.add("a", "x", 1))
		w.names(t, "o")
		say := func(uri string) { h.words <- sources.Notice{Kind: sources.NoticeUpdated, URI: uri} }
		say("a:b")
		synctest.Wait()
		if diff := cmp.Diff([]action.Hint{{Kind: action.HintResource, Organization: "o", Source: "connector:a", Resource: "a:b"}}, w.told(action.HintResource)); diff != "" {
			t.Error(diff)
		}
		say("a:c")
		synctest.Wait()
		if n := len(w.told(action.HintResource)); n != 2 {
			t.Errorf("told %d times of two", n)
		}
		for range 1000 {
			say("a:b")
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		if n := len(w.told(action.HintResource)); n < 11 || n > 14 {
			t.Errorf("told %d times in ten seconds", n)
		}
		time.Sleep(10 * time.Second)
		before := len(w.told(action.HintResource))
		say("a:b")
		synctest.Wait()
		if n := len(w.told(action.HintResource)) - before; n != 1 {
			t.Errorf("told %d times after a pause", n)
		}
		time.Sleep(10 * time.Second)
		before = len(w.told(action.HintResource))
		for i := range 10_000 {
			say(fmt.Sprint("a:", i))
		}
		time.Sleep(10 * time.Second)
		if n := len(w.told(action.HintResource)) - before; n != 400 {
			t.Errorf("told %d times of ten thousand at once", n)
		}
		if n := h.listed(); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

// TestManySpeakAtOnce is for the race detector.
func TestManySpeakAtOnce(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		var houses []*house
		for i := range 4 {
			h := furnish(w.add(fmt.Sprint(i), fmt.Sprintf("s%d", i), i, plain("b")))
			h.resources, h.templates, h.prompts = []string{resource("doc://x")}, []string{pattern("doc://{x}")}, []string{prompt("p")}
			houses = append(houses, h)
		}
		var group sync.WaitGroup
		for i := range 24 {
			group.Go(func() {
				for j := range 20 {
					h := houses[(i+j)%4]
					switch (i + j) % 6 {
					case 0:
						_, _ = w.Offerings(t.Context(), "o")
					case 1:
						_, _, _ = w.ResolveResource(t.Context(), "o", fmt.Sprint("doc://", j))
					case 2:
						_, _, _ = w.ResolvePrompt(t.Context(), "o", h.con.Slug+"_p")
					case 3:
						w.change(h.con.ID, func(c *action.Connector) { c.Revision++ })
						w.Invalidate("o")
					default:
						select {
						case h.words <- sources.Notice{Kind: sources.NoticePrompts}:
						case h.words <- sources.Notice{Kind: sources.NoticeUpdated, URI: "doc://x"}:
						case <-time.After(time.Second):
						}
					}
					time.Sleep(50 * time.Millisecond)
				}
			})
		}
		group.Wait()
		time.Sleep(time.Minute)
		if o := w.offerings(t); len(o.Resources) != 4 || len(o.Prompts) != 4 {
			t.Errorf("got %+v", o)
		}
	})
}
