package llm

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"sallyport/action"
)

// request is the body of a request whose model is known. It is checked to its end while
// it passes: a body that names a second model fails before its last bytes are sent, so
// that no provider reads another model than the one that was allowed.
type request struct {
	model string

	body       io.Reader
	controller *http.ResponseController
	json       *picker

	head     []byte // read, and not passed on yet
	from, to int    // place of the model's value in head

	mu   sync.Mutex // guards the fields below: the body may still be sent when the response arrives
	err  error      // of the JSON
	size int64      // bytes read
	over bool       // the request was answered
}

const (
	maxBody  = 64 << 20
	maxHead  = 1 << 20 // within which a body names its model
	chunk    = 16 << 10
	patience = 2 * time.Minute // for the next bytes of a client, and for sending it bytes
)

// readModel reads a body until its model is known.
func readModel(body io.Reader, c *http.ResponseController) (*request, error) {
	r := &request{body: body, controller: c}
	r.json = newPicker(r.found, "model", "models", "background")
	buf := make([]byte, chunk)
	for r.model == "" {
		n, err := r.readChecked(buf)
		r.head = append(r.head, buf[:n]...)
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case r.model != "":
		case err != nil:
			return nil, action.NewError("model_missing")
		case len(r.head) > maxHead:
			return nil, action.NewError("model_missing")
		}
	}
	return r, nil
}

// found checks the members that decide which model answers.
func (r *request) found(path string, raw []byte) error {
	switch {
	case path == "models" && string(raw) != "null":
		return action.NewError("model_fallbacks")
	case path == "background" && string(raw) == "true":
		return action.NewError("model_background")
	case path != "model":
		return nil
	case r.model != "":
		return action.NewError("model_twice")
	case raw[0] != '"' || json.Unmarshal(raw, &r.model) != nil || r.model == "" || len(r.model) > 200:
		return action.NewError("model_missing")
	}
	r.to = int(r.json.read)
	r.from = r.to - len(raw)
	return nil
}

// readChecked reads from the client, and returns only what was checked.
func (r *request) readChecked(b []byte) (int, error) {
	if err := r.deadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	n, err := r.body.Read(b)
	if err != nil { // a deadline would end the response
		_ = r.deadline(time.Time{})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.size += int64(n)
	if _, wrong := r.json.Write(b[:n]); wrong != nil {
		r.err = wrong
	} else if errors.Is(err, io.EOF) {
		r.err = r.json.end()
	}
	if r.err != nil {
		var known *action.Error
		if !errors.As(r.err, &known) {
			r.err = action.NewError("model_bad_json", r.err)
		}
		return 0, r.err
	}
	return n, err
}

// deadline sets the deadline of reading, or returns why nothing more is read.
func (r *request) deadline(t time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return errAnswered
	}
	_ = r.controller.SetReadDeadline(t) // not every connection has deadlines
	return r.err
}

var errAnswered = errors.New("the request was answered")

// ended states that the request was answered, and returns how many bytes were read.
func (r *request) ended() (size int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	return r.size
}

// failed returns what is wrong with the body.
func (r *request) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// replaceModel puts another model in the place of the one that the client named, and
// returns by how many bytes the body grew.
func (r *request) replaceModel(model string) int64 {
	value, _ := json.Marshal(model) // a string
	head := append(append(append([]byte{}, r.head[:r.from]...), value...), r.head[r.to:]...)
	grown := len(head) - len(r.head)
	r.head = head
	return int64(grown)
}

// Read passes the body on.
func (r *request) Read(b []byte) (int, error) {
	if len(r.head) > 0 {
		n := copy(b, r.head)
		r.head = r.head[n:]
		return n, nil
	}
	return r.readChecked(b)
}

// Close implements io.Closer; the server closes the body.
func (*request) Close() error { return nil }
