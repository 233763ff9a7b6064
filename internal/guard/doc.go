// Package guard is the one way out: the HTTP client for everything that the
// gateway dials on behalf of others, be it a connector, an OAuth endpoint or
// a webhook's target.
//
// It promises that no connection is made to an address that is not public
// (loopback, private, link-local, metadata and so on) unless the operator
// allowed it or the configured URL itself names loopback; that the address
// checked is the address connected to, so that no name can change its mind in
// between; that no proxy of the environment is used; and that a client made
// for a URL, with the credential that goes there, speaks to that host and
// port only, on every hop of a redirect.
//
// It sets no overall timeout, because answers may be long streams: give each
// request a context. It bounds no body by itself: see [LimitBody]. Mind that
// net/http repeats a request by itself when it carries an Idempotency-Key
// header and its connection broke; never send that with a write.
package guard
