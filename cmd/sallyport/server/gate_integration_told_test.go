package server

import (
	"net/http"
	"strings"
	"testing"
)

// A service that wants fewer requests answered: the agent is told so by its
// name, with one time to wait.
func TestWantsFewerRequests(t *testing.T) {
	t.Parallel()
	p, linear := serveHouse(t), newService(t, likeLinear(linearKey))
	p.connectTo(linear, "linear", map[string]any{"kind": "api_key", "secret": linearKey})
	a := p.agent("linear")
	linear.answers(func(w http.ResponseWriter, _ *asked) {
		w.Header().Set("Retry-After", "60")
		reply(w, http.StatusTooManyRequests, `{}`)
	})
	const want = "Linear (Acme) limits its requests. Nothing was executed. You can try again in 1m0s. (invocation "
	if got := a.answered(a.call("linear_list_issues", `{}`), true); !strings.HasPrefix(got, want) {
		t.Errorf("told %q\nwant %q", got, want)
	}
}
