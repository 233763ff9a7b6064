package sources_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/sources"
)

// toolsOnly is what a source has that lists tools and nothing else.
type toolsOnly struct{}

func (toolsOnly) Do(context.Context, string, json.RawMessage, action.Caller) (action.Result, error) {
	return action.Result{}, errors.New("it has no resources and no prompts")
}

func (toolsOnly) Subscribe(context.Context, string, bool) error {
	return errors.New("it has no resources")
}

func (toolsOnly) Listen(ctx context.Context, _ func(sources.Notice)) error {
	<-ctx.Done()
	return ctx.Err()
}

func (toolsOnly) Circuit() (open bool, until time.Time) { return false, time.Time{} }

func (toolsOnly) Steps() []sources.Step { return nil }

// origin is a source in memory, which tests change while it is used.
type origin struct {
	toolsOnly
	con action.Connector

	mu     sync.Mutex
	tools  []string
	err    error
	slow   time.Duration
	lists  int
	calls  []string
	closed int
	tasks  bool   // it runs tools as tasks
	more   *house // what it has beside tools; nil: it is a source of tools alone
}

func (o *origin) ID() string { return o.con.Source() }

func (o *origin) List(ctx context.Context) (sources.Listing, error) {
	o.mu.Lock()
	o.lists++
	slow := o.slow
	o.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		return sources.Listing{}, ctx.Err()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	l := sources.Listing{Protocol: "2026-07-28"}
	l.Capabilities.Tasks = o.tasks
	l.Tools = raws(o.tools)
	if o.more != nil {
		o.more.list(&l)
	}
	return l, o.err
}

func (o *origin) Call(_ context.Context, tool string, params json.RawMessage, _ action.Caller) (action.Result, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, tool+string(params))
	return action.Result{Body: json.RawMessage(`{"content":[]}`)}, nil
}

func (o *origin) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed++
	return nil
}

func (o *origin) set(f func(o *origin)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f(o)
}

func (o *origin) listed() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lists
}

// world is a catalog with its connectors and sources.
type world struct {
	*sources.Catalog
	mu         sync.Mutex
	connectors map[string][]action.Connector // by organization
	origins    map[string]*origin            // by connector id
	opened     int
	loads      int
	hints      []action.Hint
	fail       error
	observed   []observation
	look       func(o observation) error // what Observe does; nil: nothing
	apart      *house                    // what is opened from now on; nil: what there is
}

func (w *world) Publish(h action.Hint) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hints = append(w.hints, h)
}

func (w *world) Subscribe(func(action.Hint)) func() { return func() {} }

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{connectors: map[string][]action.Connector{}, origins: map[string]*origin{}}
	cat, err := sources.New(sources.Config{
		Connectors: func(_ context.Context, organization string) ([]action.Connector, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.loads++
			return w.connectors[organization], w.fail
		},
		Open: func(c action.Connector) (sources.Source, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.opened++
			if c.URL == "broken" {
				return nil, action.Errorf(action.ErrInvalid, "invalid_url", "This is not a URL.")
			}
			if w.apart != nil {
				return w.apart, nil
			}
			if o := w.origins[c.ID]; o.more != nil {
				return o.more, nil
			}
			return w.origins[c.ID], nil
		},
		Observe: w.observe,
		Hints:   w, Reserved: []string{"invocation_wait"}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Catalog = cat
	return w
}

// add connects a source with tools to organization o.
func (w *world) add(id, slug string, age int, tools ...string) *origin {
	return w.addTo("o", id, slug, age, tools...)
}

func (w *world) addTo(organization, id, slug string, age int, tools ...string) *origin {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := &origin{con: action.Connector{
		ID: id, Organization: organization, Name: "Name of " + id, Slug: slug, Enabled: true, Revision: 1, CreatedAt: day(-age),
	}, tools: tools}
	w.origins[id] = o
	w.connectors[organization] = append(w.connectors[organization], o.con)
	return o
}

func (w *world) change(id string, f func(c *action.Connector)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for organization, list := range w.connectors {
		next := append([]action.Connector(nil), list...)
		for i := range next {
			if next[i].ID == id {
				f(&next[i])
			}
		}
		w.connectors[organization] = next
	}
}

func (w *world) names(t *testing.T, organization string) (names []string, version string) {
	t.Helper()
	list, version, err := w.List(t.Context(), organization)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		names = append(names, a.Tool)
	}
	return names, version
}

func (w *world) want(t *testing.T, want ...string) (version string) {
	t.Helper()
	names, version := w.names(t, "o")
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	return version
}

func plain(name string) string { return fmt.Sprintf(`{"name":%q,"inputSchema":{}}`, name) }

func containsAll(s string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(s, part) {
			return false
		}
	}
	return true
}

// story runs a test in a bubble of its own time, on a world that is closed at
// the end.
func story(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer func() {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}()
		f(t, w)
	})
}

func TestListAndFind(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		a := w.add("a", "linear", 2, `{"name":"create.issue","title":"T","inputSchema":{"type":"object","required":["x"]},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`, plain("b"))
		w.add("z", "", 1, plain("linear_b"), plain("invocation_wait"))
		w.change("z", func(c *action.Connector) { c.DefaultRisk = action.RiskDanger })
		w.want(t, "invocation_wait_12fdda", "linear_b", "linear_b_8f8ca4", "linear_create_issue")

		act, err := w.Find(t.Context(), "o", "connector:a", "create.issue", false)
		if err != nil {
			t.Fatal(err)
		}
		if act.Tool != "linear_create_issue" || act.SourceName != "Name of a" || act.Risk != action.RiskRead || act.Revision != "a:1" || act.Title != "T" ||
			string(act.OutputSchema) != `{"type":"object"}` || act.Hash == "" {
			t.Errorf("got %+v", act)
		}
		if err := act.Check(json.RawMessage(`{}`)); !errors.Is(err, action.ErrInvalid) {
			t.Errorf("checked: %v", err)
		}
		if _, err := act.Run(t.Context(), json.RawMessage(`{"x":1}`), nil); err != nil || a.calls[0] != `create.issue{"x":1}` {
			t.Errorf("ran %q, %v", a.calls, err)
		}
		if b, _ := w.Find(t.Context(), "o", "connector:a", "b", false); b.Risk != action.RiskWrite {
			t.Errorf("a tool that says nothing is %s", b.Risk)
		}
		if z, _ := w.Find(t.Context(), "o", "connector:z", "linear_b", false); z.Risk != action.RiskDanger {
			t.Errorf("the connector's default is not used: %s", z.Risk)
		}
		if r, err := w.Resolve(t.Context(), "o", "linear_create_issue"); err != nil || r != act {
			t.Errorf("resolved %v, %v", r, err)
		}
		if _, err := w.Resolve(t.Context(), "o", "create.issue"); !errors.Is(err, action.ErrNotFound) {
			t.Errorf("resolved an upstream name: %v", err)
		}
		for _, key := range [][2]string{{"connector:a", "none"}, {"connector:none", "b"}, {"connector:a", "linear_b"}, {"", ""}} {
			if _, err := w.Find(t.Context(), "o", key[0], key[1], false); !errors.Is(err, action.ErrNotFound) {
				t.Errorf("%s: %v", key, err)
			}
		}
	})
}

func TestOrganizationsAreApart(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.add("a", "x", 1, plain("mine"))
		w.addTo("other", "b", "x", 1, plain("theirs"))
		w.want(t, "x_mine")
		if names, _ := w.names(t, "other"); len(names) != 1 || names[0] != "x_theirs" {
			t.Errorf("the other organization sees %q", names)
		}
		if _, err := w.Find(t.Context(), "o", "connector:b", "theirs", true); !errors.Is(err, action.ErrNotFound) {
			t.Errorf("found across organizations: %v", err)
		}
		if _, err := w.Resolve(t.Context(), "o", "x_theirs"); !errors.Is(err, action.ErrNotFound) {
			t.Errorf("resolved across organizations: %v", err)
		}
	})
}

// TestListIsCached counts how often anybody is asked.
func TestListIsCached(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		o := w.add("a", "x", 1, plain("b"))
		version := w.want(t, "x_b")
		first, _, _ := w.List(t.Context(), "o")
		for range 100 {
			again, v, _ := w.List(t.Context(), "o")
			if v != version || &again[0] != &first[0] {
				t.Fatal("the list was built again")
			}
		}
		if w.loads != 1 || o.listed() != 1 || w.opened != 1 {
			t.Errorf("%d loads, %d lists, %d opened", w.loads, o.listed(), w.opened)
		}
		time.Sleep(4 * time.Minute)
		again, _, _ := w.List(t.Context(), "o")
		if w.loads != 2 || o.listed() != 1 || &again[0] != &first[0] {
			t.Errorf("after 4 minutes: %d loads, %d lists", w.loads, o.listed())
		}
		time.Sleep(2 * time.Minute)
		if v := w.want(t, "x_b"); o.listed() != 2 || v != version {
			t.Errorf("after 6 minutes: %d lists, version changed: %t", o.listed(), v != version)
		}
		if len(w.hints) != 0 {
			t.Errorf("hints %v for nothing", w.hints)
		}
	})
}

// TestSingleFlight has many ask at once.
func TestSingleFlight(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		o := w.add("a", "x", 1, plain("b"))
		o.slow = time.Second
		var group sync.WaitGroup
		for i := range 50 {
			group.Go(func() {
				if i%2 == 0 {
					if _, _, err := w.List(t.Context(), "o"); err != nil {
						t.Error(err)
					}
				} else if _, err := w.Find(t.Context(), "o", "connector:a", "b", i%3 == 0); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if o.listed() != 1 {
			t.Errorf("asked %d times", o.listed())
		}
	})
}

// TestSlowSource does not hold up the others, and comes in later.
func TestSlowSource(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.add("a", "x", 1, plain("b"))
		slow := w.add("s", "slow", 1, plain("c"))
		slow.slow = 10 * time.Second
		started := time.Now()
		first := w.want(t, "x_b")
		if took := time.Since(started); took != 3*time.Second {
			t.Errorf("the first list took %s", took)
		}
		started = time.Now()
		w.want(t, "x_b")
		if took := time.Since(started); took != 0 {
			t.Errorf("the second list took %s", took)
		}
		// Who wants just that source waits for it; who has no patience does not.
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := w.Find(ctx, "o", "connector:s", "c", false); !errors.Is(err, action.ErrUnavailable) {
			t.Errorf("found in no time: %v", err)
		}
		if _, err := w.Find(t.Context(), "o", "connector:s", "c", false); err != nil {
			t.Error(err)
		}
		if v := w.want(t, "slow_c", "x_b"); v == first {
			t.Error("the version is the same")
		}
		if len(w.hints) != 1 || w.hints[0] != (action.Hint{Kind: action.HintCatalog, Organization: "o"}) {
			t.Errorf("hints %v", w.hints)
		}
		if slow.listed() != 1 {
			t.Errorf("asked %d times", slow.listed())
		}
	})
}

// TestCallerLeaves while a source is asked: the refresh goes on without him.
func TestCallerLeaves(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		o := w.add("a", "x", 1, plain("b"))
		o.slow = 2 * time.Second
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if list, _, err := w.List(ctx, "o"); err != nil || len(list) != 0 {
			t.Errorf("got %d actions, %v", len(list), err)
		}
		time.Sleep(2 * time.Second)
		w.want(t, "x_b")
		if o.listed() != 1 {
			t.Errorf("asked %d times", o.listed())
		}
	})
}

// TestFailingSource keeps its last good list, is left alone for longer and
// longer, and comes back.
func TestFailingSource(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		o := w.add("a", "x", 1, plain("b"))
		version := w.want(t, "x_b")
		o.set(func(o *origin) {
			o.err, o.tools = action.Errorf(action.ErrUnavailable, sources.FaultAuth, "The server refused the credential."), nil
		})
		time.Sleep(6 * time.Minute)
		if v := w.want(t, "x_b"); v != version {
			t.Error("a failure changed the version")
		}
		if _, err := w.Find(t.Context(), "o", "connector:a", "b", true); err != nil {
			t.Errorf("the last good list is not used: %v", err)
		}
		states, err := w.States(t.Context(), "o")
		if err != nil || len(states) != 1 {
			t.Fatal(states, err)
		}
		if s := states[0]; s.Error == nil || s.Error.Code != sources.FaultAuth || s.Tools != 1 || s.FetchedAt == nil || s.Protocol != "2026-07-28" || !s.Enabled || s.Name != "Name of a" {
			t.Errorf("got %+v", s)
		}
		failing := w.Outages("o")
		if len(failing) != 1 || failing[0].Source != "connector:a" || failing[0].Name != "Name of a" || failing[0].Reason != "The server refused the credential." || !failing[0].Listed {
			t.Errorf("the outages are %+v", failing)
		}
		before := o.listed()
		for range 60 {
			time.Sleep(time.Second)
			w.want(t, "x_b")
		}
		if n := o.listed() - before; n < 3 || n > 5 {
			t.Errorf("asked %d times in a minute of failing", n)
		}
		if now := w.Outages("o"); !cmp.Equal(now, failing) || failing[0].Since.After(time.Now().Add(-time.Minute)) {
			t.Errorf("after more failures the outages are %+v", now)
		}
		o.set(func(o *origin) { o.err, o.tools = nil, []string{plain("b"), plain("c")} })
		time.Sleep(2 * time.Minute)
		w.want(t, "x_b", "x_c")
		if s := w.State(o.con); s.Error != nil || s.Tools != 2 || len(s.Actions) != 2 {
			t.Errorf("got %+v", s)
		}
		if now := w.Outages("o"); now != nil {
			t.Errorf("after a success the outages are %+v", now)
		}
	})
}

// TestSourceThatNeverAnswered is an error and not an empty source.
func TestSourceThatNeverAnswered(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.add("a", "x", 1, plain("b"))
		bad := w.add("bad", "y", 1)
		bad.err = errors.New("internal detail")
		w.add("url", "z", 1)
		w.change("url", func(c *action.Connector) { c.URL = "broken" })
		w.want(t, "x_b")
		for id, says := range map[string]string{"bad": "Unexpected failure", "url": "not a URL"} {
			for _, fresh := range []bool{false, true} {
				_, err := w.Find(t.Context(), "o", "connector:"+id, "b", fresh)
				var e *action.Error
				if !errors.As(err, &e) || !errors.Is(e.Kind, action.ErrUnavailable) || !containsAll(e.Message, says, "Name of "+id) || containsAll(e.Message, "internal detail") {
					t.Errorf("%s: %v", id, err)
				}
			}
		}
		if n := bad.listed(); n != 1 {
			t.Errorf("a source that just failed was asked %d times", n)
		}
		if all := w.Health(); len(all) != 3 || !all[0].Healthy || all[1].Healthy || all[2].Healthy {
			t.Errorf("health: %+v", all)
		}
		states, _ := w.States(t.Context(), "o")
		if len(states) != 3 || states[1].Error == nil || states[1].FetchedAt != nil || states[2].Error == nil {
			t.Errorf("got %+v", states)
		}
		if down := w.Outages("o"); len(down) != 2 || down[0].Name != "Name of bad" || containsAll(down[0].Reason, "internal detail") || down[1].Listed || down[1].Since.IsZero() {
			t.Errorf("the outages are %+v", down)
		}
		if down := w.Outages("other"); down != nil {
			t.Errorf("another organization sees %+v", down)
		}
		// Being told of a change, such as a new secret, is a reason to ask again.
		bad.set(func(o *origin) { o.err, o.tools = nil, []string{plain("d")} })
		w.Invalidate("o")
		w.want(t, "x_b", "y_d")
	})
}

// TestFresh asks the source again, but not for each of many calls.
func TestFresh(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		o := w.add("a", "x", 1, plain("b"))
		w.want(t, "x_b")
		time.Sleep(2 * time.Second)
		o.set(func(o *origin) { o.tools = []string{`{"name":"b","inputSchema":{"required":["new"]}}`} })
		old, err := w.Find(t.Context(), "o", "connector:a", "b", false)
		if err != nil {
			t.Fatal(err)
		}
		act, err := w.Find(t.Context(), "o", "connector:a", "b", true)
		if err != nil || act.Hash == old.Hash {
			t.Errorf("got the old definition, %v", err)
		}
		for range 10 {
			if _, err := w.Find(t.Context(), "o", "connector:a", "b", true); err != nil {
				t.Error(err)
			}
		}
		if o.listed() != 2 {
			t.Errorf("asked %d times", o.listed())
		}
		o.set(func(o *origin) { o.tools = nil })
		time.Sleep(2 * time.Second)
		if _, err := w.Find(t.Context(), "o", "connector:a", "b", true); !errors.Is(err, action.ErrNotFound) {
			t.Errorf("found what is gone: %v", err)
		}
	})
}

// TestFreshDoesNotTakeAnOlderLook: a refresh under way that began long ago
// may have read what is not so any more.
func TestFreshDoesNotTakeAnOlderLook(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		o := w.add("a", "x", 1, plain("b"))
		o.slow = 5 * time.Second
		w.want(t) // nothing yet
		if _, err := w.Find(t.Context(), "o", "connector:a", "b", true); err != nil {
			t.Fatal(err)
		}
		if o.listed() != 2 {
			t.Errorf("asked %d times", o.listed())
		}
	})
}

// TestFreshReadsTheConnectors again, however lately they were read.
func TestFreshReadsTheConnectors(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		o := w.add("a", "x", 1, plain("b"))
		w.want(t, "x_b")
		w.change("a", func(c *action.Connector) { c.Revision = 2 })
		if a, err := w.Find(t.Context(), "o", "connector:a", "b", false); err != nil || a.Revision != "a:1" {
			t.Errorf("got %v, %v", a, err)
		}
		if a, err := w.Find(t.Context(), "o", "connector:a", "b", true); err != nil || a.Revision != "a:2" {
			t.Errorf("got %v, %v", a, err)
		}
		w.change("a", func(c *action.Connector) { c.Enabled = false })
		if _, err := w.Find(t.Context(), "o", "connector:a", "b", true); !errors.Is(err, action.ErrNotFound) || !containsAll(err.Error(), "disabled") {
			t.Errorf("found in a disabled connector: %v", err)
		}
		synctest.Wait()
		if w.opened != 2 || o.closed != 2 {
			t.Errorf("opened %d, closed %d times", w.opened, o.closed)
		}
	})
}

// TestChangesShow in the version, and are told.
func TestChangesShow(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		o := w.add("a", "x", 2, plain("b"))
		seen := map[string]bool{w.want(t, "x_b"): true}
		steps := []func(){
			func() { w.change("a", func(c *action.Connector) { c.Name = "Other" }) },
			func() { w.change("a", func(c *action.Connector) { c.DefaultRisk = action.RiskRead }) },
			func() {
				w.change("a", func(c *action.Connector) { c.Risks = map[string]action.Risk{"b": action.RiskDanger} })
			},
			func() { w.change("a", func(c *action.Connector) { c.Review = action.ReviewStrict }) },
			func() { w.change("a", func(c *action.Connector) { c.Revision++ }) },
			func() {
				o.set(func(o *origin) { o.tools = []string{`{"name":"b","description":"d","inputSchema":{}}`} })
			},
			func() { w.add("n", "y", 1, plain("c")) },
		}
		for i, step := range steps {
			told := len(w.hints)
			step()
			w.Invalidate("o")
			time.Sleep(6 * time.Minute)
			_, v := w.names(t, "o")
			if seen[v] {
				t.Errorf("change %d does not show", i)
			}
			seen[v] = true
			if len(w.hints) == told {
				t.Errorf("change %d is not told", i)
			}
		}
	})
}

func TestConnectorsCannotBeRead(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.add("a", "x", 1, plain("b"))
		w.want(t, "x_b")
		w.fail = errors.New("database is away")
		time.Sleep(2 * time.Second)
		if _, _, err := w.List(t.Context(), "o"); !errors.Is(err, w.fail) {
			t.Errorf("got %v", err)
		}
		if _, err := w.Find(t.Context(), "o", "connector:a", "b", true); !errors.Is(err, w.fail) {
			t.Errorf("got %v", err)
		}
		w.fail = nil
		w.want(t, "x_b")
	})
}

// TestBrokenTools are left out, with a warning; the good ones stay.
func TestBrokenTools(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		o := w.add("a", "x", 1, plain("b"), `null`, plain("b"), plain("no good"), `{"name":"c","inputSchema":{"$ref":"http://x/"}}`, plain("d"))
		w.want(t, "x_b", "x_d")
		s := w.State(o.con)
		if len(s.Warnings) != 4 {
			t.Errorf("warnings %q", s.Warnings)
		}
		var many []string
		for i := range 2001 {
			many = append(many, plain(fmt.Sprintf("t%04d", i)))
		}
		o.set(func(o *origin) { o.tools = many })
		time.Sleep(6 * time.Minute)
		if names, _ := w.names(t, "o"); len(names) != 2000 || names[1999] != "x_t1999" {
			t.Errorf("got %d tools", len(names))
		}
		if s := w.State(o.con); len(s.Warnings) != 1 {
			t.Errorf("warnings %q", s.Warnings)
		}
	})
}

func TestProbe(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		o := w.add("a", "x", 1, plain("b"))
		o.err = action.Errorf(action.ErrUnavailable, sources.FaultDNS, "no such name")
		w.want(t)
		o.set(func(o *origin) { o.err = nil })
		s, err := w.Probe(t.Context(), o.con)
		if err != nil || s.Tools != 1 || s.Error != nil {
			t.Errorf("got %+v, %v", s, err)
		}
		w.want(t, "x_b")

		// Who asks again wants what the server says now, however short a while
		// ago it was asked.
		o.set(func(o *origin) { o.tools = []string{plain("b"), plain("d")} })
		if s, err := w.Probe(t.Context(), o.con); err != nil || s.Tools != 2 {
			t.Errorf("a moment later: %+v, %v", s, err)
		}
		o.set(func(o *origin) { o.tools = []string{plain("b")} })
		if s, err := w.Probe(t.Context(), o.con); err != nil || s.Tools != 1 {
			t.Errorf("and another: %+v, %v", s, err)
		}

		unsaved := &origin{con: action.Connector{ID: "new", Organization: "o", Name: "N", Slug: "n"}, tools: []string{plain("c")}}
		w.origins["new"] = unsaved
		s, err = w.Probe(t.Context(), unsaved.con)
		if err != nil || s.Tools != 1 || s.Enabled || len(s.Actions) != 1 || s.Actions[0].Tool != "n_c" {
			t.Errorf("got %+v, %v", s, err)
		}
		if unsaved.closed != 1 {
			t.Error("a source opened to be tried was not closed")
		}
		w.want(t, "x_b")
	})
}

// A person who asks how a connector does is told of its server, not of what the
// gateway remembers of it.
func TestProbeReachesTheServer(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		h := furnish(w.add("a", "x", 1, plain("b")))
		h.steps = []sources.Step{{Name: "long ago"}}
		w.names(t, "o")
		open := action.Errorf(action.ErrUnavailable, sources.FaultOpen, "it is left alone")
		h.set(func(o *origin) { o.err, h.shut = open, time.Now().Add(time.Hour) })
		apart := furnish(&origin{con: h.con, tools: []string{plain("b"), plain("c")}})
		apart.steps = []sources.Step{{Name: "now"}}
		w.apart = apart
		probe := func(code string, tools int) {
			t.Helper()
			s, err := w.Probe(t.Context(), h.con)
			if err != nil || len(s.Steps) != 1 || s.Steps[0].Name != "now" || s.Tools != tools {
				t.Errorf("got %+v, %v", s, err)
			}
			got := ""
			if s.Error != nil {
				got = s.Error.Code
			}
			if got != code {
				t.Errorf("got the error %+v, want %q", s.Error, code)
			}
		}
		probe("", 1) // the server is well; calls fail all the same
		if all := w.Health(); len(all) != 1 || all[0] != (sources.Health{Source: h.con.Source()}) {
			t.Errorf("health: %+v", all)
		}
		if s := w.State(h.con); !s.CircuitOpen || s.Error.Code != sources.FaultOpen {
			t.Errorf("got %+v", s)
		}
		apart.set(func(o *origin) { o.err = action.Errorf(action.ErrUnavailable, sources.FaultTLS, "an old certificate") })
		lists := h.listed()
		probe(sources.FaultTLS, 1)
		if s := w.State(h.con); s.Error.Code != sources.FaultTLS || h.listed() != lists {
			t.Errorf("got %+v after %d lists", s, h.listed()-lists)
		}
		apart.set(func(o *origin) { o.err = nil })
		probe("", 1) // nor is what was wrong before
		// What only the saved one finds is not hidden.
		h.set(func(o *origin) {
			o.err, h.shut = action.Errorf(action.ErrUnavailable, sources.FaultTimeout, "too late"), time.Time{}
		})
		probe(sources.FaultTimeout, 1)
		h.set(func(o *origin) { o.err, o.tools = nil, []string{plain("b"), plain("c")} })
		probe("", 2)
		if apart.closed != 5 || h.closed != 0 {
			t.Errorf("%d and %d closed", apart.closed, h.closed)
		}
	})
}

// Who has no more time for a probe is not told that all is well.
func TestProbeThatIsLeft(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		o := w.add("a", "x", 1, plain("b"))
		o.err = action.Errorf(action.ErrUnavailable, sources.FaultDNS, "no such name")
		w.want(t)
		o.set(func(o *origin) { o.err, o.slow = nil, 2*time.Second })
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if s, err := w.Probe(ctx, o.con); err != nil || !s.Checking || s.FetchedAt != nil {
			t.Errorf("got %+v, %v", s, err)
		}
		time.Sleep(3 * time.Second)
		w.want(t, "x_b")
	})
}

// TestRetryAfter: a server that says how long it wants to be left alone is, but
// not for ever.
func TestRetryAfter(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{0: 5 * time.Second, time.Second: 5 * time.Second, time.Minute: time.Minute, time.Hour: 10 * time.Minute} {
		story(t, func(t *testing.T, w *world) {
			o := w.add("a", "x", 1, plain("b"))
			o.err = &action.Error{Kind: action.ErrUnavailable, Code: sources.FaultRateLimited, Message: "slowly", RetryAfter: asked}
			w.want(t)
			time.Sleep(want - time.Millisecond)
			w.want(t)
			if o.listed() != 1 {
				t.Errorf("%s: asked again before %s", asked, want)
			}
			time.Sleep(2 * time.Second)
			w.want(t)
			if o.listed() != 2 {
				t.Errorf("%s: not asked again after %s", asked, want)
			}
		})
	}
}

func TestClose(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		o := w.add("a", "x", 1, plain("b"))
		o.slow = 10 * time.Second
		w.want(t)
		started := time.Now()
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(started); took != 0 || o.closed != 1 {
			t.Errorf("closing took %s, the source was closed %d times", took, o.closed)
		}
		if _, err := w.Find(t.Context(), "o", "connector:a", "b", true); !errors.Is(err, action.ErrUnavailable) {
			t.Errorf("found after the end: %v", err)
		}
	})
}

// TestManyAtOnce is for the race detector: everything at the same time.
func TestManyAtOnce(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		for i := range 5 {
			w.add(fmt.Sprint(i), fmt.Sprintf("s%d", i), i, plain("b")).slow = time.Duration(i) * time.Second
		}
		var group sync.WaitGroup
		for i := range 40 {
			group.Go(func() {
				for j := range 20 {
					id := fmt.Sprint((i + j) % 5)
					switch (i + j) % 6 {
					case 0:
						_, _, _ = w.List(t.Context(), "o")
					case 1:
						_, _ = w.Find(t.Context(), "o", "connector:"+id, "b", true)
					case 2:
						_, _ = w.States(t.Context(), "o")
					case 3:
						w.Invalidate("o")
					case 4:
						w.change(id, func(c *action.Connector) { c.Revision++ })
					case 5:
						_, _ = w.Resolve(t.Context(), "o", "s"+id+"_b")
					}
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		group.Wait()
		w.names(t, "o")
		time.Sleep(10 * time.Second)
		w.want(t, "s0_b", "s1_b", "s2_b", "s3_b", "s4_b")
	})
}

func BenchmarkFind(b *testing.B) {
	w := newWorld(b)
	defer w.Close()
	w.add("a", "x", 1, plain("t7"), plain("t8"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.Find(b.Context(), "o", "connector:a", "t7", false); err != nil {
			b.Fatal(err)
		}
	}
}
