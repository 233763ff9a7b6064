package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// git measures fetches through the gateway against the same fetches from the forge:
// the time to the first byte, a clone of many megabytes, and the memory of streams
// whose clients wait.
func git(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench git", flag.ContinueOnError)
	megabytes := flags.Int("megabytes", 200, "size of the repository that is cloned")
	rounds := flags.Int("rounds", 5, "how often it is cloned")
	streams := flags.Int("streams", 200, "streams that are open at a time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-git-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	forge, err := startForge(ctx, dir, *megabytes)
	if err != nil {
		return err
	}
	defer forge.Close()
	binary, err := build(ctx, dir)
	if err != nil {
		return err
	}
	g, err := startGateway(ctx, binary, filepath.Join(dir, "gateway"), "serve")
	if err != nil {
		return err
	}
	defer g.stop()
	if err := g.api(ctx, "PUT", "/api/v1/secrets/git-forge", map[string]any{"value": "token", "host": forge.host}, nil); err != nil {
		return err
	}
	tokens, err := g.tokens(ctx, max(1, *streams/10))
	if err != nil {
		return err
	}
	direct, through := "http://"+forge.host, g.URL+"/git/"+forge.host
	if err := firstBytes(ctx, out, "a fetch", openFetch, direct+"/a/small.git", through+"/a/small.git", tokens[0]); err != nil {
		return err
	}
	if err := clones(ctx, out, dir, direct, through, tokens[0], *rounds, *megabytes); err != nil {
		return err
	}
	return memoryOfStreams(ctx, out, g, openFetch, through+"/a/slow.git", tokens, *streams)
}

// tokens returns the tokens of new sessions.
func (g *gateway) tokens(ctx context.Context, n int) ([]string, error) {
	tokens := make([]string, n)
	for i := range tokens {
		var session struct {
			Token string `json:"token"`
		}
		if err := g.api(ctx, "POST", "/api/v1/sessions", map[string]any{}, &session); err != nil {
			return nil, err
		}
		tokens[i] = session.Token
	}
	return tokens, nil
}

// forge is a Git server: a repository, and one that sends a little and then waits.
type forge struct {
	*http.Server
	host string
	end  chan struct{}
}

func (f *forge) Close() {
	close(f.end)
	_ = f.Server.Close()
}

const fetchRequest = "0011command=fetch0001000fno-progress0032want aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n0009done\n0000"

func startForge(ctx context.Context, dir string, megabytes int) (*forge, error) {
	core, err := exec.CommandContext(ctx, "git", "--exec-path").Output()
	if err != nil {
		return nil, fmt.Errorf("git is needed: %w", err)
	}
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		return nil, err
	}
	for i := range megabytes {
		blob := make([]byte, 1<<20)
		rand.Read(blob) //nolint:errcheck // never fails
		if err := os.WriteFile(filepath.Join(work, strconv.Itoa(i)), blob, 0o600); err != nil {
			return nil, err
		}
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "a"}, {"clone", "-q", "--bare", "--no-local", ".", filepath.Join(dir, "a", "big.git")}} {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = work
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("git %v: %w\n%s", args, err, text)
		}
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &forge{host: listener.Addr().String(), end: make(chan struct{})}
	f.Server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.HasPrefix(r.URL.Path, "/a/small.git/") {
			_, _ = io.WriteString(w, "000dpackfile\n0000")
			return
		}
		if strings.HasPrefix(r.URL.Path, "/a/slow.git/") {
			_, _ = w.Write(make([]byte, 256<<10))
			_ = http.NewResponseController(w).Flush()
			<-f.end
			return
		}
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		(&cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(core)), "git-http-backend"), Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_PROTOCOL=" + r.Header.Get("Git-Protocol")}}).ServeHTTP(w, r)
	})}
	go f.Serve(listener) //nolint:errcheck // it ends when the benchmark does
	return f, nil
}

// opener sends a request and returns the answer after its first byte.
type opener func(ctx context.Context, c *http.Client, url, token string) (io.ReadCloser, error)

// openFetch sends a fetch and returns the answer after its first byte.
func openFetch(ctx context.Context, c *http.Client, url, token string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/git-upload-pack", strings.NewReader(fetchRequest))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Git-Protocol", "version=2")
	return firstByte(c, r)
}

// firstByte sends a request and reads the first byte of the answer.
func firstByte(c *http.Client, r *http.Request) (io.ReadCloser, error) {
	resp, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil || resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s: %s", r.URL, resp.Status), err, resp.Body.Close())
	}
	return resp.Body, nil
}

// firstBytes compares the same requests, sent alternately to the service and through the
// gateway.
func firstBytes(ctx context.Context, out io.Writer, what string, open opener, direct, through, token string) error {
	const requests = 300
	took := [2][]time.Duration{}
	for range requests {
		for i, url := range []string{direct, through} {
			began := time.Now()
			body, err := open(ctx, http.DefaultClient, url, token)
			if err != nil {
				return err
			}
			took[i] = append(took[i], time.Since(began))
			_, _ = io.Copy(io.Discard, body)
			body.Close()
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	at := func(of []time.Duration, part float64) time.Duration { return of[int(part*float64(len(of)-1))] }
	fmt.Fprintf(out, "first byte of %s: direct p50 %v p99 %v, gateway p50 %v p99 %v, added p50 %v\n", what,
		at(took[0], .5), at(took[0], .99), at(took[1], .5), at(took[1], .99), at(took[1], .5)-at(took[0], .5))
	return nil
}

func clones(ctx context.Context, out io.Writer, dir, direct, through, token string, rounds, megabytes int) error {
	took := [2][]time.Duration{}
	for n := range rounds {
		for i, url := range []string{direct, through} {
			to := filepath.Join(dir, fmt.Sprintf("clone-%d-%d", n, i))
			cmd := exec.CommandContext(ctx, "git", "-c", "http.extraHeader=Authorization: Bearer "+token, "clone", "-q", "--bare", url+"/a/big.git", to)
			began := time.Now()
			if text, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("git clone: %w\n%s", err, text)
			}
			took[i] = append(took[i], time.Since(began))
			if err := os.RemoveAll(to); err != nil {
				return err
			}
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	middle := [2]time.Duration{took[0][rounds/2], took[1][rounds/2]}
	fmt.Fprintf(out, "clone of %d MB: direct %v, gateway %v, %.2f of the direct speed\n", megabytes, middle[0], middle[1], float64(middle[0])/float64(middle[1]))
	return nil
}

func memoryOfStreams(ctx context.Context, out io.Writer, g *gateway, open opener, url string, tokens []string, streams int) error {
	before, err := g.memory(ctx)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{}}
	for i := range streams {
		body, err := open(ctx, client, url, tokens[i%len(tokens)])
		if err != nil {
			return err
		}
		defer body.Close()
	}
	after, err := g.memory(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d open streams: %.0f KB each\n", streams, (after.Resident-before.Resident)/1024/float64(streams))
	return nil
}
