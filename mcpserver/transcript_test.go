package mcpserver_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"sallyport/action"
	"sallyport/mcpserver"
)

var update = flag.Bool("update", false, "write the transcripts anew")

// TestTranscripts plays the conversations of testdata/*.txtar. A file is a
// list of sections:
//
//	-- send NAME --       a request line, headers, an empty line, the body; it
//	                      is begun, and everyone acts until all are at rest
//	-- do --              lines that people and time do: "approve inv-1",
//	                      "deny inv-1 note", "expire inv-1", "offer", "advance 45s",
//	                      "hang up NAME", "policy", "drain 10s", "delivered"
//	-- NAME --            what came back so far, "(open)" while it goes on
//	-- head NAME --       only the status and the headers of it
//	-- last NAME --       only its last event
//
// Time is the bubble's, so nothing waits and every line is the same each time.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, file) })
		})
	}
}

func play(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := newPlay(t)
	defer p.stop()
	p.play(archive)
	if *update {
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// play plays a conversation, and compares what comes back.
func (p *player) play(archive *txtar.Archive) {
	for i := range archive.Files {
		section := &archive.Files[i]
		switch name, arg, _ := strings.Cut(section.Name, " "); name {
		case "send":
			p.send(arg, section.Data)
		case "do":
			for line := range strings.Lines(string(section.Data)) {
				p.do(strings.TrimSpace(line), section)
			}
		default:
			got := p.seen(section.Name)
			if *update && !p.wraps {
				section.Data = []byte(got)
			} else if diff := cmp.Diff(string(section.Data), got); diff != "" && !p.differs[section.Name] {
				p.t.Errorf("%s (-want +got):\n%s", section.Name, diff)
			}
		}
	}
}

// requestState is random, so that it is written down by its number.
var requestState = regexp.MustCompile(`"requestState":"([^"]{20,})"`)

// player plays one transcript.
type player struct {
	t        *testing.T
	gate     *gate
	hints    *hints
	server   *mcpserver.Server
	requests map[string]*conversation
	session  string
	states   []string // requestStates, as they came
	log      bytes.Buffer
	cancel   context.CancelFunc
	running  sync.WaitGroup

	wraps   bool            // calls go through actions_call
	wrapped int             // that did
	differs map[string]bool // the sections that need not be the same then
}

func newPlay(t *testing.T) *player { return newPlayWith(t, func(*mcpserver.Config) {}) }

func newPlayWith(t *testing.T, change func(*mcpserver.Config)) *player {
	p := &player{t: t, gate: newGate(world()...), hints: &hints{}, requests: map[string]*conversation{}}
	p.server = newServer(t, p.gate, p.hints, func(c *mcpserver.Config) {
		c.Log = slog.New(slog.NewTextHandler(&p.log, nil))
		c.AllowedOrigins = []string{"https://app.example"}
		c.RequestGrant, c.Snapshot = p.gate.RequestGrant, p.gate.snapshot
		c.KeepAliveEvery = 20 * time.Second // so that no two clocks strike at once
		change(c)
	})
	ctx, cancel := context.WithCancel(t.Context())
	p.cancel = cancel
	p.running.Go(func() { _ = p.server.Run(ctx) })
	return p
}

// newServer returns a server on the gate, with every time as it is by
// default.
func newServer(t testing.TB, g *gate, h *hints, change func(*mcpserver.Config)) *mcpserver.Server {
	t.Helper()
	cfg := mcpserver.Config{
		Gate: g, Resolver: g, Authenticate: authenticate, Hints: h, Version: "1.0",
		PublicURL: "https://gate.example",
	}
	if change != nil {
		change(&cfg)
	}
	s, err := mcpserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// conversation is one request and what came back.
type conversation struct {
	*recorder
	cancel context.CancelFunc
	done   bool
}

// recorder is a ResponseWriter whose content can be read while it grows.
type recorder struct {
	mu     sync.Mutex
	header http.Header
	sent   http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status == 0 {
		r.status, r.sent = status, r.header.Clone()
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.body.Write(b)
}

func (r *recorder) FlushError() error { return nil }

func (p *player) send(name string, text []byte) {
	r := p.request(text)
	ctx, cancel := context.WithCancel(r.Context())
	c := &conversation{recorder: &recorder{header: http.Header{}}, cancel: cancel}
	p.requests[name] = c
	p.running.Go(func() {
		p.server.ServeHTTP(c.recorder, r.WithContext(ctx))
		c.mu.Lock()
		defer c.mu.Unlock()
		c.done = true
	})
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if id := c.sent.Get("Mcp-Session-Id"); id != "" {
		p.session = id
	}
}

// request reads a request. What most have in common need not be written: an
// empty header takes it away.
func (p *player) request(text []byte) *http.Request {
	text = bytes.ReplaceAll(text, []byte("$SESSION"), []byte(p.session))
	for i, state := range p.states {
		text = bytes.ReplaceAll(text, fmt.Appendf(nil, "$STATE%d", i+1), []byte(state))
	}
	head, body, _ := bytes.Cut(text, []byte("\n\n"))
	lines := strings.Split(strings.TrimSpace(string(head)), "\n")
	method, target, _ := strings.Cut(lines[0], " ")
	body = bytes.TrimSuffix(body, []byte("\n"))
	body = bytes.ReplaceAll(body, []byte("$CLIENT"), []byte(clientMeta))
	inner := ""
	if p.wraps {
		if body, inner = wrapped(body); inner != "" {
			p.wrapped++
		}
	}
	r := httptest.NewRequest(method, target, bytes.NewReader(body))
	r.Host = "gate.example"
	r.Header.Set("Authorization", "Bearer token-a")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, line := range lines[1:] {
		key, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); {
		case key == "Host":
			r.Host = value
		case value == "":
			r.Header.Del(key)
		default:
			if key == "Mcp-Name" && value == inner && inner != "" {
				value = "actions_call"
			}
			r.Header.Set(key, value)
		}
	}
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8787}
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
}

// clientMeta is what every request of the stateless era carries.
const clientMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`

func (p *player) do(line string, section *txtar.File) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return
	}
	rest := strings.Join(words[min(2, len(words)):], " ")
	switch words[0] {
	case "approve":
		p.gate.approve(words[1])
	case "deny":
		p.gate.settle(words[1], action.StatusDenied, action.DeniedHuman, rest)
	case "repeat":
		p.gate.settle(words[1], action.StatusDenied, action.DeniedRepeated, rest)
	case "forbid": // by policy, after it was held
		p.gate.settle(words[1], action.StatusDenied, action.DeniedPolicy, rest)
	case "often":
		p.gate.settle(words[1], action.StatusDenied, action.DeniedOften, rest)
	case "expire":
		p.gate.settle(words[1], action.StatusExpired, "", "")
	case "advance":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			p.t.Fatal(err)
		}
		time.Sleep(d)
	case "hang": // hang up NAME
		p.requests[words[2]].cancel()
	case "add":
		p.gate.add(&served{Action: action.Action{Tool: words[1]}})
	case "offer":
		p.gate.offer()
	case "move": // move resources|prompts
		p.gate.move(words[1])
	case "updated": // updated ORGANIZATION SOURCE URI
		p.hints.Publish(action.Hint{Kind: action.HintResource, Organization: words[1], Source: words[2], Resource: words[3]})
	case "hint":
		p.hints.Publish(action.Hint{Kind: action.HintKind(words[1]), Organization: words[2]})
	case "drain":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			p.t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), d)
		p.running.Go(func() { defer cancel(); _ = p.server.Drain(ctx) })
	default:
		p.t.Fatalf("%s: no such thing to do: %s", section.Name, line)
	}
	synctest.Wait()
}

// seen returns what came back so far, or what else the name asks for.
func (p *player) seen(name string) string {
	switch name {
	case "delivered":
		return strings.Join(append(p.gate.deliveries(), ""), "\n")
	case "left":
		var b strings.Builder
		for _, err := range p.gate.leavers() {
			fmt.Fprintln(&b, err)
		}
		return b.String()
	case "status":
		var b strings.Builder
		for _, id := range p.gate.ids() {
			fmt.Fprintln(&b, id, p.gate.status(id))
		}
		return b.String()
	case "requests":
		var b strings.Builder
		for _, r := range p.gate.wishes() {
			fmt.Fprintln(&b, r)
		}
		return b.String()
	case "subscribed":
		return p.gate.subscribed()
	case "log":
		return p.log.String()
	}
	name, short := strings.CutPrefix(name, "head ")
	name, last := strings.CutPrefix(name, "last ")
	c := p.requests[name]
	if c == nil {
		p.t.Fatalf("no request %q", name)
	}
	text := p.shown(c)
	switch {
	case short:
		text, _, _ = strings.Cut(text, "\n\n")
		text += "\n"
	case last:
		text = text[strings.LastIndex(text, "event: message"):]
	}
	return text
}

// shown writes an answer down: its status, the headers that matter, its body.
func (p *player) shown(c *conversation) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	if c.status != 0 {
		fmt.Fprintln(&b, c.status)
	}
	for _, key := range []string{"Allow", "Cache-Control", "Content-Length", "Content-Type", "Mcp-Session-Id", "Retry-After", "Www-Authenticate", "X-Accel-Buffering"} {
		if v := c.sent.Get(key); v != "" && (key != "Content-Length" || v != strconv.Itoa(c.body.Len())) {
			fmt.Fprintf(&b, "%s: %s\n", key, v)
		}
	}
	body := c.body.String()
	if body != "" {
		fmt.Fprintf(&b, "\n%s", strings.TrimSuffix(body, "\n"))
		b.WriteString("\n")
	}
	if !c.done {
		b.WriteString("(open)\n")
	}
	out := b.String()
	if p.session != "" {
		out = strings.ReplaceAll(out, p.session, "$SESSION")
	}
	for _, found := range requestState.FindAllStringSubmatch(out, -1) {
		i := slices.Index(p.states, found[1])
		if i < 0 {
			i, p.states = len(p.states), append(p.states, found[1])
		}
		out = strings.ReplaceAll(out, found[1], fmt.Sprintf("$STATE%d", i+1))
	}
	// A line of a section must not look like the next one's head.
	return strings.ReplaceAll(out, "\n-- ", "\n- - ")
}

// stop ends everything, so that nothing is left in the bubble.
func (p *player) stop() {
	names := make([]string, 0, len(p.requests))
	for name := range p.requests {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		p.requests[name].cancel()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = p.server.Drain(ctx)
	p.cancel()
	p.running.Wait()
	time.Sleep(time.Hour) // executions that nobody waits for
}
