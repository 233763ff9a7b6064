// Package outbound makes the requests of integration modules: one client for
// all of them, which holds back where a service asks for it, repeats only what
// cannot happen twice, and hands a credential to nobody but its host.
//
// It promises that a request which may have done something is never sent
// again by itself; that an answer is whole or an error, never cut; that an
// error says whether the service may have received the request
// ([action.ErrOutcomeUnknown]) or certainly has not ([action.ErrUnavailable]);
// and that no error text holds a credential.
//
// It does not know what an answer means: modules tell it which answers ask for
// fewer requests, and read all others themselves.
package outbound
