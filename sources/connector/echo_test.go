package connector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/sources/connector"
)

// TestSecretIsReplacedInQuestions has a server echo its credential in what it
// offers, logs and asks; its own state comes back to it as it was.
func TestSecretIsReplacedInQuestions(t *testing.T) {
	const secret = "s3cr3t-canary-value"
	for _, era := range eras {
		t.Run(era.name, func(t *testing.T) {
			replied := make(chan struct{}, 1)
			u := newUpstream(t, era.stateless, func(w http.ResponseWriter, r *http.Request, p *post) {
				echo := r.Header.Get("Authorization")
				switch {
				case r.Method == http.MethodGet:
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				case p.Method == "":
					w.WriteHeader(http.StatusAccepted)
					replied <- struct{}{}
					return
				case strings.HasSuffix(p.Method, "/list"):
					respond(w, p, fmt.Sprintf(`{"tools":[],"resources":[{"uri":%q}],"resourceTemplates":[],"prompts":[{"name":%q}]}`, echo, echo))
					return
				case strings.Contains(p.raw, "inputResponses"):
					if !strings.Contains(p.raw, `"requestState":"`+secret+`"`) {
						t.Errorf("the state came back in %s", p.raw)
					}
					respond(w, p, `{"content":[]}`)
					return
				}
				stream(w)
				say(w, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":%q}}`, echo))
				if era.stateless {
					say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","requestState":%q,"inputRequests":{"q":{"method":"elicitation/create","params":{"message":%q}}}}}`, p.ID, echo, echo))
					return
				}
				say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":%q}}`, echo))
				<-replied
				say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, p.ID))
			})
			u.offer(offersAll)
			s := open(t, u.URL, func(c *connector.Config) {
				c.MayAsk = []action.AskKind{action.AskElicitation}
				c.Secret = func(context.Context) (string, string, error) { return secret, u.Listener.Addr().String(), nil }
			})
			l, err := s.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			said := append(texts(l.Resources), texts(l.Prompts)...)
			var heard []action.Question
			c := answering(action.Reply{Result: json.RawMessage(`{"action":"decline"}`)}, &heard)
			c.log = func(p json.RawMessage) { said = append(said, string(p)) }
			if _, err := s.Call(t.Context(), "tool", nil, c); err != nil || len(heard) != 1 {
				t.Fatalf("%v after %d questions", err, len(heard))
			}
			said = append(said, string(heard[0].Params))
			if len(said) != 4 {
				t.Errorf("said %q", said)
			}
			for _, text := range said {
				if contains(text, secret) || !contains(text, "[redacted]") {
					t.Errorf("it says %s", text)
				}
			}
		})
	}
}
