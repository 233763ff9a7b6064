package action

import (
	"net/textproto"
	"strings"
)

// Bounds of headers that a connector sends, in bytes.
const (
	maxHeaderName  = 100
	maxHeaderValue = 1024
)

// headerName reports whether a connector's header may be called so: a token, as
// HTTP has it, of at most 100 bytes.
func headerName(name string) bool {
	return name != "" && len(name) <= maxHeaderName && !strings.ContainsFunc(name, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// headerValue reports whether a connector may send the value as it is: plain
// text of 1 to 1,024 bytes with no space around it.
func headerValue(value string) bool {
	return value != "" && len(value) <= maxHeaderValue && value == strings.TrimSpace(value) && PlainText(value)
}

// PlainText reports whether a text consists of visible ASCII and spaces, as all
// that goes into a header must; empty is plain.
func PlainText(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// reservedHeader reports whether no connector may set the header, neither for
// its secret nor beside it: HTTP, MCP or the gateway need it themselves, or
// net/http takes it as leave to send a request twice.
func reservedHeader(name string) bool {
	name = textproto.CanonicalMIMEHeaderKey(name)
	switch name {
	case "Host", "Connection", "Transfer-Encoding", "Content-Length", "Content-Type", "Content-Encoding",
		"Accept", "Accept-Encoding", "Trailer", "Te", "Upgrade", "Keep-Alive", "Expect", "Last-Event-Id",
		"Cookie", "Origin", "User-Agent", "Idempotency-Key", "X-Idempotency-Key":
		return true
	}
	return strings.HasPrefix(name, "Mcp-") || strings.HasPrefix(name, "Proxy-")
}
