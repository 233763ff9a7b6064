package main

import (
	"bytes"
	"io"
	"net/http"
)

// proxy is the thinnest proxy that net/http allows: it reads the body, sends
// it on and copies the answer back. No policy, no audit, no protocol.
type proxy struct {
	to     string // scheme and host
	client *http.Client
}

func newProxy(to string) *proxy {
	return &proxy{to: to, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	out, err := http.NewRequestWithContext(r.Context(), r.Method, p.to+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	for _, name := range []string{"Content-Type", "Accept", "Mcp-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name"} {
		out.Header[name] = r.Header[name]
	}
	response, err := p.client.Do(out)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	w.Header()["Content-Type"] = response.Header["Content-Type"]
	w.WriteHeader(response.StatusCode)
	_, _ = w.Write(answer)
}
