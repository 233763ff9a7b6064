package guard_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sallyport/action"
	"sallyport/internal/guard"
)

func serve(t *testing.T, h http.HandlerFunc) (*httptest.Server, *url.URL) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s, parse(t, s.URL)
}

func parse(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := guard.CheckURL(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// send makes one request and returns status and body.
func send(t *testing.T, c *http.Client, method, url string) (string, error) {
	t.Helper()
	t.Cleanup(c.CloseIdleConnections)
	r, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Key", "credential")
	resp, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(body)), err
}

func isBlocked(t *testing.T, err, kind error, says string) {
	t.Helper()
	var e *action.Error
	if !errors.Is(err, guard.ErrBlocked) || !errors.Is(err, kind) || !errors.As(err, &e) {
		t.Fatalf("got %v; want it blocked as %v", err, kind)
	}
	if !strings.Contains(e.Message, says) {
		t.Errorf("got message %q; want %q in it", e.Message, says)
	}
}

func TestLoopbackOnlyWhenTheURLSaysSo(t *testing.T) {
	s, u := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	if got, err := send(t, guard.Client(guard.Config{}, u), "POST", s.URL); err != nil || got != "200 ok" {
		t.Errorf("the URL is loopback: %q, %v", got, err)
	}
	named := "http://localhost:" + u.Port()
	if got, err := send(t, guard.Client(guard.Config{}, parse(t, named)), "POST", named); err != nil || got != "200 ok" {
		t.Errorf("the URL is localhost: %q, %v", got, err)
	}
	bare := &http.Client{Transport: guard.NewTransport(guard.Config{})}
	for _, url := range []string{s.URL, named} {
		_, err := send(t, bare, "POST", url)
		isBlocked(t, err, action.ErrUnavailable, `"loopback"`)
		isBlocked(t, err, action.ErrUnavailable, "--allow-upstream")
	}
	allowed := &http.Client{Transport: guard.NewTransport(guard.Config{Allow: []netip.Prefix{
		netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"),
	}})}
	if _, err := send(t, allowed, "POST", s.URL); err != nil {
		t.Errorf("allowed by the operator: %v", err)
	}
}

// A name that resolves to loopback is no loopback URL, whatever the
// configuration says.
func TestNamesMayNotResolveToLoopback(t *testing.T) {
	_, u := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the request arrived") })
	named := "http://rebound.example:" + u.Port()
	c := guard.Config{AllowLoopback: true, Resolver: names(t, [4]byte{127, 0, 0, 1})}
	_, err := send(t, guard.Client(c, parse(t, named)), "GET", named)
	isBlocked(t, err, action.ErrUnavailable, "loopback")
	if strings.Contains(action.Public(err).Message, "127.0.0.1") {
		t.Errorf("the message tells what the name resolves to: %v", err)
	}
	c.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	c.Resolver = names(t, [4]byte{10, 0, 0, 1})
	_, err = send(t, guard.Client(c, parse(t, named)), "GET", named)
	isBlocked(t, err, action.ErrUnavailable, "private")
}

// names returns a resolver whose server says of every name that it is addr.
func names(t *testing.T, addr [4]byte) *net.Resolver {
	server, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { server.Close(); wg.Wait() })
	wg.Go(func() {
		buf := make([]byte, 512)
		for {
			n, from, err := server.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			_, _ = server.WriteToUDPAddrPort(answer(buf[:n], addr), from)
		}
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

// answer turns a DNS query for an A record into its answer, and any other
// into an empty one.
func answer(query []byte, addr [4]byte) []byte {
	end := 12
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5 // the root, type and class
	out := append([]byte{}, query[:end]...)
	out[2], out[3] = 0x81, 0x80
	copy(out[6:12], make([]byte, 6))
	if query[end-3] != 1 {
		return out
	}
	out[7] = 1
	out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
	return append(out, addr[:]...)
}

func TestClientSpeaksToItsHostOnly(t *testing.T) {
	_, other := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the request arrived") })
	_, u := serve(t, func(http.ResponseWriter, *http.Request) {})
	_, err := send(t, guard.Client(guard.Config{}, u), "POST", other.String())
	isBlocked(t, err, action.ErrUnavailable, "away from the host")
}

func TestProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	_, proxy := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") })
	t.Setenv("HTTP_PROXY", proxy.String())
	t.Setenv("HTTPS_PROXY", proxy.String())
	if guard.NewTransport(guard.Config{}).Proxy != nil {
		t.Error("the transport has a proxy")
	}
}

func TestRedirects(t *testing.T) {
	var arrived atomic.Int32
	_, other := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived.Add(1)
		t.Errorf("a request with %q arrived at another port", r.Header.Get("X-Key"))
	})
	s, u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		where := map[string]string{
			"/1": "/end", "/2": "/1", "/3": "/2", "/4": "/3", "/loop": "/loop",
			"/other": other.String(), "/scheme": "ftp://" + r.Host + "/end", "/user": "http://a:b@" + r.Host + "/end",
			"/case": "http://LOCALHOST:" + other.Port() + "/",
			"/see":  "/end", "/moved": "/end",
		}[r.URL.Path]
		switch r.URL.Path {
		case "/end":
			body, _ := io.ReadAll(r.Body)
			fmt.Fprint(w, r.Method, " ", string(body), " ", r.Header.Get("X-Key"))
		case "/see":
			http.Redirect(w, r, where, http.StatusSeeOther)
		case "/moved":
			http.Redirect(w, r, where, http.StatusFound)
		default:
			http.Redirect(w, r, where, http.StatusTemporaryRedirect)
		}
	})
	for _, path := range []string{"/1", "/2", "/3"} {
		got, err := send(t, guard.Client(guard.Config{}, u), "POST", s.URL+path)
		if err != nil || got != "200 POST body credential" {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	for path, test := range map[string]struct {
		kind error
		says string
	}{
		"/4":      {action.ErrUnavailable, "more than 3"},
		"/loop":   {action.ErrUnavailable, "more than 3"},
		"/other":  {action.ErrUnavailable, "another host or port"},
		"/case":   {action.ErrUnavailable, "another host or port"},
		"/scheme": {action.ErrUnavailable, "not http"},
		"/user":   {action.ErrUnavailable, "user"},
		"/see":    {action.ErrOutcomeUnknown, "turn the POST into a GET"},
		"/moved":  {action.ErrOutcomeUnknown, "turn the POST into a GET"},
	} {
		_, err := send(t, guard.Client(guard.Config{}, u), "POST", s.URL+path)
		isBlocked(t, err, test.kind, test.says)
	}
	if got, err := send(t, guard.Client(guard.Config{}, u), "GET", s.URL+"/see"); err != nil || !strings.HasPrefix(got, "200 GET") {
		t.Errorf("a GET may see other: %q, %v", got, err)
	}
}

func TestHTTPSNeverFallsBackToHTTP(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+r.Host+"/", http.StatusTemporaryRedirect)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	c := guard.Client(guard.Config{TLS: &tls.Config{RootCAs: roots}}, parse(t, s.URL))
	_, err := send(t, c, "POST", s.URL)
	isBlocked(t, err, action.ErrUnavailable, "from https to http")
}

func TestHTTP2IsOn(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	got, err := send(t, guard.Client(guard.Config{TLS: &tls.Config{RootCAs: roots}}, parse(t, s.URL)), "GET", s.URL)
	if err != nil || got != "200 HTTP/2.0" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestLimitBody(t *testing.T) {
	for _, test := range []struct {
		body string
		n    int64
		want string
		over bool
	}{
		{"", 0, "", false},
		{"x", 0, "", true},
		{"hello", 5, "hello", false},
		{"hello", 6, "hello", false},
		{"hello", 4, "hell", true},
		{strings.Repeat("x", 100_000), 99_999, strings.Repeat("x", 99_999), true},
	} {
		r := guard.LimitBody(io.NopCloser(strings.NewReader(test.body)), test.n)
		got, err := io.ReadAll(r)
		if string(got) != test.want || errors.Is(err, action.ErrTooLarge) != test.over || !test.over && err != nil {
			t.Errorf("%d bytes of %d: got %d bytes, %v", test.n, len(test.body), len(got), err)
		}
		if n, again := r.Read(make([]byte, 1)); test.over && (n != 0 || !errors.Is(again, action.ErrTooLarge)) {
			t.Errorf("the next read: %d, %v", n, again)
		}
	}
}
