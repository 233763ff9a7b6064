package wire

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	// WriteTimeout bounds each write, so that a client that stopped reading cannot
	// hold a goroutine forever.
	WriteTimeout = 30 * time.Second
	// writeChunk is the number of bytes that one write timeout covers.
	writeChunk = 256 << 10
)

// errEnded is returned for writes after the response, or to a client that
// disconnected.
var errEnded = errors.New("the request is over")

// Writer sends the response to one request. The response is plain JSON if it is the
// first thing written; an event or a keep-alive before it turns the response into an
// event stream. Safe for concurrent use; writes after the end return an error.
type Writer struct {
	w  http.ResponseWriter
	rc *http.ResponseController

	mu        sync.Mutex
	streaming bool
	ended     bool
	err       error // of the first write that failed
}

// NewWriter returns a Writer for w.
func NewWriter(w http.ResponseWriter) *Writer {
	return &Writer{w: w, rc: http.NewResponseController(w)}
}

// Event sends a message before the response.
func (a *Writer) Event(message []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended || a.err != nil {
		return errEnded
	}
	a.deadline()
	a.streamLocked()
	a.eventLocked(message)
	return a.flushLocked()
}

// KeepAlive signals that the response is still to come.
func (a *Writer) KeepAlive() error { return a.Comment("waiting") }

// Comment sends an SSE comment: clients ignore it, and proxies see traffic.
func (a *Writer) Comment(text string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended || a.err != nil {
		return errEnded
	}
	a.deadline()
	a.streamLocked()
	a.writeLocked(": " + text + "\n\n")
	return a.flushLocked()
}

// End sends the response as the concatenation of parts. The error is nil only if
// everything was flushed.
func (a *Writer) End(status int, parts ...[]byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended || a.err != nil {
		return errEnded
	}
	a.ended = true
	a.deadline()
	if a.streaming {
		a.eventLocked(parts...)
		return a.flushLocked()
	}
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	h := a.headersLocked("application/json")
	h["Content-Length"] = []string{strconv.Itoa(size)}
	a.w.WriteHeader(status)
	for _, p := range parts {
		a.bytesLocked(p)
	}
	return a.flushLocked()
}

// EndEmpty ends the HTTP request without a JSON-RPC response: with an empty event
// stream, or with 202 for clients that do not accept streams.
func (a *Writer) EndEmpty(stream bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended || a.err != nil {
		return
	}
	a.ended = true
	a.deadline()
	if !stream {
		a.w.WriteHeader(http.StatusAccepted)
		return
	}
	a.streamLocked()
	_ = a.flushLocked() // the client no longer waits
}

// Close prevents further writes. It must be called before the handler returns.
func (a *Writer) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
}

func (a *Writer) headersLocked(contentType string) http.Header {
	h := a.w.Header()
	h["Content-Type"] = []string{contentType}
	h["Cache-Control"] = []string{"no-store"}
	h["X-Accel-Buffering"] = []string{"no"}
	return h
}

// streamLocked starts the event stream if it has not started.
func (a *Writer) streamLocked() {
	if a.streaming {
		return
	}
	a.streaming = true
	a.headersLocked("text/event-stream")
	a.w.WriteHeader(http.StatusOK)
}

// eventLocked writes one event. Line breaks occur in JSON only between tokens; an
// SSE event carries one data field per line, which clients join again.
func (a *Writer) eventLocked(parts ...[]byte) {
	a.writeLocked("event: message\ndata: ")
	for _, p := range parts {
		for len(p) > 0 {
			i := bytes.IndexAny(p, "\r\n")
			if i < 0 {
				a.bytesLocked(p)
				break
			}
			a.bytesLocked(p[:i])
			a.writeLocked("\ndata: ")
			p = p[i+1:]
		}
	}
	a.writeLocked("\n\n")
}

func (a *Writer) writeLocked(s string) {
	if a.err == nil {
		_, a.err = io.WriteString(a.w, s)
	}
}

func (a *Writer) bytesLocked(p []byte) {
	for len(p) > 0 && a.err == nil {
		n := min(len(p), writeChunk)
		_, a.err = a.w.Write(p[:n])
		if p = p[n:]; len(p) > 0 {
			a.deadline()
		}
	}
}

func (a *Writer) flushLocked() error {
	if a.err == nil {
		a.err = a.rc.Flush()
	}
	return a.err
}

// deadline renews the write deadline. Writers that do not support deadlines do
// without.
func (a *Writer) deadline() { _ = a.rc.SetWriteDeadline(time.Now().Add(WriteTimeout)) }
