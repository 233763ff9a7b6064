package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// models measures streamed answers of models through the gateway against the same
// answers from the provider: the time to the first byte, and the memory of streams that
// are open.
func models(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench models", flag.ContinueOnError)
	streams := flags.Int("streams", 200, "streams that are open at a time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-models-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p, err := startProvider(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	binary, err := build(ctx, dir)
	if err != nil {
		return err
	}
	g, err := startGateway(ctx, binary, filepath.Join(dir, "gateway"), "serve")
	if err != nil {
		return err
	}
	defer g.stop()
	if err := g.api(ctx, "PUT", "/api/v1/secrets/bench", map[string]any{"value": "key", "host": p.host}, nil); err != nil {
		return err
	}
	if err := g.api(ctx, "PUT", "/api/v1/models/providers/bench", map[string]any{"url": "http://" + p.host, "secret": "bench"}, nil); err != nil {
		return err
	}
	tokens, err := g.tokens(ctx, max(1, *streams/10))
	if err != nil {
		return err
	}
	const path = "/v1/chat/completions"
	if err := firstBytes(ctx, out, "a stream", openStream("short"), "http://"+p.host+path, g.URL+"/llm/bench"+path, tokens[0]); err != nil {
		return err
	}
	return memoryOfStreams(ctx, out, g, openStream("endless"), g.URL+"/llm/bench"+path, tokens, *streams)
}

// provider answers requests for the model "endless" with events that do not end before
// the benchmark does, and others with a few.
type provider struct {
	*http.Server
	host string
	end  chan struct{}
}

func (p *provider) Close() {
	close(p.end)
	_ = p.Server.Close()
}

func startProvider(ctx context.Context) (*provider, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &provider{host: listener.Addr().String(), end: make(chan struct{})}
	p.Server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		const event = `data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"hello "}}]}` + "\n\n"
		for range 20 {
			_, _ = io.WriteString(w, event)
			_ = http.NewResponseController(w).Flush()
		}
		if strings.Contains(string(body), `"endless"`) {
			<-p.end
		}
		_, _ = io.WriteString(w, `data: {"id":"1","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":20}}`+"\n\ndata: [DONE]\n\n")
	})}
	go p.Serve(listener) //nolint:errcheck // it ends when the benchmark does
	return p, nil
}

// openStream requests an answer of the model, with a prompt of 20 KB.
func openStream(model string) opener {
	body := fmt.Sprintf(`{"model":%q,"stream":true,"messages":[{"role":"user","content":%q}]}`, model, strings.Repeat("word ", 4000))
	return func(ctx context.Context, c *http.Client, url, token string) (io.ReadCloser, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		return firstByte(c, r)
	}
}
