// Package hangup tells whether the client of a request has hung up.
//
// net/http notices that in a goroutine of its own, which on a busy machine runs
// some time after the client is gone. Whoever is about to count an answer as
// delivered asks the connection itself. What is still on its way over the
// network nobody can know.
package hangup

import (
	"context"
	"net"
	"net/http"
	"syscall"
)

type connKey struct{}

// ConnContext has requests of the connection know it; it is for
// [http.Server.ConnContext].
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// Gone reports whether the client of the request left. Of a server without
// [ConnContext] it is what net/http noticed.
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
