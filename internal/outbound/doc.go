// Package outbound makes the requests of integration modules. One client for
// all of them limits the rate where a service asks for it, retries only
// requests that cannot take effect twice, and sends a credential only to its
// host.
//
// It guarantees: a request that can have taken effect is never retried
// automatically; an answer is complete or an error, never truncated; an error
// says whether the service can have received the request
// ([action.ErrOutcomeUnknown]) or certainly has not ([action.ErrUnavailable]);
// no error text contains a credential.
//
// It does not interpret answers: modules tell it which ones are rate limits,
// and read all others themselves.
package outbound
