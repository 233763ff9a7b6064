package mcpserver

import (
	"bytes"
	"net/http"
)

// heard is the SDK's answer to one message of the older era, as it was heard.
// The SDK sends an event stream of one event, because the option that makes it
// send plain JSON is not there for those who serve its transport themselves.
// Clients get plain JSON all the same: some take nothing else, and none needs
// a stream for one message.
type heard struct {
	header http.Header
	status int
	body   []byte
}

func (h *heard) Header() http.Header { return h.header }

// WriteHeader takes the first status, as net/http does.
func (h *heard) WriteHeader(status int) {
	if h.status == 0 {
		h.status = status
	}
}

func (h *heard) Write(b []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	h.body = append(h.body, b...)
	return len(b), nil
}

// message returns the message of the answer, or nil when it has none.
func (h *heard) message() []byte {
	if h.header.Get("Content-Type") != "text/event-stream" {
		return nil
	}
	var last []byte
	for line := range bytes.Lines(h.body) {
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			last = bytes.TrimSuffix(data, []byte("\n"))
		}
	}
	return last
}

// send passes the answer on.
func (h *heard) send(w http.ResponseWriter) {
	to := prepared(w).Header()
	for key, values := range h.header {
		to[key] = values
	}
	body := h.body
	if h.header.Get("Content-Type") == "text/event-stream" {
		if body = h.message(); body == nil {
			return // the client left before the SDK could answer
		}
		to.Set("Content-Type", "application/json")
		to.Del("Connection")
	}
	w.WriteHeader(h.status)
	_, _ = w.Write(body) // a client that left needs no answer
}
