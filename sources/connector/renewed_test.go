package connector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/sources/connector"
)

// renewing has a source refused with each token but the last, and given the
// next one.
func renewing(u *upstream, token *atomic.Int64) func(*connector.Config) {
	return func(c *connector.Config) {
		c.MayAsk = action.AskKinds()
		c.Secret = func(context.Context) (string, string, error) {
			return fmt.Sprintf("token-number-%d", token.Load()), u.Listener.Addr().String(), nil
		}
		c.Refused = func(context.Context, string, int, []string) (bool, error) {
			token.Add(1)
			return true, nil
		}
	}
}

// TestTokensBeforeAreReplaced has a server echo all tokens that it ever saw:
// those that were used for the same call, and the last one of other calls.
func TestTokensBeforeAreReplaced(t *testing.T) {
	for _, era := range eras {
		t.Run(era.name, func(t *testing.T) {
			var token, calls atomic.Int64
			token.Store(1)
			const echo = `"echo":["token-number-1","token-number-2"]`
			u := newUpstream(t, era.stateless, func(w http.ResponseWriter, _ *http.Request, p *post) {
				switch {
				case p.Method != "tools/call":
					w.WriteHeader(http.StatusMethodNotAllowed)
				case calls.Add(1) == 2: // the first one did well
					w.WriteHeader(http.StatusUnauthorized)
				default:
					stream(w)
					say(w, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info",%s}}`, echo))
					say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],%s}}`, p.ID, echo))
				}
			})
			s := open(t, u.URL, renewing(u, &token))
			for i := range 3 {
				var said []string
				res, err := s.Call(t.Context(), "tool", nil, &caller{log: func(p json.RawMessage) { said = append(said, string(p)) }})
				if err != nil {
					t.Fatal(err)
				}
				said = append(said, string(res.Body))
				if all := strings.Join(said, " "); len(said) != 2 || i > 0 && contains(all, "token-number-") || contains(all, "token-number-1") {
					t.Errorf("call %d: the server's words are handed on as %s", i, all)
				}
				want := [][]string{{"token-number-1"}, {"token-number-1", "token-number-2"}, {"token-number-2"}}[i]
				if diff := cmp.Diff(want, res.Secrets); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// TestRenewalWhileAnswering has a question of a call's first request answered
// while the second one's credential is renewed: each keeps its own.
func TestRenewalWhileAnswering(t *testing.T) {
	var token, calls atomic.Int64
	u := newUpstream(t, false, func(w http.ResponseWriter, _ *http.Request, p *post) {
		switch {
		case p.Method == "":
			w.WriteHeader(http.StatusAccepted)
		case p.Method != "tools/call":
			w.WriteHeader(http.StatusMethodNotAllowed)
		case calls.Load()%3 == 1:
			calls.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
		case calls.Add(1)%3 == 1:
			stream(w)
			say(w, `{"jsonrpc":"2.0","id":7,"method":"roots/list"}`)
			say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, p.ID, signIn))
		default:
			respond(w, p, `{"content":[]}`)
		}
	})
	s := open(t, u.URL, renewing(u, &token))
	for range 20 {
		over := make(chan struct{})
		_, err := s.Call(t.Context(), "tool", nil, &caller{session: "a", ask: func(ctx context.Context, q []action.Question) (map[string]action.Reply, error) {
			if q[0].Method == "roots/list" {
				close(over)
				return nil, context.Canceled
			}
			<-over
			return map[string]action.Reply{q[0].Key: {Result: json.RawMessage(`{"action":"accept"}`)}}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
}
