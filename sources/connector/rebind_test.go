package connector_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"sync/atomic"
	"testing"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/sources"
	"sallyport/sources/connector"
)

// TestNameMovesToPrivateAddress has the server's name resolve to a private
// address from some moment on: each connection is judged by the address that it
// goes to, whatever was good before.
func TestNameMovesToPrivateAddress(t *testing.T) {
	var addr atomic.Value
	addr.Store(netip.MustParseAddr("127.0.0.1"))
	u := newUpstream(t, true, func(w http.ResponseWriter, _ *http.Request, p *post) {
		w.Header().Set("Connection", "close")
		respond(w, p, `{"content":[]}`)
	})
	front := httptest.NewServer(u.Config.Handler)
	t.Cleanup(front.Close)
	at, err := url.Parse(front.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, "http://moving.example:"+at.Port()+"/mcp", func(c *connector.Config) {
		c.Guard = guard.Config{
			Allow:    []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
			Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return resolver(&addr), nil }},
		}
	})
	if _, err := s.Call(t.Context(), "tool", nil, nobody()); err != nil {
		t.Fatal(err)
	}
	for _, private := range []string{"10.0.0.1", "169.254.169.254", "127.0.0.2"} {
		addr.Store(netip.MustParseAddr(private))
		_, err := s.Call(t.Context(), "tool", nil, nobody())
		wantFault(t, err, action.ErrUnavailable, sources.FaultBlocked)
		if contains(action.Public(err).Message, private) {
			t.Errorf("it tells the address: %v", err)
		}
	}
	if n := len(u.received("tools/call")); n != 1 {
		t.Errorf("%d calls arrived", n)
	}
}

// resolver is the connection to a name server that says of every name that it
// is addr.
func resolver(addr *atomic.Value) net.Conn {
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		var size [2]byte
		for {
			if _, err := io.ReadFull(there, size[:]); err != nil {
				return
			}
			query := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(there, query); err != nil {
				return
			}
			reply := resolve(query, addr.Load().(netip.Addr).As4())
			if _, err := there.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
				return
			}
		}
	}()
	return here
}

// resolve answers a query for an A record, and any other with nothing.
func resolve(query []byte, addr [4]byte) []byte {
	end := 12
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5 // the root, type and class
	out := append([]byte{}, query[:end]...)
	out[2], out[3] = 0x81, 0x80
	copy(out[6:12], make([]byte, 6))
	if query[end-3] != 1 {
		return out
	}
	out[7] = 1
	return append(append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4), addr[:]...)
}
