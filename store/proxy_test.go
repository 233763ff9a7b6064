package store_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy stands between the store and PostgreSQL and cuts connections where it
// hurts.
type proxy struct {
	url    string // of the database, through the proxy
	server string
	l      net.Listener
	open   sync.WaitGroup
	trips  atomic.Int64 // what was sent that wants an answer

	mu    sync.Mutex // protects the fields below
	when  string     // a query with this text is the next victim
	how   cut
	after int // so many such queries are spared
	cuts  int
	hold  *hold // the next query to wait; nil: none
	conns map[net.Conn]bool
}

type cut int

const (
	beforeIt cut = iota // the server never sees the query
	afterIt             // the server did it, and nobody hears of it
	withIt              // the server sees it while the connection breaks
	during              // the server does it, while its client has gone already
)

// hold is a query that waits at the proxy.
type hold struct {
	text             string
	arrived, release chan struct{}
}

// newProxy returns a proxy to the database.
func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{server: u.Host, l: l, conns: map[net.Conn]bool{}}
	u.Host = l.Addr().String()
	p.url = u.String()
	p.open.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.breakAll()
		p.open.Wait()
	})
	return p
}

// cutAt arms the proxy for one query that holds the text, after some spared.
func (p *proxy) cutAt(text string, how cut, spare int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.when, p.how, p.after, p.cuts = text, how, spare, 0
}

// holdAt has the next query that holds the text wait for release, once it has
// arrived.
func (p *proxy) holdAt(text string) (arrived <-chan struct{}, release func()) {
	h := &hold{text, make(chan struct{}), make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = h
	return h.arrived, func() { close(h.release) }
}

// wait holds the query back if it is the one.
func (p *proxy) wait(m query) {
	p.mu.Lock()
	h := p.hold
	if h == nil || !m.asks(h.text) {
		p.mu.Unlock()
		return
	}
	p.hold = nil
	p.mu.Unlock()
	close(h.arrived)
	<-h.release
}

// happened is how many cuts there were since cutAt.
func (p *proxy) happened() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

func (p *proxy) breakAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

func (p *proxy) accept() {
	for {
		client, err := p.l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server) //nolint:noctx // on this machine
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		p.open.Go(func() { p.pass(client, server) })
	}
}

// pass forwards until a cut. Replies go through a switch that a cut turns off.
func (p *proxy) pass(client, server net.Conn) {
	var cutOff atomic.Bool
	replied := make(chan struct{}) // closed, too, when no reply can come any more
	var back sync.WaitGroup
	back.Go(func() {
		defer close(replied)
		defer client.Close()
		buf := make([]byte, 1<<16)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			if cutOff.Load() {
				// A reply that ends with "ready for query" is a complete one.
				if n >= 6 && buf[n-6] == 'Z' {
					return
				}
				continue
			}
			if _, err := client.Write(buf[:n]); err != nil && !cutOff.Load() {
				return
			}
		}
	})
	p.forward(client, server, func() { cutOff.Store(true) }, replied)
	client.Close()
	server.Close()
	back.Wait()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

func (p *proxy) forward(client, server net.Conn, silence func(), replied <-chan struct{}) {
	m, err := readMessage(client, 4) // the start-up message has no type
	if err != nil || p.swallows(m) || write(server, m) != nil {
		return
	}
	prepared := map[string]string{}
	for {
		m, err := readQuery(client, prepared)
		if err != nil {
			return
		}
		p.trips.Add(1)
		how, hit := p.hit(m)
		if !hit {
			p.wait(m)
			if write(server, m.bytes) != nil {
				return
			}
			continue
		}
		if how == afterIt || how == during {
			silence()
		}
		if how != beforeIt {
			_ = write(server, m.bytes)
		}
		if how == during {
			client.Close()
		}
		if how == afterIt || how == during {
			<-replied
		}
		return
	}
}

// swallows reports whether m asks to cancel what was cut for being under way.
func (p *proxy) swallows(m []byte) bool {
	const cancel = 80877102
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.how == during && len(m) >= 8 && binary.BigEndian.Uint32(m[4:]) == cancel
}

func (p *proxy) hit(m query) (cut, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.when == "" || !m.asks(p.when) {
		return 0, false
	}
	if p.after--; p.after >= 0 {
		return 0, false
	}
	p.when, p.cuts = "", p.cuts+1
	return p.how, true
}

// query is what a client sends before it waits for an answer, and what is asked
// with it: its text, or those that it has prepared, with their values.
type query struct {
	bytes []byte
	asked string
}

func (q query) asks(text string) bool { return strings.Contains(q.asked, text) }

// readQuery reads messages up to the one that asks for an answer. It notes what
// is prepared under which name.
func readQuery(r io.Reader, prepared map[string]string) (q query, err error) {
	for {
		m, err := readMessage(r, 5)
		if err != nil {
			return q, err
		}
		q.bytes = append(q.bytes, m...)
		switch m[0] {
		case 'P': // name, text, types
			name, rest, _ := strings.Cut(string(m[5:]), "\x00")
			prepared[name], _, _ = strings.Cut(rest, "\x00")
		case 'B': // portal, name, values
			_, rest, _ := strings.Cut(string(m[5:]), "\x00")
			name, values, _ := strings.Cut(rest, "\x00")
			q.asked += strings.TrimSuffix(prepared[name], " transaction") + "\x00" + values
		case 'Q':
			q.asked = string(m)
			return q, nil
		case 'S', 'X':
			return q, nil
		}
	}
}

// readMessage reads one message of the client: a head with its length in the
// last four bytes, and the rest.
func readMessage(r io.Reader, head int) ([]byte, error) {
	m := make([]byte, head, 512)
	if _, err := io.ReadFull(r, m); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(m[head-4:])) - 4
	m = append(m, make([]byte, n)...)
	_, err := io.ReadFull(r, m[head:])
	return m, err
}

func write(w io.Writer, m []byte) error {
	_, err := w.Write(m)
	return err
}
