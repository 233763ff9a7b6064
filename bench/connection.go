package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// connection is one kept-alive HTTP/1.1 connection of one MCP session. It
// writes prepared bytes and parses no more of an answer than it must: the
// client's own cost is part of every figure, so it is kept small.
type connection struct {
	conn    net.Conn
	reader  *bufio.Reader
	head    []byte // the request up to the value of Content-Length
	out     []byte
	body    []byte
	session string
	meta    string // what each request says of its client; in the era without sessions
	headers string // and which headers that takes
}

const answerTimeout = 30 * time.Second

// open connects a session to the target and shakes hands.
func open(ctx context.Context, to target, token string) (*connection, error) {
	c, err := dial(ctx, to, 64<<10)
	if err != nil {
		return nil, err
	}
	c.prepare(to, token)
	status, err := c.post([]byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"bench","version":"1"}}}`))
	if err == nil && (status != 200 || !bytes.Contains(c.body, []byte(`"result"`))) {
		err = fmt.Errorf("initialize: status %d: %s", status, c.body)
	}
	if err == nil {
		c.prepare(to, token)
		_, err = c.post([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	}
	if err != nil {
		c.conn.Close()
		return nil, err
	}
	return c, nil
}

// another connects the session of c once more, to have several calls at the
// same time. It reads into a small buffer: there may be thousands. A ping shows
// that it is used: the gateway waits for a first request only seconds.
func (c *connection) another(ctx context.Context, to target) (*connection, error) {
	more, err := dial(ctx, to, 1<<10)
	if err != nil {
		return nil, err
	}
	more.head, more.session = c.head, c.session
	status, err := more.post([]byte(`{"jsonrpc":"2.0","id":"ping","method":"ping"}`))
	if err == nil && status != 200 {
		err = fmt.Errorf("ping: status %d: %s", status, more.body)
	}
	if err != nil {
		more.conn.Close()
		return nil, err
	}
	return more, nil
}

// openModern connects to the target for requests of one method, and of one tool
// where it is a call, in the era without sessions: there is no handshake.
func openModern(ctx context.Context, to target, token, method, tool string) (*connection, error) {
	c, err := dial(ctx, to, 64<<10)
	if err != nil {
		return nil, err
	}
	c.meta = `,"io.modelcontextprotocol/protocolVersion":"` + modern + `","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`
	c.headers = "Mcp-Method: " + method + "\r\n"
	if tool != "" {
		c.headers += "Mcp-Name: " + tool + "\r\n"
	}
	c.prepare(to, token)
	return c, nil
}

func dial(ctx context.Context, to target, buffer int) (*connection, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", to.addr)
	if err != nil {
		return nil, err
	}
	return &connection{conn: conn, reader: bufio.NewReaderSize(conn, buffer)}, nil
}

func (c *connection) prepare(to target, token string) {
	version := legacy
	if c.meta != "" {
		version = modern
	}
	c.head = fmt.Appendf(c.head[:0], "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMcp-Protocol-Version: %s\r\n%s",
		to.path, to.addr, token, version, c.headers)
	if c.session != "" {
		c.head = fmt.Appendf(c.head, "Mcp-Session-Id: %s\r\n", c.session)
	}
	c.head = append(c.head, "Content-Length: "...)
}

// call runs one tools/call and checks that it was answered with a result. It
// carries a progress token, as the calls of real agents do.
func (c *connection) call(tool string, n int64) error {
	status, err := c.post(callBody(tool, n, c.meta))
	if err != nil {
		return err
	}
	return c.check(status, n)
}

func callBody(tool string, n int64, meta string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"_meta":{"progressToken":%d%s},"name":%q,"arguments":{"n":%d,"text":"the quick brown fox jumps over the lazy dog"}}}`, n, n, meta, tool, n)
}

// list asks for all tools, of which there must be some number at least.
func (c *connection) list(n int64, tools int) error {
	status, err := c.post(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{"_meta":{"progressToken":%d%s}}}`, n, n, c.meta))
	if err != nil {
		return err
	}
	if listed := bytes.Count(c.body, []byte(`"inputSchema"`)); listed < tools {
		return fmt.Errorf("%d tools are listed, of %d: %.300s", listed, tools, c.body)
	}
	return c.check(status, n)
}

// check looks at the answer in c.body.
func (c *connection) check(status int, n int64) error {
	id := strconv.AppendInt([]byte(`"id":`), n, 10)
	if status != 200 || !bytes.Contains(c.body, id) || !bytes.Contains(c.body, []byte(`"result"`)) || bytes.Contains(c.body, []byte(`"isError":true`)) {
		return fmt.Errorf("call %d: status %d: %.300s", n, status, c.body)
	}
	return nil
}

// post sends body and reads the whole answer into c.body.
func (c *connection) post(body []byte) (status int, err error) {
	if err := c.send(body, answerTimeout); err != nil {
		return 0, err
	}
	status, length, chunked, err := c.header()
	if err != nil {
		return 0, err
	}
	c.body = c.body[:0]
	if !chunked {
		return status, c.take(length)
	}
	return status, c.chunks()
}

// send sends a request, whose answer has to come within the time.
func (c *connection) send(body []byte, within time.Duration) error {
	c.out = append(c.out[:0], c.head...)
	c.out = strconv.AppendInt(c.out, int64(len(body)), 10)
	c.out = append(c.out, "\r\n\r\n"...)
	c.out = append(c.out, body...)
	if err := c.conn.SetDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	_, err := c.conn.Write(c.out)
	return err
}

// header reads an answer up to its body.
func (c *connection) header() (status, length int, chunked bool, err error) {
	line, err := c.line()
	if err != nil {
		return 0, 0, false, err
	}
	if len(line) < 12 {
		return 0, 0, false, fmt.Errorf("strange status line %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, 0, false, fmt.Errorf("strange status line %q", line)
	}
	for {
		line, err := c.line()
		if err != nil || len(line) == 0 {
			return status, length, chunked, err
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("content-length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, 0, false, err
			}
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			chunked = true
		case bytes.EqualFold(name, []byte("mcp-session-id")):
			if len(c.session) == 0 {
				c.session = string(value)
			}
		}
	}
}

func (c *connection) chunks() error {
	for {
		if last, err := c.chunk(); err != nil || last {
			return err
		}
	}
}

// chunk adds the next one to c.body.
func (c *connection) chunk() (last bool, err error) {
	line, err := c.line()
	if err != nil {
		return false, err
	}
	size, err := strconv.ParseUint(string(line), 16, 31)
	if err != nil {
		return false, fmt.Errorf("strange chunk size %q", line)
	}
	if err := c.take(int(size)); err != nil {
		return false, err
	}
	if line, err = c.line(); err != nil || len(line) != 0 {
		return false, errors.Join(err, errors.New("a chunk without an end"))
	}
	return size == 0, nil
}

func (c *connection) take(n int) error {
	had := len(c.body)
	for cap(c.body) < had+n {
		c.body = append(c.body[:cap(c.body)], 0)
	}
	c.body = c.body[:had+n]
	_, err := io.ReadFull(c.reader, c.body[had:])
	return err
}

// line returns the next line without its end, valid until the next read.
func (c *connection) line() ([]byte, error) {
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}
