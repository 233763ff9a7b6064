// Package outbound sends the requests of integration modules. It respects the rate
// limits of services, retries only requests that cannot take effect twice, and
// sends a credential only to its host.
//
// It guarantees: a request that may have taken effect is never retried
// automatically; a response is complete or an error, never truncated; an error
// says whether the service may have received the request
// ([action.ErrOutcomeUnknown]) or did not ([action.ErrUnavailable]); no error text
// contains a credential.
//
// It does not interpret responses: modules report which ones are rate limits, and
// read all others themselves.
package outbound
