package conformance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// balancer is a load balancer without sticky sessions: request i goes to
// replica i modulo their number. It keeps the Host, buffers no response and
// never tries twice.
type balancer struct {
	*httptest.Server
	t     *testing.T
	token string

	mu       sync.Mutex
	replicas []*replica
	next     int
	pinned   map[string]int // where requests of a kind go, by what they are
	seen     map[string]int // how often "what they are: status" was answered
	open     map[string]int // responses whose body has not ended, by what they are
}

// replica is a gateway as the balancer knows it.
type replica struct {
	url     *url.URL
	resting bool
	began   sync.WaitGroup // requests whose answer did not begin yet
	open    sync.WaitGroup // responses that have not ended
	served  map[string]int // by what they were
}

// startBalancer puts a balancer before gateways. The token, if not empty, is
// added to requests that bring none.
func startBalancer(t *testing.T, gateways []*gateway, token string) *balancer {
	t.Helper()
	b := &balancer{t: t, token: token, pinned: map[string]int{}, seen: map[string]int{}, open: map[string]int{}}
	for _, g := range gateways {
		at, err := url.Parse(g.URL)
		if err != nil {
			t.Fatal(err)
		}
		b.replicas = append(b.replicas, &replica{url: at, served: map[string]int{}})
	}
	wire := &http.Transport{DisableKeepAlives: true} // a restarted replica has none of the old connections
	b.Server = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:       b.rewrite,
		Transport:     roundTripper(func(r *http.Request) (*http.Response, error) { return b.send(wire, r) }),
		FlushInterval: -1,
		ErrorHandler:  b.broken,
	})
	t.Cleanup(func() { b.CloseClientConnections(); b.Close() })
	return b
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (b *balancer) rewrite(r *httputil.ProxyRequest) {
	r.SetURL(b.replicas[0].url) // send knows better
	r.Out.Host = r.In.Host
	if b.token != "" && r.Out.Header.Get("Authorization") == "" {
		r.Out.Header.Set("Authorization", "Bearer "+b.token)
	}
}

// send sends a request to the replica whose turn it is.
func (b *balancer) send(wire http.RoundTripper, r *http.Request) (*http.Response, error) {
	what := r.Method
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		what = methodOf(body, what)
	}
	to := b.turn(what)
	defer to.began.Done()
	r.URL.Host = to.url.Host
	response, err := wire.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.seen[fmt.Sprintf("%s: %d", what, response.StatusCode)]++
	b.open[what]++
	b.mu.Unlock()
	to.open.Add(1)
	response.Body = &countedBody{ReadCloser: response.Body, closed: sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.open[what]--
		to.open.Done()
	})}
	return response, nil
}

// countedBody reports when a response ends.
type countedBody struct {
	io.ReadCloser
	closed func()
}

func (c *countedBody) Close() error {
	defer c.closed()
	return c.ReadCloser.Close()
}

// broken answers for a replica that broke the connection.
func (b *balancer) broken(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil { // the client did not leave
		b.mu.Lock()
		b.seen[fmt.Sprintf("%v: %d", err, http.StatusBadGateway)]++
		b.mu.Unlock()
	}
	w.WriteHeader(http.StatusBadGateway)
}

// methodOf is the method of a JSON-RPC message, or otherwise.
func methodOf(body []byte, otherwise string) string {
	var message struct {
		Method string `json:"method"`
	}
	if json.Unmarshal(body, &message) != nil || message.Method == "" {
		return otherwise
	}
	return message.Method
}

// turn picks a replica; its request has begun.
func (b *balancer) turn(what string) *replica {
	b.mu.Lock()
	defer b.mu.Unlock()
	i, pinned := b.pinned[what]
	for to := (*replica)(nil); ; {
		if !pinned {
			i = b.next % len(b.replicas)
			b.next++
		}
		to, pinned = b.replicas[i], false
		if !to.resting {
			to.began.Add(1)
			to.served[what]++
			return to
		}
	}
}

// pin sends requests to one replica while it serves; what names them by their
// method of JSON-RPC or, without one, of HTTP.
func (b *balancer) pin(what string, replica int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pinned[what] = replica
}

// rest gives a replica no more requests. What was answered already goes on,
// event streams and held calls above all.
func (b *balancer) rest(i int) {
	b.mu.Lock()
	to := b.replicas[i]
	to.resting = true
	b.mu.Unlock()
	to.began.Wait()
}

// back gives a replica that was restarted requests again, once the responses of
// its former self have ended.
func (b *balancer) back(i int) {
	to := b.replicas[i]
	to.open.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	to.resting = false
}

// count returns how often something was answered with a status.
func (b *balancer) count(what string, status int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen[fmt.Sprintf("%s: %d", what, status)]
}

// streams returns how many responses of a kind have not ended.
func (b *balancer) streams(what string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open[what]
}

// spread returns how many requests each replica was given.
func (b *balancer) spread(what string) (served []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.replicas {
		served = append(served, r.served[what])
	}
	return served
}

// calm checks that no request met what would break a session: one that is not
// known, or a replica that is not there.
func (b *balancer) calm() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for what, times := range b.seen {
		if strings.HasSuffix(what, ": 404") || strings.Contains(what, ": 5") {
			b.t.Errorf("%d times %s", times, what)
		}
	}
}

// unpin ends pin.
func (b *balancer) unpin(whats ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, what := range whats {
		delete(b.pinned, what)
	}
}
