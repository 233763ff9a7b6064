package action_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sallyport/action"
)

func TestPageAfter(t *testing.T) {
	items := []string{"a", "b", "c", "d", "e"}
	self := func(s string) string { return s }
	page := func(items []string, cursor string) action.Page[string] {
		t.Helper()
		p, err := action.PageAfter(items, self, cursor, 2)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := page(items, "")
	second := page([]string{"a", "aa", "c", "d", "e"}, first.Next) // b is gone
	last := page(items, second.Next)
	for want, p := range map[string]action.Page[string]{"[a b] true": first, "[c d] true": second, "[e] false": last} {
		if got := fmt.Sprintf("%v %t", p.Items, p.Next != ""); got != want || p.Total != 5 {
			t.Errorf("a page of %s of %d, want %s", got, p.Total, want)
		}
	}
	if p := page(nil, first.Next); len(p.Items) != 0 || p.Next != "" {
		t.Errorf("of nothing there is %+v", p)
	}
	for _, cursor := range []string{"x", "%", action.CursorAfter("")} {
		if _, err := action.PageAfter(items, self, cursor, 2); !errors.Is(err, action.ErrInvalid) || action.Public(err).Code != "invalid_cursor" {
			t.Errorf("the cursor %q: %v", cursor, err)
		}
	}
}

// TestSnapshotPages reads a snapshot page by page, and finds every action once, below
// its provider.
func TestSnapshotPages(t *testing.T) {
	snapshot := func() *action.Snapshot {
		s := &action.Snapshot{Providers: []string{"B", "A", "A"}}
		for _, p := range []struct {
			name, id string
			actions  int
		}{{"B", "b", 5}, {"A", "connector:2", 0}, {"A", "connector:1", 3}} {
			one := action.ProviderAbility{Provider: p.id, Name: p.name, Level: action.LevelRead}
			for i := range p.actions {
				one.Actions = append(one.Actions, action.ActionAbility{Action: fmt.Sprint("x", i), Denied: i%2 == 1})
			}
			s.Capabilities = append(s.Capabilities, one)
		}
		return s
	}
	for limit := 1; limit < 12; limit++ {
		var seen []string
		pages := 0
		for cursor, more := "", true; more; pages++ {
			s := snapshot()
			if err := s.Page(cursor, limit); err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, p := range s.Capabilities {
				if p.Level != action.LevelRead || p.Actions == nil {
					t.Errorf("the provider is %+v", p)
				}
				n += max(1, len(p.Actions))
				for _, a := range p.Actions {
					seen = append(seen, p.Provider+" "+a.Action)
				}
				if len(p.Actions) == 0 {
					seen = append(seen, p.Provider)
				}
			}
			if n == 0 || n > limit || s.Total != 8 || len(s.Providers) != 3 {
				t.Errorf("a page has %d entries of %d: %+v", n, limit, s)
			}
			cursor, more = s.NextCursor, s.NextCursor != ""
		}
		want := "connector:1 x0,connector:1 x1,connector:1 x2,connector:2,b x0,b x1,b x2,b x3,b x4"
		if got := strings.Join(seen, ","); got != want || pages != (9+limit-1)/limit {
			t.Errorf("%d pages of %d: %s", pages, limit, got)
		}
	}
	s := snapshot()
	s.Denied()
	var left []string
	for _, p := range s.Capabilities {
		for _, a := range p.Actions {
			left = append(left, p.Provider+" "+a.Action)
		}
	}
	if want := []string{"b x1", "b x3", "connector:1 x1"}; !slices.Equal(left, want) {
		t.Errorf("denied are %v", left)
	}
	if err := s.Page("nonsense", 5); !errors.Is(err, action.ErrInvalid) {
		t.Errorf("a cursor that is none: %v", err)
	}
}
