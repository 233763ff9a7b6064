package dashboard_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sallyport/action"
	"sallyport/dashboard"
)

// passing is a listener on whose connections a test has deadlines pass.
type passing struct {
	net.Listener
	mu    sync.Mutex
	conns []*passingConn
}

func (l *passing) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, &passingConn{Conn: c})
	return l.conns[len(l.conns)-1], err
}

type passingConn struct {
	net.Conn
	mu  sync.Mutex
	due bool
}

func (c *passingConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = t.After(time.Now())
	return c.Conn.SetReadDeadline(t)
}

// pass lets a long time go by, and tells whether a deadline was in it.
func (l *passing) pass() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.conns[len(l.conns)-1]
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.due {
		_ = c.Conn.SetReadDeadline(time.Now())
	}
	return c.due
}

// slowFiles is a store that takes its time in the middle of a file and at its end.
type slowFiles struct {
	dashboard.Files
	pass func() bool
}

func (f slowFiles) Put(ctx context.Context, key string, r io.Reader, size int64, sum string) error {
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r, min(size, 1000)); err != nil {
		return err
	}
	f.pass()
	if _, err := io.Copy(&b, r); err != nil {
		return err
	}
	if f.pass() {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.Files.Put(ctx, key, &b, size, sum)
}

// put is a request of the house's session to keep a file.
func (h *house) put(ctx context.Context, at, name string, body io.Reader, size int, digest string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, at+evidenceOfS1+"/"+uploadID+"/"+name, body)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Host, r.ContentLength = "gate.test:8787", int64(size)
	r.Header.Set("Authorization", "Bearer "+h.agent)
	r.Header.Set("X-Content-Sha256", digest)
	return r
}

// A store may take any time, in the middle of a file and after its last byte: that
// breaks off neither the file nor what follows on its connection.
func TestASlowStoreBreaksNoFile(t *testing.T) {
	listener := &passing{}
	h := newHouse(t, func(c *dashboard.Config) { c.Files = slowFiles{c.Files, listener.pass} })
	srv := httptest.NewUnstartedServer(h.srv.Handler())
	listener.Listener = srv.Listener
	srv.Listener = listener
	srv.Start()
	defer srv.Close()
	for _, name := range []string{"a", "b"} {
		content := strings.Repeat(name, 1<<20)
		res, err := srv.Client().Do(h.put(t.Context(), srv.URL, name, strings.NewReader(content), len(content), digestOf(content)))
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %s", name, res.Status, raw)
		}
	}
	if len(listener.conns) != 1 {
		t.Errorf("the files took %d connections", len(listener.conns))
	}
}

// brokenFiles is a store that breaks in a way it does not tell.
type brokenFiles struct{ dashboard.Files }

func (brokenFiles) Put(context.Context, string, io.Reader, int64, string) error {
	return errors.New("the disk is gone")
}

func TestTheSenderIsNotBlamedForTheStore(t *testing.T) {
	h := newHouse(t, func(c *dashboard.Config) { c.Files = brokenFiles{c.Files} })
	if status, answer := h.sends("a", "x", digestOf("x")); status != http.StatusInternalServerError {
		t.Errorf("%d %s", status, answer)
	}
}

// gatedFiles is a store that holds each file until it is let in.
type gatedFiles struct {
	dashboard.Files
	came, let chan struct{}
}

func (f gatedFiles) Put(ctx context.Context, key string, r io.Reader, size int64, sum string) error {
	f.came <- struct{}{}
	<-f.let
	return f.Files.Put(ctx, key, r, size, sum)
}

// One sender sends a file, and a session few files, at a time: what is counted once
// must not take its room many times.
func TestFilesAreSentByOneEach(t *testing.T) {
	files := gatedFiles{came: make(chan struct{}), let: make(chan struct{})}
	h := newHouse(t, func(c *dashboard.Config) { files.Files = c.Files; c.Files = files })
	var all sync.WaitGroup
	for i := range 4 {
		text := fmt.Sprint(i)
		all.Go(func() {
			if status, answer := h.sends("f"+text, text, digestOf(text)); status != 200 {
				t.Errorf("file %s: %d %s", text, status, answer)
			}
		})
		<-files.came
		if status, answer := h.sends("f"+text, text, digestOf(text)); status != 429 || !strings.Contains(answer, "file_underway") {
			t.Errorf("file %s a second time: %d %s", text, status, answer)
		}
	}
	if status, answer := h.sends("f4", "4", digestOf("4")); status != 429 || !strings.Contains(answer, "too_many_files_underway") {
		t.Errorf("a fifth file: %d %s", status, answer)
	}
	close(files.let)
	all.Wait()
	all.Go(func() { <-files.came })
	if status, answer := h.sends("f4", "4", digestOf("4")); status != 200 {
		t.Errorf("the fifth file, later: %d %s", status, answer)
	}
	all.Wait()
}

// oneConn is a listener with one connection.
type oneConn struct{ conns chan net.Conn }

func (l oneConn) Accept() (net.Conn, error) {
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (oneConn) Close() error   { return nil }
func (oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// A slow line has the time it needs. Who only holds a place has not.
func TestFilesComeAtAPace(t *testing.T) {
	for name, line := range map[string]struct {
		piece int
		every time.Duration
		want  string
	}{
		"a slow line":        {64 << 10, 7 * time.Second, "200"},
		"a drip":             {64 << 10, 50 * time.Second, "400"},
		"one that stalls":    {1000, 30 * time.Second, "400"},
		"one that sends not": {1, 24 * time.Hour, "400"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t)
				server, client := net.Pipe()
				listener := oneConn{make(chan net.Conn, 1)}
				listener.conns <- server
				srv := &http.Server{Handler: h.srv.Handler()}
				go func() { _ = srv.Serve(listener) }()
				const size = action.MaxUploadFile
				go func() {
					content := bytes.Repeat([]byte("x"), size)
					_, err := fmt.Fprintf(client, "PUT %s/%s/film HTTP/1.1\r\nHost: gate.test:8787\r\nAuthorization: Bearer %s\r\nX-Content-Sha256: %s\r\nContent-Length: %d\r\n\r\n",
						evidenceOfS1, uploadID, h.agent, digestOf(string(content)), size)
					for piece := range slices.Chunk(content, line.piece) {
						if err == nil {
							time.Sleep(line.every)
							_, err = client.Write(piece)
						}
					}
				}()
				res, err := http.ReadResponse(bufio.NewReader(client), nil)
				switch {
				case err != nil:
					t.Error(err)
				case !strings.HasPrefix(res.Status, line.want):
					t.Errorf("%s, want %s", res.Status, line.want)
				}
				if err == nil {
					res.Body.Close()
				}
				client.Close()
				close(listener.conns)
				_ = srv.Close()
				h.srv.Close()
				time.Sleep(48 * time.Hour) // the bubble's: whoever sleeps wakes up and leaves
			})
		})
	}
}
