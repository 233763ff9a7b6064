package opencode_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"testing"

	"sallyport/conformance/harness"
)

var listening = regexp.MustCompile(`listening on (http://\S+)`)

// server is `opencode serve`, which does what the program's screen does.
type server struct {
	t   testing.TB
	url string
}

func (o *opencode) serve() *server {
	o.T.Helper()
	r := o.Start("serve", "--port", "0")
	var at []string
	harness.Await(o.T, "OpenCode to listen", func() bool { at = listening.FindStringSubmatch(r.Printed()); return at != nil })
	return &server{t: o.T, url: at[1]}
}

// post sends a request that has to succeed, and reads the answer into out.
func (s *server) post(path string, body, out any) {
	s.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, bytes.NewReader(raw))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	if raw, err = io.ReadAll(response.Body); err != nil || response.StatusCode >= 300 {
		s.t.Fatalf("POST %s: status %d, %v: %s", path, response.StatusCode, err, raw)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(raw, out); err != nil {
		s.t.Fatal(err)
	}
}

func TestAnAbortWithdrawsTheHeldCall(t *testing.T) {
	t.Parallel()
	s := begin(t)
	model := s.model(harness.Call("sallyport_demo_write", args{"text": "never mind"}))
	screen := s.opencode(model).serve()
	var chat struct {
		ID string `json:"id"`
	}
	screen.post("/session", args{}, &chat)
	screen.post("/session/"+chat.ID+"/prompt_async", args{"parts": []args{{"type": "text", "text": "Write it down."}}}, nil)
	id := s.Held()
	screen.post("/session/"+chat.ID+"/abort", args{}, nil)
	if i := s.Becomes(id, "denied"); i.Reason != "withdrawn" {
		t.Errorf("the call ended as %+v", i)
	}
	if n := s.Demo.Did("wrote never mind"); n != 0 {
		t.Errorf("what was withdrawn happened %d times", n)
	}
}
