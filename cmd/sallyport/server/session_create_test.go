package server

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sallyport/cmd/sallyport/command"
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
	t.Setenv("SALLYPORT_URL", p.URL)
	t.Setenv("SALLYPORT_API_KEY", p.key)
	mint := func(flags ...string) (status int, errs string) {
		var out, told bytes.Buffer
		status = executeCommand(t.Context(), append([]string{"session", "create"}, flags...), nil, &out, &told)
		return status, told.String()
	}
	status, told := mint("--connect", "all")
	if want := "note: this session cannot use linear: The session is connected to several integrations of Linear"; status != command.ExitOK || !strings.HasPrefix(told, want) || strings.Count(told, "note:") != 1 {
		t.Errorf("status %d, told %q\nwant %q", status, told, want)
	}
	if status, told = mint("--connect", second.ID); status != command.ExitOK || strings.Contains(told, "note:") {
		t.Errorf("status %d, told %q of a session that can use it", status, told)
	}
	if status, told = mint("--connect", "all", "--json"); status != command.ExitOK || told != "" {
		t.Errorf("status %d, told %q beside JSON", status, told)
	}
}

// A session whose token did not arrive can be had again, and one that arrived is
// printed before anything else is asked.
func TestNoMintedTokenIsLost(t *testing.T) {
	p := serveHouse(t)
	t.Setenv("SALLYPORT_API_KEY", p.key)
	var out, errs bytes.Buffer
	var key, answer string
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/sessions" {
			if !strings.Contains(out.String(), "sps_") {
				t.Errorf("%s is asked for before the token is printed", r.URL.Path)
			}
			return
		}
		key = r.Header.Get("Idempotency-Key")
		request, _ := http.NewRequestWithContext(r.Context(), r.Method, p.URL+r.URL.Path, r.Body)
		request.Header = r.Header
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Error(err)
			return
		}
		defer response.Body.Close()
		raw, _ := io.ReadAll(response.Body)
		if key != "" { // this answer is lost
			answer = string(raw)
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(raw)
	}))
	defer front.Close()
	t.Setenv("SALLYPORT_URL", front.URL)
	line := []string{"session", "create", "--title", "Login"}
	status := executeCommand(t.Context(), line, nil, &out, &errs)
	if status != command.ExitError || key == "" || !strings.Contains(errs.String(), "the same command with --idempotency-key "+key+" to get it with its token") {
		t.Fatalf("status %d, key %q: %s", status, key, errs.String())
	}
	lost := key
	if status = executeCommand(t.Context(), append(line, "--idempotency-key", lost), nil, &out, &errs); status != command.ExitOK {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	if !strings.Contains(answer, tokenIn(out.String())) {
		t.Errorf("it is another session than the first one:\n%s", out.String())
	}
	out.Reset()
	errs.Reset()
	t.Setenv("SALLYPORT_URL", "http://127.0.0.1:1")
	if status = executeCommand(t.Context(), line, nil, &out, &errs); status != command.ExitError || strings.Contains(errs.String(), "idempotency") {
		t.Errorf("of a server that was not reached: %s", errs.String())
	}
}

func tokenIn(printed string) string {
	_, rest, _ := strings.Cut(printed, `"token": "`)
	token, _, _ := strings.Cut(rest, `"`)
	return token
}
