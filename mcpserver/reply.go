package mcpserver

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
	// writeWithin bounds each write, so that a client that stopped reading
	// holds nothing for ever.
	writeWithin = 30 * time.Second
	// writeChunk is how much has to go out within that time.
	writeChunk = 256 << 10
)

// errEnded is the error of words after the last one, or to a client that left.
var errEnded = errors.New("the request is over")

// reply is the answer to one request. It is plain JSON when the outcome is the
// first thing there is to say; the first progress or keep-alive before it
// turns it into an event stream. Its methods may be called at once from many
// goroutines; after the end they do nothing.
type reply struct {
	w  http.ResponseWriter
	rc *http.ResponseController

	mu        sync.Mutex
	streaming bool
	ended     bool
	err       error // of the first write that failed
}

func newReply(w http.ResponseWriter) *reply {
	return &reply{w: w, rc: http.NewResponseController(w)}
}

// event sends a message before the answer.
func (a *reply) event(message []byte) error {
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

// keepAlive shows that an answer is still to come.
func (a *reply) keepAlive() error { return a.comment("waiting") }

// comment sends a comment, which clients ignore and proxies do not.
func (a *reply) comment(text string) error {
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

// end sends the answer, in parts that follow each other. The error is nil only
// when everything was flushed.
func (a *reply) end(status int, parts ...[]byte) error {
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

// silence ends a request that shall not be answered: with an event stream in
// which nothing comes, or for clients that take none with an empty answer.
// Both are answers to HTTP and none to JSON-RPC.
func (a *reply) silence(stream bool) {
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
	_ = a.flushLocked() // nobody waits for it
}

// close makes sure that nothing is written any more: the request is over.
func (a *reply) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
}

func (a *reply) headersLocked(contentType string) http.Header {
	h := a.w.Header()
	h["Content-Type"] = []string{contentType}
	h["Cache-Control"] = []string{"no-store"}
	h["X-Accel-Buffering"] = []string{"no"}
	return h
}

// streamLocked begins the event stream.
func (a *reply) streamLocked() {
	if a.streaming {
		return
	}
	a.streaming = true
	a.headersLocked("text/event-stream")
	a.w.WriteHeader(http.StatusOK)
}

// eventLocked writes an event. A line break can stand in JSON only between
// its tokens, but an event has one line for each: clients put them together
// again.
func (a *reply) eventLocked(parts ...[]byte) {
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

func (a *reply) writeLocked(s string) {
	if a.err == nil {
		_, a.err = io.WriteString(a.w, s)
	}
}

func (a *reply) bytesLocked(p []byte) {
	for len(p) > 0 && a.err == nil {
		n := min(len(p), writeChunk)
		_, a.err = a.w.Write(p[:n])
		if p = p[n:]; len(p) > 0 {
			a.deadline()
		}
	}
}

func (a *reply) flushLocked() error {
	if a.err == nil {
		a.err = a.rc.Flush()
	}
	return a.err
}

// deadline gives what is written next its time. A writer that knows no
// deadlines has to do without.
func (a *reply) deadline() { _ = a.rc.SetWriteDeadline(time.Now().Add(writeWithin)) }
