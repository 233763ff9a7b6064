package webhook_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sallyport/ingest/event"
	"sallyport/ingest/webhook"
)

// deadlineRecorder is a connection that notes deadlines.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	body      io.Reader
	deadlines []time.Duration // from then
}

func (p *deadlineRecorder) SetReadDeadline(at time.Time) error {
	if at.IsZero() {
		p.deadlines = append(p.deadlines, 0)
		return nil
	}
	p.deadlines = append(p.deadlines, time.Until(at))
	return nil
}

func (p *deadlineRecorder) Read(b []byte) (int, error) {
	n, err := p.body.Read(b[:min(len(b), 8<<10)])
	if err != nil {
		return n, fmt.Errorf("read tcp: %w", os.ErrDeadlineExceeded)
	}
	return n, nil
}

func (p *deadlineRecorder) send(h *fixture, length int) {
	r := request("POST", "/webhooks/direct/hub", "", signed(hubSecret, "{}", nil))
	r.Body, r.ContentLength = io.NopCloser(p), int64(length)
	h.web.ServeHTTP(p, r)
}

// A sender who stalls, or is too slow to be one, is cut: the first has three
// seconds each time, the other less and less.
func TestSlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t)
		p := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder(), body: strings.NewReader("{")}
		p.send(h, 2)
		if p.Code != 408 || p.deadlines[0] != 3*time.Second || p.deadlines[1] > 3*time.Second {
			t.Errorf("%d %s, deadlines %v", p.Code, p.Body, p.deadlines)
		}
		slow := &slowReader{every: time.Second, piece: 8 << 10} // a quarter of what is due
		p = &deadlineRecorder{ResponseRecorder: httptest.NewRecorder(), body: slow}
		p.send(h, 1<<20)
		if last := p.deadlines[len(p.deadlines)-2]; p.Code != 408 || last > time.Second || slow.came > 5 {
			t.Errorf("%d %s, deadlines %v", p.Code, p.Body, p.deadlines)
		}
		p = &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
		h.web.ServeHTTP(p, request("POST", "/webhooks/direct/hub", "{}", signed(hubSecret, "{}", nil)))
		if p.Code != 200 || p.deadlines[0] == 0 || p.deadlines[len(p.deadlines)-1] != 0 {
			t.Errorf("%d %s, deadlines %v", p.Code, p.Body, p.deadlines)
		}
	})
}

// slowReader is a sender who sends a piece at a time, until it would be too late.
type slowReader struct {
	every       time.Duration
	piece, came int
}

func (s *slowReader) Read(b []byte) (int, error) {
	if due := 3*time.Second + time.Duration(s.came*s.piece)*time.Second/(32<<10); time.Duration(s.came+1)*s.every > due {
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(s.every)
	s.came++
	return min(len(b), s.piece), nil
}

// All that is taken in has one bound of memory, and gives back what it had.
// Who only says that he will send much has none of it.
func TestBodiesShareMemoryBudget(t *testing.T) {
	b := webhook.NewMemoryBudget(8 << 20)
	take := func(size int64, good bool) webhook.Reservation {
		t.Helper()
		r := b.Reserve()
		if _, err := r.Grow(t.Context(), size); (err == nil) != good {
			t.Errorf("%d: %v", size, err)
		}
		return r
	}
	large := take(5<<20, true)
	take(2<<20, false).Release() // large ones have three quarters
	small := take(1<<20, true)
	other := take(1<<20, true)
	last := take(1<<20, true)
	take(1, false).Release() // nothing is left
	large.Release()
	again := take(1<<20+2, true) // and now there is
	for _, r := range []webhook.Reservation{small, other, last, again} {
		r.Release()
	}
	if used := b.Used(); used != 0 {
		t.Errorf("%d bytes are still held", used)
	}
	h := newFixture(t)
	p := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder(), body: strings.NewReader("{")}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p.send(h, 3<<20)
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; p.Code != 408 || grown > 1<<20 {
		t.Errorf("%d: it was given %d bytes for one", p.Code, grown)
	}
}

// Over real connections: many at once keep one, and a sender who leaves off
// halfway keeps nothing.
func TestConnections(t *testing.T) {
	h := newFixture(t)
	web := httptest.NewServer(h.web)
	defer web.Close()
	body := strings.Repeat("x", webhook.DefaultMaxBody/2)
	set := signed(hubSecret, body, headers{"X-Hub-Delivery": "d1"})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), "POST", web.URL+"/webhooks/direct/hub", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			for name, value := range set {
				r.Header.Set(name, value)
			}
			got, err := web.Client().Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer got.Body.Close() //nolint:errcheck // nothing is in it
			if got.StatusCode != 200 {
				t.Errorf("answered %s", got.Status)
			}
		})
	}
	all.Wait()
	h.wantReceipts(1)

	c := dial(t, web)
	_, _ = fmt.Fprintf(c, "POST /webhooks/direct/hub HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{}")
	_ = c.CloseWrite()
	answers(t, c, 400)
	h.wantReceipts(1)

	// Who is refused without being heard is told so before he has said all.
	c = dial(t, web)
	_, _ = fmt.Fprintf(c, "POST /webhooks/direct/none HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{}")
	answers(t, c, 404)
}

func dial(t *testing.T, web *httptest.Server) *net.TCPConn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second)) // instead of for ever
	return c.(*net.TCPConn)
}

// answers reads the answer on a connection.
func answers(t *testing.T, c net.Conn, status int) {
	t.Helper()
	got, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Error(err)
		return
	}
	_ = got.Body.Close()
	if got.StatusCode != status {
		t.Errorf("answered %s, want %d", got.Status, status)
	}
}

func TestServerConfig(t *testing.T) {
	good := func() webhook.Config {
		h := newFixture(t)
		return webhook.Config{
			Providers: []event.Provider{hubProvider(), {ID: "tells-nothing", Webhook: hubProvider().Webhook}}, Rows: h, Vault: h.vault, Log: newLog(h.log),
			NewID: func() string { return "one" }, Secrets: map[string][]string{"hub": {"s"}}, Operator: "operators",
		}
	}
	if _, err := webhook.NewServer(good()); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		spoil func(*webhook.Config)
		want  string
	}{
		"no rows":           {func(c *webhook.Config) { c.Rows = nil }, "Rows"},
		"no operator":       {func(c *webhook.Config) { c.Operator = "" }, "Operator"},
		"an empty secret":   {func(c *webhook.Config) { c.Secrets["hub"] = []string{"s", " "} }, "hub is empty"},
		"an unknown name":   {func(c *webhook.Config) { c.Secrets["hbu"] = []string{"canary"} }, "hub, nango"},
		"nobody's events":   {func(c *webhook.Config) { c.Secrets["tells-nothing"] = []string{"canary"} }, "create a trigger"},
		"custom has none":   {func(c *webhook.Config) { c.Secrets["custom"] = []string{"canary"} }, "custom"},
		"twice":             {func(c *webhook.Config) { c.Providers = append(c.Providers, hubProvider()) }, "hub"},
		"another custom":    {func(c *webhook.Config) { c.Providers[0].ID = "custom" }, "custom"},
		"another nango":     {func(c *webhook.Config) { c.Providers[0].ID = "nango" }, "nango"},
		"a half webhook":    {func(c *webhook.Config) { c.Providers[0].Webhook = &event.Webhook{} }, "Verify"},
		"a nameless module": {func(c *webhook.Config) { c.Providers[0].ID = "" }, "id"},
	} {
		c := good()
		test.spoil(&c)
		if _, err := webhook.NewServer(c); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
