// Package hanguptest has the connections of clients that left, for tests.
package hanguptest

import (
	"errors"
	"io"
	"net"
	"testing"
)

// Conn is the server's end of a connection whose client hung up.
func Conn(t *testing.T) net.Conn {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var dialer net.Dialer
	client, err := dialer.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("the client is there: %v", err)
	}
	return c
}
