// Package hangup detects whether the client of a request has disconnected.
//
// net/http notices that in a goroutine of its own, which on a busy machine runs
// some time after the client disconnected. A handler that is about to record an
// answer as delivered can check the connection directly. Data in transit cannot
// be detected.
package hangup

import (
	"context"
	"net"
	"net/http"
	"syscall"
)

type connKey struct{}

// ConnContext makes the connection available to its requests. Use it as
// [http.Server.ConnContext].
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// Gone reports whether the client of the request disconnected. In a server
// without [ConnContext] it relies on net/http.
func Gone(r *http.Request) bool {
	ctx := r.Context()
	if ctx.Err() != nil {
		return true
	}
	c, ok := ctx.Value(connKey{}).(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	// Not Read: it would wait for the read of net/http.
	err = raw.Control(func(fd uintptr) { gone = ended(int(fd)) })
	return err != nil || gone
}
