package outbound_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/internal/outbound"
)

func TestWhatWasNotSent(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	secure := httptest.NewTLSServer(nil)
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(nil)
	t.Cleanup(plain.Close)
	p := outbound.New(outbound.Config{Attempts: 1})
	t.Cleanup(p.Close)
	for _, test := range []struct{ base, code, says string }{
		{closed.URL, "upstream_unreachable", "127.0.0.1 cannot be reached"},
		{secure.URL, "upstream_tls", "certificate"},
		{"https" + plain.URL[4:], "upstream_tls", "scheme"},
		{"http://name.invalid", "upstream_dns", "name.invalid does not resolve"},
		{"http://10.255.255.1", "upstream_blocked", "private"},
		{"http://169.254.169.254/latest", "upstream_blocked", "metadata"},
	} {
		_, err := p.Client("one", parse(t, test.base), "canary").Do(t.Context(), post("/"))
		fails(t, err, action.ErrUnavailable, test.code, test.says)
	}
}

// The transport that may use loopback is for URLs that name it alone.
func TestLoopbackIsNamed(t *testing.T) {
	var n atomic.Int32
	c, p := served(t, outbound.Config{Attempts: 1}, func(http.ResponseWriter, *http.Request) { n.Add(1) })
	if _, err := c.Do(t.Context(), get("/")); err != nil {
		t.Fatal(err)
	}
	_, err := p.Client("one", parse(t, "http://127.0.0.1.nip.invalid:"+c.Base().Port())).Do(t.Context(), get("/"))
	fails(t, err, action.ErrUnavailable, "upstream_dns", "")
	mapped := outbound.New(outbound.Config{Attempts: 1, Guard: guard.Config{AllowLoopback: true}})
	t.Cleanup(mapped.Close)
	_, err = mapped.Client("one", parse(t, "http://0.0.0.0:"+c.Base().Port())).Do(t.Context(), get("/"))
	fails(t, err, action.ErrUnavailable, "upstream_blocked", "unspecified")
	if n.Load() != 1 {
		t.Errorf("%d requests arrived", n.Load())
	}
}

func TestRedirectsStayAtTheHost(t *testing.T) {
	other, _ := served(t, outbound.Config{}, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%v arrived elsewhere", r.Header) })
	c, p := served(t, outbound.Config{Attempts: 1}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/there":
			http.Redirect(w, r, other.Base().String(), http.StatusTemporaryRedirect)
		case "/canary":
			http.Redirect(w, r, "http://canary-token.example/", http.StatusTemporaryRedirect)
		case "/here":
			http.Redirect(w, r, "/end", http.StatusTemporaryRedirect)
		case "/end":
			fmt.Fprint(w, r.Header.Get("Authorization"))
		}
	})
	c = p.Client("one", c.Base(), "canary-token")
	send := func(path string) (*outbound.Response, error) {
		r := post(path)
		r.Header = http.Header{"Authorization": {"canary-token"}}
		return c.Do(t.Context(), r)
	}
	if resp, err := send("/here"); err != nil || string(resp.Body) != "canary-token" {
		t.Errorf("%v", err)
	}
	for _, path := range []string{"/there", "/canary"} {
		_, err := send(path)
		fails(t, err, action.ErrUnavailable, "upstream_refused", "another host")
	}
}

func TestHangsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		p := bubble(t, outbound.Config{}, func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			if r.URL.Path == "/trickle" {
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		})
		c := p.Client("one", parse(t, "http://localhost/?key=canary"), "canary")
		for _, test := range []struct {
			path     string
			deadline time.Duration // of the context; zero: none
			want     time.Duration
		}{
			{"/hang", 0, 30 * time.Second},
			{"/trickle", 0, 30 * time.Second},
			{"/hang", 7 * time.Second, 7 * time.Second},
			{"/hang", 2 * time.Minute, 2 * time.Minute},
		} {
			ctx, stop := t.Context(), context.CancelFunc(func() {})
			if test.deadline > 0 {
				ctx, stop = context.WithTimeout(ctx, test.deadline)
			}
			asked.Store(0)
			began := time.Now()
			_, err := c.Do(ctx, get(test.path))
			fails(t, err, action.ErrOutcomeUnknown, "upstream_timeout", "localhost")
			if took := time.Since(began); took != test.want || asked.Load() != 1 {
				t.Errorf("%+v: ended after %v and %d requests", test, took, asked.Load())
			}
			stop()
		}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		_, err := c.Do(ctx, get("/hang"))
		fails(t, err, action.ErrOutcomeUnknown, "interrupted", "cancelled")
	})
}

func TestHTTP2MayHaveReceivedIt(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("it speaks %s", r.Proto)
		}
		stop()
		<-r.Context().Done()
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	p := outbound.New(outbound.Config{Guard: guard.Config{TLS: &tls.Config{RootCAs: roots}}})
	t.Cleanup(p.Close)
	_, err := p.Client("one", parse(t, s.URL)).Do(ctx, post("/"))
	fails(t, err, action.ErrOutcomeUnknown, "interrupted", "cancelled")
}

// A server may say anything, and have it end up in an error.
func TestErrorsHoldNoSecret(t *testing.T) {
	const secret = "canary/with+signs=="
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	said := make(chan string, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 4096)
			_, _ = c.Read(buf)
			fmt.Fprintf(c, "%s\r\n\r\n", <-said)
			c.Close()
		}
	}()
	p := outbound.New(outbound.Config{Attempts: 1})
	t.Cleanup(p.Close)
	c := p.Client("one", parse(t, "http://"+l.Addr().String()), secret)
	for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), url.QueryEscape(secret)} {
		said <- "nonsense " + form
		r := post("/x")
		r.Query = url.Values{"key": {secret}}
		_, err := c.Do(t.Context(), r)
		fails(t, err, action.ErrOutcomeUnknown, "upstream_failed", "was lost")
	}
}
