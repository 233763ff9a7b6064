package main

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
)

// Who connects a session to two workspaces of one service is told that its agent
// can use neither, and why; of one, nothing is to be told.
func TestTellsWhatASessionCannotUse(t *testing.T) {
	p, one := serveHouse(t), newService(t, likeLinear(linearKey))
	other := newService(t, func(w http.ResponseWriter, r *asked) {
		if strings.Contains(r.Body, "Viewer") {
			reply(w, 200, `{"data":{"viewer":{"id":"u2","name":"Bo"},"organization":{"id":"o2","name":"Beta","urlKey":"beta"}}}`)
			return
		}
		likeLinear(linearKey)(w, r)
	})
	p.connectTo(one, "linear", map[string]any{"kind": "api_key", "secret": linearKey})
	second := p.connectTo(other, "linear", map[string]any{"kind": "api_key", "secret": linearKey})
	t.Setenv("SALLYPORT_URL", p.url)
	t.Setenv("SALLYPORT_API_KEY", p.key)
	mint := func(flags ...string) (status int, errs string) {
		var out, told bytes.Buffer
		status = execute(t.Context(), append([]string{"session", "create"}, flags...), nil, &out, &told)
		return status, told.String()
	}
	status, told := mint("--connect", "all")
	if want := "note: this session cannot use linear: The session is connected to several integrations of Linear"; status != exitOK || !strings.HasPrefix(told, want) || strings.Count(told, "\n") != 1 {
		t.Errorf("status %d, told %q\nwant %q", status, told, want)
	}
	if status, told = mint("--connect", second.ID); status != exitOK || told != "" {
		t.Errorf("status %d, told %q of a session that can use it", status, told)
	}
	if status, told = mint("--connect", "all", "--json"); status != exitOK || told != "" {
		t.Errorf("status %d, told %q beside JSON", status, told)
	}
}
