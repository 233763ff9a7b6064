package dashboard_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/dashboard"
)

// hasty is a listener on whose connections what is due in a while is due now.
type hasty struct {
	net.Listener
	due chan struct{} // has one for each connection on which something was
}

func (l hasty) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return hastyConn{c, l.due}, err
}

type hastyConn struct {
	net.Conn
	due chan struct{}
}

func (c hastyConn) SetReadDeadline(t time.Time) error {
	if t.After(time.Now()) {
		c.due <- struct{}{}
		t = time.Now()
	}
	return c.Conn.SetReadDeadline(t)
}

// slowly approves only once its caller's time is up, if that is bounded.
type slowly struct {
	dashboard.Gate
	due chan struct{}
}

func (g slowly) Approve(ctx context.Context, v action.Verdict) (action.Invocation, error) {
	select {
	case <-g.due:
		<-ctx.Done()
		return action.Invocation{}, ctx.Err()
	default:
		return g.Gate.Approve(ctx, v)
	}
}

// What takes long is not cut off because its request has no body, and nor is
// what follows on its connection.
func TestNoBodyIsWaitedFor(t *testing.T) {
	due := make(chan struct{}, 10)
	h := newHouse(t, func(c *dashboard.Config) { c.Gate = slowly{c.Gate, due} })
	srv := httptest.NewUnstartedServer(h.srv.Handler())
	srv.Listener = hasty{srv.Listener, due}
	srv.Start()
	defer srv.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/api/v1/invocations/"+h.pending("s1")+"/approve", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "gate.test:8787"
	r.Header.Set("Authorization", "Bearer "+h.admin)
	res, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("an approval that took its time was answered with %s", res.Status)
	}
}
