package connector_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLogMessages reach their caller as they are, and at the level that he
// wants; a session with others is never told to be more silent.
func TestLogMessages(t *testing.T) {
	for _, era := range eras {
		t.Run(era.name, func(t *testing.T) {
			u := newUpstream(t, era.stateless, func(w http.ResponseWriter, _ *http.Request, p *post) {
				if p.Method != "tools/call" {
					respond(w, p, `{}`)
					return
				}
				stream(w)
				for _, level := range []string{"debug", "info", "odd", "error"} {
					say(w, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"z":9007199254740993, "level":%q,"data":{"b":1.0,"a":"\u00e9"}}}`, level))
				}
				say(w, `{"jsonrpc":"2.0","method":"notifications/message","params":[]}`)
				say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, p.ID))
			})
			u.offer(offersAll)
			s := open(t, u.URL, nil)
			heard := func(level string) (said []string) {
				c := &caller{level: level, log: func(p json.RawMessage) { said = append(said, string(p)) }}
				if _, err := s.Call(t.Context(), "tool", nil, c); err != nil {
					t.Fatal(err)
				}
				return said
			}
			said := func(levels ...string) (list []string) {
				for _, level := range levels {
					list = append(list, fmt.Sprintf(`{"z":9007199254740993, "level":%q,"data":{"b":1.0,"a":"\u00e9"}}`, level))
				}
				return list
			}
			var got [][]string
			for _, level := range []string{"", "warning", "info", "error", "nonsense"} {
				got = append(got, heard(level))
			}
			all := said("debug", "info", "odd", "error")
			if diff := cmp.Diff([][]string{all, said("odd", "error"), said("info", "odd", "error"), said("odd", "error"), all}, got); diff != "" {
				t.Error(diff)
			}
			var levels []string
			for _, p := range u.received("logging/setLevel") {
				levels = append(levels, p.Params.Level)
			}
			want := []string{"warning", "info"}
			if era.stateless {
				want = []string{"", "warning", "info", "error", ""}
				for _, p := range u.received("tools/call") {
					levels = append(levels, p.Params.Meta.Level)
				}
			}
			if diff := cmp.Diff(want, levels); diff != "" {
				t.Error(diff)
			}
		})
	}
}
