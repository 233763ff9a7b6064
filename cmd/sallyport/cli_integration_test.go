package main

import (
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/rogpeppe/go-internal/testscript"
)

// startLinear serves what answers like Linear, and sets LINEAR to its URL.
func startLinear(ts *testscript.TestScript, _ bool, _ []string) {
	answer := likeLinear(linearKey)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // who asked is gone
		}
		answer(w, &asked{Header: r.Header, Body: string(body)})
	}))
	ts.Defer(server.Close)
	ts.Setenv("LINEAR", server.URL)
}
