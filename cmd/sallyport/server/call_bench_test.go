package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/internal/hangup"
	"sallyport/store"
)

// memoryLedger has the rows of allowed reads in memory, so that a benchmark
// measures all of a call except the database.
type memoryLedger struct {
	action.Ledger
	rows sync.Map // of action.Invocation, by ID
}

func (l *memoryLedger) Begin(_ context.Context, d *action.Draft) (*action.BeginResult, error) {
	l.rows.Store(d.ID, &d.Invocation)
	return &action.BeginResult{Record: action.Record{Invocation: d.Invocation}, Created: true}, nil
}

func (l *memoryLedger) Finish(_ context.Context, f *action.Finish) (inv action.Invocation, recorded bool, err error) {
	begun, _ := l.rows.LoadAndDelete(f.ID)
	inv = *begun.(*action.Invocation)
	inv.Status, inv.Result, inv.ResultNote, inv.CompletedAt, inv.DurationMS = f.Status, f.Result, f.ResultNote, &f.Now, &f.DurationMS
	return inv, true, nil
}

// BenchmarkWholeCall is one allowed read from the agent's connection to the upstream
// and back, without the database. The client and the upstream run in the same
// process and exchange fixed bytes, so that they add little. The metric cpu-µs/op
// is processor time, which other work on the machine disturbs less than ns/op.
func BenchmarkWholeCall(b *testing.B) {
	for _, sessions := range []int{1, 16} {
		b.Run(fmt.Sprintf("%d", sessions), func(b *testing.B) { benchmarkWholeCall(b, sessions, strings.Repeat("lorem ipsum ", 20)) })
	}
	b.Run("20KB", func(b *testing.B) {
		benchmarkWholeCall(b, 1, strings.Repeat(`{\"id\": 17, \"name\": \"lorem ipsum\"}\n`, 500))
	})
}

// benchmarkWholeCall makes calls whose results have the text, which is encoded.
func benchmarkWholeCall(b *testing.B, sessions int, text string) {
	dir := b.TempDir()
	logFile, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer logFile.Close()
	g, err := Open(b.Context(), Options{Data: dir, Listen: "127.0.0.1:0"}, NewLogger(logFile, "info", "text"))
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	g.gate.Ledger = &memoryLedger{Ledger: g.DB}
	c := action.Connector{ID: uuid.NewString(), Organization: store.DefaultOrganization, Name: "Bench", Slug: "bench", URL: fixedUpstream(b, text), Enabled: true, Revision: 1}
	if err := g.DB.CreateConnector(b.Context(), c, nil, "me"); err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: g.handler(), ConnContext: hangup.ConnContext, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(g.log.Handler(), slog.LevelWarn)}
	go func() { _ = server.Serve(g.listener) }()
	defer server.Close()

	agents := make([]*rawAgent, sessions)
	for i := range agents {
		s, err := g.DB.CreateSession(b.Context(), action.Session{ID: uuid.NewString(), Organization: store.DefaultOrganization, Kind: action.Interactive, Type: action.TypeCoding, CreatedBy: "bench", CreatedAt: g.DB.Now()})
		if err != nil {
			b.Fatal(err)
		}
		agents[i] = newRawAgent(b, g.listener.Addr().String(), g.signer.Mint(s.ID))
		agents[i].call(b)
	}
	b.ReportAllocs()
	before := processorTime()
	b.ResetTimer()
	var running sync.WaitGroup
	for i, a := range agents {
		running.Go(func() {
			for range (b.N + i) / sessions {
				a.call(b)
			}
		})
	}
	running.Wait()
	b.StopTimer()
	b.ReportMetric(float64((processorTime()-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// processorTime is what this process has used, in user and system mode.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it fails only for invalid arguments
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// rawAgent is an MCP client on one connection.
type rawAgent struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
	body    []byte
}

func newRawAgent(b *testing.B, addr, token string) *rawAgent {
	b.Helper()
	conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	a := &rawAgent{conn: conn, in: bufio.NewReader(conn)}
	head := "POST /mcp HTTP/1.1\r\nHost: " + addr + "\r\nAuthorization: Bearer " + token + "\r\n" +
		"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2025-11-25\r\n"
	request := func(head, body string) []byte {
		return fmt.Appendf(nil, "%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
	}
	a.request = request(head, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"bench","version":"1"}}}`)
	session := a.exchange(b).Get("Mcp-Session-Id")
	a.request = request(head+"Mcp-Session-Id: "+session+"\r\n",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":1},"name":"bench_read","arguments":{"n":1,"text":"the quick brown fox jumps over the lazy dog"}}}`)
	return a
}

func (a *rawAgent) call(b *testing.B) {
	if _, err := a.conn.Write(a.request); err != nil {
		b.Error(err)
		return
	}
	if a.body = readMessage(a.in, a.body); !bytes.Contains(a.body, []byte(`"structuredContent":{"ok":true}`)) {
		b.Errorf("answered %q", a.body)
	}
}

func (a *rawAgent) exchange(b *testing.B) http.Header {
	b.Helper()
	if _, err := a.conn.Write(a.request); err != nil {
		b.Fatal(err)
	}
	r, err := http.ReadResponse(a.in, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Body.Close()
	if body, err := io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusOK {
		b.Fatalf("answered %d %s, %v", r.StatusCode, body, err)
	}
	return r.Header
}

// readMessage reads an HTTP message with a Content-Length, and returns its body in
// the given buffer; nil at the end of the connection.
func readMessage(in *bufio.Reader, into []byte) []byte {
	length := 0
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return nil
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		if name, value, _ := bytes.Cut(line, []byte(": ")); bytes.EqualFold(name, []byte("content-length")) {
			for _, digit := range value {
				length = length*10 + int(digit-'0')
			}
		}
	}
	into = append(into[:0], make([]byte, length)...)
	if _, err := io.ReadFull(in, into); err != nil {
		return nil
	}
	return into
}

// fixedUpstream is an MCP server with one tool, and returns its URL.
func fixedUpstream(b *testing.B, text string) string {
	b.Helper()
	listener, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serveFixed(conn, text)
		}
	}()
	return "http://" + listener.Addr().String() + "/mcp"
}

func serveFixed(conn net.Conn, text string) {
	defer conn.Close()
	results := []struct{ method, result string }{
		{`"method":"tools/call"`, `"result":{"content":[{"type":"text","text":"` + text + `"}],"structuredContent":{"ok":true}}`},
		{`"method":"initialize"`, `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}`},
		{`"method":"tools/list"`, `"result":{"tools":[{"name":"read","description":"Reads.","inputSchema":{"type":"object","properties":{"n":{"type":"integer"},"text":{"type":"string"}},"required":["n"]},"annotations":{"readOnlyHint":true}}]}`},
		{``, `"error":{"code":-32601,"message":"method not found"}`},
	}
	in := bufio.NewReader(conn)
	var body, out, answer []byte
	for {
		if body = readMessage(in, body); body == nil {
			return
		}
		_, id, hasID := bytes.Cut(body, []byte(`"id":`))
		out = append(out[:0], "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"...)
		for _, r := range results {
			if hasID && bytes.Contains(body, []byte(r.method)) {
				id, _, _ = bytes.Cut(id, []byte(","))
				answer = fmt.Appendf(answer[:0], `{"jsonrpc":"2.0","id":%s,%s}`, id, r.result)
				out = fmt.Appendf(out[:0], "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
				break
			}
		}
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}
