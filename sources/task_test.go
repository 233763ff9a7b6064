package sources_test

import (
	"errors"
	"strings"
	"testing"

	"sallyport/action"
)

// A tool that its server runs as a task alone is listed as it is; its calls are
// refused before anybody is asked about them, and people are told why.
func TestToolsThatAreOnlyTasks(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		const slow = `{"name":"slow","execution":{"taskSupport":"required"},"inputSchema":{"type":"object"}}`
		o := w.add("a", "a", 1, slow,
			`{"name":"either","execution":{"taskSupport":"optional"},"inputSchema":{"type":"object"}}`,
			`{"name":"odd","execution":{"taskSupport":["required"]},"inputSchema":{"type":"object"}}`)
		before, _, err := w.List(t.Context(), "o")
		if err != nil || len(before) != 3 {
			t.Fatal(before, err)
		}
		for _, a := range before {
			if err := a.Check([]byte(`{}`)); err != nil {
				t.Errorf("of a server that does not declare tasks, %s is refused: %v", a.Name, err)
			}
		}
		if s := w.State(w.connectors["o"][0]); len(s.Warnings) != 0 {
			t.Errorf("people are told %q", s.Warnings)
		}
		o.mu.Lock()
		o.tasks = true
		o.mu.Unlock()
		if _, err := w.Probe(t.Context(), w.connectors["o"][0]); err != nil {
			t.Fatal(err)
		}
		list, _, err := w.List(t.Context(), "o")
		if err != nil || len(list) != 3 {
			t.Fatal(list, err)
		}
		for _, a := range list {
			err := a.Check([]byte(`{}`))
			var e *action.Error
			switch {
			case a.Name != "slow":
				if err != nil {
					t.Errorf("%s: %v", a.Name, err)
				}
			case !errors.As(err, &e) || e.Code != "task_only" || !errors.Is(err, action.ErrForbidden) || !strings.HasPrefix(e.Message, "a_slow can only be called as a task"):
				t.Errorf("a call of it is answered %v", err)
			case string(a.Definition) != strings.Replace(slow, `"slow"`, `"a_slow"`, 1):
				t.Errorf("it is listed as %s", a.Definition)
			}
		}
		if s := w.State(w.connectors["o"][0]); len(s.Warnings) != 1 || !strings.HasPrefix(s.Warnings[0], `Tool "slow" can only be called as a task`) {
			t.Errorf("people are told %q", s.Warnings)
		}
	})
}
