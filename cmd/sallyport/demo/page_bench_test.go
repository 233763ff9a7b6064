package demo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"sallyport/cmd/sallyport/command"
	"sallyport/cmd/sallyport/demo/notebook"
)

// BenchmarkInboxPage is what the inbox with ten calls that wait costs the
// server, over loopback and with real rows.
func BenchmarkInboxPage(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	upstream, stop, err := notebook.Serve(ctx, notebook.New())
	if err != nil {
		b.Fatal(err)
	}
	defer stop()
	d := &demo{Streams: &command.Streams{Out: io.Discard, Err: io.Discard}, data: b.TempDir()}
	served, err := d.open(ctx, "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		cancel()
		if err := <-served; err != nil {
			b.Error(err)
		}
	}()
	if err := d.prepare(ctx, upstream); err != nil {
		b.Fatal(err)
	}
	at, err := command.ReadEndpoint(d.data)
	if err != nil {
		b.Fatal(err)
	}
	for n := range 10 {
		body := fmt.Sprintf(`{"source":%q,"action":"add","params":{"text":"Call the plumber %d"}}`, demoSlug, n)
		benchRequest(b, http.MethodPost, at.URL+"/api/v1/sessions/"+d.session.ID+"/actions/invoke", body, "Authorization", "Bearer "+d.session.Token)
	}
	_, code, _ := strings.Cut(d.login, "#")
	code, _, _ = strings.Cut(code, ".")
	header, _ := benchRequest(b, http.MethodPost, at.URL+"/login", `{"code":"`+code+`"}`, "Origin", at.URL)
	cookie, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	size := 0
	for b.Loop() {
		_, page := benchRequest(b, http.MethodGet, at.URL+"/", "", "Cookie", cookie)
		if strings.Count(page, "Call the plumber") < 10 {
			b.Fatal("the page lacks calls")
		}
		size = len(page)
	}
	b.ReportMetric(float64(size), "bytes/page")
}

// benchRequest sends a request that has to succeed, with one further header.
func benchRequest(b *testing.B, method, url, body, header, value string) (http.Header, string) {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), method, url, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(header, value)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		b.Fatalf("%s %s: %s %v: %s", method, url, response.Status, err, raw)
	}
	return response.Header, string(raw)
}
