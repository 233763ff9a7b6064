package connector_test

import (
	"net/http"
	"testing"
)

// Only in 2025-11-25, and of a server that declares it, are tools called as
// tasks where their definitions want it. The SDK does not tell.
func TestTasksAreDeclared(t *testing.T) {
	for _, test := range []struct {
		stateless    bool
		capabilities string
		want         bool
	}{
		{false, `{"tools":{},"tasks":{"list":{},"requests":{"tools":{"call":{}}}}}`, true},
		{false, `{"tools":{},"tasks":{"requests":{"sampling":{}}}}`, false},
		{false, `{"tools":{},"tasks":{"requests":"all"}}`, false},
		{false, `{"tools":{}}`, false},
		{true, `{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}}`, false},
		{true, `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, false},
	} {
		for _, events := range []bool{false, true} {
			u := newUpstream(t, test.stateless, func(w http.ResponseWriter, _ *http.Request, p *post) {
				respond(w, p, `{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}`)
			})
			u.offer(test.capabilities)
			u.streams = events
			l, err := open(t, u.URL, nil).List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if l.Capabilities.Tasks != test.want {
				t.Errorf("%+v, events %t: tasks are %t", test, events, l.Capabilities.Tasks)
			}
		}
	}
}
