// Package guard is the HTTP client for every outbound connection that the
// gateway makes on behalf of others, such as connectors, OAuth endpoints and
// webhook targets.
//
// It guarantees: no connection is made to an address that is not public
// (loopback, private, link-local, metadata and so on) unless the operator
// permitted it or the configured URL itself names loopback; the address checked
// is the address connected to, so that DNS rebinding has no effect; proxies of
// the environment are not used; a client created for a URL, with the credential
// for it, connects to that host and port only, on every hop of a redirect.
//
// It sets no overall timeout, because answers can be long streams: give each
// request a context. It does not bound bodies by itself: see [LimitBody].
// net/http retries a request automatically if it carries an Idempotency-Key
// header and its connection breaks; never send that with a write.
package guard
