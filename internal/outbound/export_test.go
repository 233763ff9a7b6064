package outbound

import (
	"context"
	"net"
)

// DialWith has the pool make its connections by dial.
func (p *Pool) DialWith(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	p.public.DialContext, p.loopback.DialContext = dial, dial
}

// Remembered returns how many clients' state is kept.
func (p *Pool) Remembered() int {
	p.limiters.mu.Lock()
	defer p.limiters.mu.Unlock()
	return len(p.limiters.byKey)
}

// CheckPath tells whether a path would be sent.
func CheckPath(path string) error { return checkPath(path) }

// Dial returns how the pool makes its connections.
func (p *Pool) Dial() func(ctx context.Context, network, address string) (net.Conn, error) {
	return p.public.DialContext
}
