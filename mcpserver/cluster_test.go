package mcpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/mcpserver"
)

// peers carries signals as rows do: a little later, and now and then twice.
type peers struct {
	mu      sync.Mutex
	servers []*mcpserver.Server
	posts   []mcpserver.Signal
	ended   map[string]time.Time
	asked   int
	asking  func() // while somebody asks whether a session ended
	down    error
	carried sync.WaitGroup
}

func (p *peers) Post(_ context.Context, sig mcpserver.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down != nil {
		return p.down
	}
	p.posts = append(p.posts, sig)
	twice := len(p.posts)%2 == 0
	p.carried.Go(func() {
		time.Sleep(5 * time.Millisecond)
		p.deliver(sig)
		if twice {
			p.deliver(sig)
		}
	})
	return nil
}

func (p *peers) deliver(sig mcpserver.Signal) {
	p.mu.Lock()
	servers := slices.Clone(p.servers)
	p.mu.Unlock()
	for _, s := range servers {
		s.Receive(sig)
	}
}

func (p *peers) End(_ context.Context, organization, session string, until time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down == nil {
		p.ended[organization+" "+session] = until
	}
	return p.down
}

func (p *peers) Ended(_ context.Context, organization, session string) (bool, error) {
	if p.asking != nil {
		p.asking()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	_, ended := p.ended[organization+" "+session]
	return ended, p.down
}

func (p *peers) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = err
}

// posted returns how many signals of a kind were posted.
func (p *peers) posted(kind mcpserver.SignalKind) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sig := range p.posts {
		if sig.Kind == kind {
			n++
		}
	}
	return n
}

// cluster is several servers behind one address, which gives each request to
// the next of them.
type cluster struct {
	*site // what clients see
	peers *peers
	nodes []*site
	turn  atomic.Int64
	later atomic.Int64 // how much later it is than the clock says
}

var clusterKey = bytes.Repeat([]byte("key!"), 8)

func newCluster(t testing.TB, n int, actions ...*served) *cluster {
	t.Helper()
	c := &cluster{
		site:  &site{gate: newGate(actions...), hints: &hints{}},
		peers: &peers{ended: map[string]time.Time{}},
	}
	c.gate.holdEvery = 10 * time.Millisecond
	for range n {
		c.join(t)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.nodes[int(c.turn.Add(1))%len(c.nodes)].server.ServeHTTP(w, r)
	}))
	c.url = web.URL + "/mcp"
	t.Cleanup(web.Close)
	t.Cleanup(c.peers.carried.Wait)
	return c
}

// join starts one more instance.
func (c *cluster) join(t testing.TB) *site {
	t.Helper()
	node := open(t, func(cfg *mcpserver.Config) {
		cfg.SessionKey, cfg.Peers, cfg.Hints = clusterKey, c.peers, c.hints
		cfg.Gate, cfg.Resolver = c.gate, c.gate
		cfg.IdleSession = time.Hour
		cfg.Now = func() time.Time { return time.Now().Add(time.Duration(c.later.Load())) }
	})
	node.gate, node.hints = c.gate, c.hints
	c.nodes = append(c.nodes, node)
	c.peers.mu.Lock()
	defer c.peers.mu.Unlock()
	c.peers.servers = append(c.peers.servers, node.server)
	return node
}

// change adds a tool and tells everyone.
func (c *cluster) change(name string) {
	c.gate.add(&served{Action: action.Action{Tool: name}})
	c.hints.Publish(action.Hint{Kind: action.HintCatalog, Organization: "acme"})
}

// method sends a request that carries no message, and returns its status.
func (s *site) method(t testing.TB, method, token, session string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = rpc(token, session, "").Header
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// watch is an event stream that is read.
type watch struct {
	changes atomic.Int64 // list_changed events of tools
	updates atomic.Int64 // of resources
	over    atomic.Bool
	hangUp  context.CancelFunc
}

// watch opens the session's event stream and waits until it is open.
func (s *site) watch(t testing.TB, token, session string) *watch {
	t.Helper()
	w := &watch{}
	ctx, cancel := context.WithCancel(t.Context())
	w.hangUp = cancel
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = rpc(token, session, "").Header
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal("no event stream:", resp, err)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Scan() // the comment with which it begins
	var reading sync.WaitGroup
	reading.Go(func() {
		defer func() { _ = resp.Body.Close() }()
		for lines.Scan() {
			if strings.Contains(lines.Text(), "notifications/tools/list_changed") {
				w.changes.Add(1)
			}
			if strings.Contains(lines.Text(), "notifications/resources/updated") {
				w.updates.Add(1)
			}
		}
		w.over.Store(true)
	})
	t.Cleanup(func() { cancel(); reading.Wait() })
	return w
}

// listening is the answer to a request of the stateless era, as it comes.
type listening struct {
	hangUp context.CancelFunc
	mu     sync.Mutex
	text   strings.Builder
	ended  chan struct{}
}

// modern sends a request of the stateless era and reads what comes.
func (s *site) modern(t testing.TB, token, method, body string) *listening {
	t.Helper()
	return s.modernNamed(t, token, method, "", body)
}

// modernNamed sends one that names a tool or the like.
func (s *site) modernNamed(t testing.TB, token, method, name, body string) *listening {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = rpc(token, "", "").Header
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", method)
	if name != "" {
		r.Header.Set("Mcp-Name", name)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	l := &listening{hangUp: cancel, ended: make(chan struct{})}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 8<<20)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(l.ended)
		defer func() { _ = resp.Body.Close() }()
		for lines.Scan() {
			l.mu.Lock()
			l.text.WriteString(lines.Text() + "\n")
			l.mu.Unlock()
		}
	})
	t.Cleanup(func() { cancel(); reading.Wait() })
	return l
}

// said is what came so far.
func (l *listening) said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// first is what came until the first message was whole.
func (l *listening) first() string {
	for {
		if said := l.said(); strings.Contains(said, "}") {
			return said
		}
		time.Sleep(time.Millisecond)
	}
}

// all is what came until the end.
func (l *listening) all() string {
	<-l.ended
	return l.said()
}

const (
	pingBody = `{"jsonrpc":"2.0","id":90,"method":"ping"}`
	listBody = `{"jsonrpc":"2.0","id":91,"method":"tools/list"}`
)

func cancelBody(id, reason string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"` + reason + `"}}`
}

var errDown = errors.New("dial tcp 10.0.0.7: secret-detail")
