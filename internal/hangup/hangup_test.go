package hangup_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"sallyport/internal/hangup"
)

// deaf is a connection whose end net/http does not hear of before the test ends.
type deaf struct {
	*net.TCPConn
	left, over chan struct{} // left is closed when the client is gone
}

func (c *deaf) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if err != nil {
		close(c.left)
		<-c.over
	}
	return n, err
}

// ear accepts deaf connections.
type ear struct {
	net.Listener
	left, over chan struct{}
}

func (l *ear) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &deaf{c.(*net.TCPConn), l.left, l.over}, nil
}

func dial(t *testing.T, srv *httptest.Server) net.Conn {
	t.Helper()
	var dialer net.Dialer
	c, err := dialer.DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestGoneBeforeItIsNoticed(t *testing.T) {
	said, left, over := make(chan bool, 2), make(chan struct{}), make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		said <- hangup.Gone(r)
		<-left
		if r.Context().Err() != nil {
			t.Error("net/http has noticed, so that nothing is shown")
		}
		said <- hangup.Gone(r)
	}))
	srv.Config.ConnContext = hangup.ConnContext
	srv.Listener = &ear{srv.Listener, left, over}
	srv.Start()
	defer srv.Close()
	defer close(over)
	c := dial(t, srv)
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if <-said {
		t.Error("a client that waits is taken for gone")
	}
	c.Close()
	if !<-said {
		t.Error("a client that left is taken to be there")
	}
}

// A client that sends its next request early is there.
func TestWhoSaysMoreIsThere(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, hangup.Gone(r))
	}))
	srv.Config.ConnContext = hangup.ConnContext
	srv.Start()
	defer srv.Close()
	c := dial(t, srv)
	defer c.Close()
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")
	in := bufio.NewReader(c)
	for range 2 {
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		var gone bool
		if _, err := fmt.Fscan(r.Body, &gone); err != nil || gone {
			t.Errorf("gone: %t, %v", gone, err)
		}
		r.Body.Close()
	}
}
