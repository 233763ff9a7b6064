package conformance_test

import (
	endian "encoding/binary"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// moment is a place in a transaction.
type moment string

const (
	before   moment = "before the statement"   // the server never sees it
	atCommit moment = "before its commit"      // all is written, and nothing is there
	unheard  moment = "after it, with no word" // it is done, and who did it never hears
)

// tap stands between a process and PostgreSQL, and has it stand still where its
// death would hurt.
type tap struct {
	url, server string
	l           net.Listener
	open        sync.WaitGroup

	mu    sync.Mutex
	want  *stop // the next; nil: none
	conns []net.Conn
}

// stop is where a connection stands still until the process is dead.
type stop struct {
	text    string // of a statement
	when    moment
	reached chan struct{}
}

func newTap(t *testing.T, to string) *tap {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{server: u.Host, l: l}
	u.Host = l.Addr().String()
	p.url = u.String()
	p.open.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.open.Wait()
	})
	return p
}

// at has the next connection stand still that comes there.
func (p *tap) at(text string, when moment) (reached <-chan struct{}) {
	s := &stop{text, when, make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.want = s
	return s.reached
}

func (p *tap) accept() {
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
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		p.open.Go(func() { p.pass(client, server) })
	}
}

// pass forwards what a process says until it stands still.
func (p *tap) pass(client, server net.Conn) {
	var deaf sync.Mutex // held: replies go nowhere
	replied := make(chan struct{}, 1)
	var back sync.WaitGroup
	back.Go(func() {
		defer client.Close()
		for buf := make([]byte, 1<<16); ; {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			if !deaf.TryLock() {
				if n >= 6 && buf[n-6] == 'Z' { // it is ready for another query
					replied <- struct{}{}
					return
				}
				continue
			}
			_, err = client.Write(buf[:n])
			deaf.Unlock()
			if err != nil {
				return
			}
		}
	})
	p.forward(client, server, &deaf, replied)
	client.Close()
	server.Close()
	back.Wait()
}

func (p *tap) forward(client, server net.Conn, deaf *sync.Mutex, replied <-chan struct{}) {
	c := course{prepared: map[string]string{}}
	for head := 4; ; head = 5 { // the first message has no type
		m, err := readMessage(client, head)
		if err != nil {
			return
		}
		here := p.halts(&c, m)
		if here == nil {
			if _, err := server.Write(m); err != nil {
				return
			}
			continue
		}
		if here.when == unheard {
			deaf.Lock()
			_, _ = server.Write(m)
			for m[0] != 'Q' && m[0] != 'S' { // the server answers when it was asked to
				if m, err = readMessage(client, 5); err != nil {
					return
				}
				_, _ = server.Write(m)
			}
			<-replied
		} else {
			server.Close() // whatever was begun is undone
		}
		close(here.reached)
		_, _ = io.Copy(io.Discard, client) // until the process is dead
		return
	}
}

// course is how far a connection came.
type course struct {
	prepared map[string]string // texts by the names of their statements
	begun    bool              // a transaction
	next     *stop             // at its commit
}

// halts returns where the connection stands still with a message; nil: it does
// not.
func (p *tap) halts(c *course, m []byte) *stop {
	var query string
	switch m[0] {
	case 'Q':
		query = string(m[5:])
	case 'P': // it is named now, and run when its values come
		name, text, _ := strings.Cut(string(m[5:]), "\x00")
		c.prepared[name] = text
		return nil
	case 'B':
		_, rest, _ := strings.Cut(string(m[5:]), "\x00")
		name, _, _ := strings.Cut(rest, "\x00")
		query = c.prepared[name]
	default:
		return nil
	}
	switch {
	case strings.HasPrefix(query, "begin"):
		c.begun = true
	case strings.HasPrefix(query, "commit"), strings.HasPrefix(query, "rollback"):
		here := c.next
		c.begun, c.next = false, nil
		return here
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.want
	if s == nil || !strings.Contains(query, s.text) {
		return nil
	}
	p.want = nil
	if c.begun && s.when != before {
		c.next = s
		return nil
	}
	return s
}

// readMessage reads one message of a client of PostgreSQL: a head with its
// length in the last four bytes, and the rest.
func readMessage(r io.Reader, head int) ([]byte, error) {
	m := make([]byte, head, 512)
	if _, err := io.ReadFull(r, m); err != nil {
		return nil, err
	}
	m = append(m, make([]byte, int(endian.BigEndian.Uint32(m[head-4:]))-4)...)
	_, err := io.ReadFull(r, m[head:])
	return m, err
}
