package gate

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"sallyport/action"
)

// toolsOf is a catalog with fixed actions.
type toolsOf struct {
	Catalog
	actions []*action.Action
}

func (c toolsOf) List(context.Context, string) ([]*action.Action, string, error) {
	return c.actions, "1", nil
}

// TestDenied counts the denied tools, those beyond a ceiling too: actions_guide lists the
// same. It does not count actions that are not tools, tools of integrations that the session
// is not connected to, nor any in a completed session.
func TestDenied(t *testing.T) {
	var list []*action.Action
	for _, row := range [][3]string{
		{"a", "list", "a_list"}, {"b", "wipe", "b_wipe"}, {"a", "drop", "a_drop"}, {"a", "wipe", "a_wipe"}, {"a", "beyond", "a_beyond"}, {"a", "deny", ""}, {"linear", "unconnected", "linear_unconnected"},
	} {
		list = append(list, &action.Action{Source: row[0], SourceName: "The " + row[0], Name: row[1], Tool: row[2]})
	}
	list[len(list)-1].Provider = "linear"
	version := "1"
	g := &Gate{Config: Config{
		Catalog: toolsOf{actions: list},
		View:    func(context.Context, *action.Session) (string, string, error) { return "", version, nil },
		Decide: func(_ context.Context, _ *action.Session, a *action.Action, _ json.RawMessage, _ bool) (action.Decision, error) {
			switch {
			case a.Name == "list" || version == "2":
				return action.Decision{Mode: action.ModeAllow}, nil
			case a.Name == "beyond" || a.Name == "unconnected":
				return action.Decision{Mode: action.ModeDeny, Source: action.LayerCeiling, Steps: make([]action.Step, 1)}, nil
			}
			return action.Decision{Mode: action.ModeDeny, Source: action.LayerInferred}, nil
		},
	}}
	s := &action.Session{Organization: "org"}
	want := []action.DeniedTools{{Source: "b", SourceName: "The b", Count: 1}, {Source: "a", SourceName: "The a", Count: 3}}
	for range 2 { // the second time from the cache
		if got, err := g.Denied(t.Context(), s); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("denied %v, %v", got, err)
		}
		if available, _, err := g.Available(t.Context(), s); err != nil || len(available) != 1 {
			t.Errorf("available %v, %v", available, err)
		}
	}
	ended := time.Now()
	if got, err := g.Denied(t.Context(), &action.Session{Organization: "org", CompletedAt: &ended}); err != nil || len(got) != 0 {
		t.Errorf("denied in a completed session: %v, %v", got, err)
	}
	version = "2"
	if got, err := g.Denied(t.Context(), s); err != nil || len(got) != 0 {
		t.Errorf("denied by an older policy: %v, %v", got, err)
	}
}
