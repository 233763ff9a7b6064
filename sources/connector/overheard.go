package connector

import (
	"bytes"
	"encoding/json"
	"io"
)

// maxSaid is how much of an answer to a handshake is kept beside the SDK's
// reading of it, which has no tasks.
const maxSaid = 256 << 10

// overheard is the body of an answer, as far as it was read.
type overheard struct {
	io.ReadCloser
	sight *sight
	bytes []byte // guarded by the sight's mutex
}

// hear keeps what is read of a body while the handshake is under way.
func (s *sight) hear(body io.ReadCloser) io.ReadCloser {
	if s == nil {
		return body
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expired == nil {
		return body
	}
	a := &overheard{ReadCloser: body, sight: s}
	s.said = append(s.said, a)
	return a
}

func (a *overheard) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	a.sight.mu.Lock()
	defer a.sight.mu.Unlock()
	if a.sight.expired != nil {
		a.bytes = append(a.bytes, p[:min(n, maxSaid-len(a.bytes))]...)
	}
	return n, err
}

// runsTasks reports whether one of the answers, JSON or events, declares that
// tools are called as tasks where they want it.
func runsTasks(answers [][]byte) bool {
	for _, answer := range answers {
		if declaresTasks(answer) {
			return true
		}
		for line := range bytes.Lines(answer) {
			if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && declaresTasks(data) {
				return true
			}
		}
	}
	return false
}

func declaresTasks(message []byte) bool {
	var m struct {
		Result struct {
			Capabilities struct {
				Tasks struct {
					Requests struct {
						Tools struct {
							Call *struct{} `json:"call"`
						} `json:"tools"`
					} `json:"requests"`
				} `json:"tasks"`
			} `json:"capabilities"`
		} `json:"result"`
	}
	return json.Unmarshal(message, &m) == nil && m.Result.Capabilities.Tasks.Requests.Tools.Call != nil
}
