package mcpserver

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// bodyWithin bounds how long a body may take to arrive.
const bodyWithin = time.Minute

// keepBody is the largest buffer that is used again.
const keepBody = 64 << 10

// readBody reads the body into a pooled buffer, to its end: only then does
// net/http notice that a client leaves. When it answers the request itself it
// returns the status.
func (s *Server) readBody(x *exchange) (buf *[]byte, status int) {
	buf, _ = s.bodies.Get().(*[]byte)
	if buf == nil {
		b := make([]byte, 0, 4<<10)
		buf = &b
	}
	*buf = (*buf)[:0]
	if x.r.ContentLength > s.cfg.MaxBody {
		return buf, s.tooLarge(x)
	}
	rc := http.NewResponseController(x.w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyWithin)) // where the writer knows deadlines
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	for {
		if len(*buf) == cap(*buf) {
			*buf = append(*buf, 0)[:len(*buf)]
		}
		n, err := x.r.Body.Read((*buf)[len(*buf):cap(*buf)])
		*buf = (*buf)[:len(*buf)+n]
		switch {
		case int64(len(*buf)) > s.cfg.MaxBody:
			return buf, s.tooLarge(x)
		case err == io.EOF:
			return buf, 0
		case err != nil:
			plain(x.w, http.StatusBadRequest, "The body could not be read to its end.")
			return buf, http.StatusBadRequest
		}
	}
}

func (s *Server) tooLarge(x *exchange) int {
	x.w.Header().Set("Connection", "close") // the rest of the body is not worth reading
	plain(x.w, http.StatusRequestEntityTooLarge, fmt.Sprintf("The request is over the limit of %d bytes.", s.cfg.MaxBody))
	return http.StatusRequestEntityTooLarge
}

// recycle takes a buffer back.
func (s *Server) recycle(buf *[]byte) {
	if buf != nil && cap(*buf) > 0 && cap(*buf) <= keepBody {
		s.bodies.Put(buf)
	}
}

func jsonContent(value string) bool {
	if value == "application/json" {
		return true
	}
	base, _, err := mime.ParseMediaType(value)
	return err == nil && base == "application/json"
}

// accepts tells what the client takes. One that says nothing takes JSON.
func accepts(r *http.Request) (json, stream bool) {
	values := r.Header["Accept"]
	if len(values) == 1 && values[0] == "application/json, text/event-stream" {
		return true, true
	}
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			base, _, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(base)) {
			case "application/json", "application/*":
				json = true
			case "text/event-stream", "text/*":
				stream = true
			case "*/*":
				json, stream = true, true
			}
		}
	}
	return json, stream
}
