package main

import (
	"net/http"

	"sallyport/internal/guard"
)

// runSender sends runs to the endpoints of organizations. It reaches a private
// address only where the operator opened it, and loopback only where the URL
// names it; a redirect is an answer like others.
type runSender struct{ public, loopback *http.Client }

func newRunSender(c guard.Config) runSender {
	client := func(loopback bool) *http.Client {
		c.AllowLoopback = loopback
		return &http.Client{
			Transport:     guard.NewTransport(c),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return runSender{public: client(false), loopback: client(true)}
}

// Do sends a request; see [dispatch.DispatcherConfig].
func (s runSender) Do(r *http.Request) (*http.Response, error) {
	if guard.Loopback(r.URL) {
		return s.loopback.Do(r)
	}
	return s.public.Do(r)
}

func (s runSender) close() {
	s.public.CloseIdleConnections()
	s.loopback.CloseIdleConnections()
}
