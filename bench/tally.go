package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// tally is an upstream that remembers which writes it did: each call has a
// number of its own, and none may come twice.
type tally struct {
	upstream

	mu   sync.Mutex
	done map[int64]int
}

// effects is what a tally tells.
type effects struct {
	Once int `json:"once"` // calls that had one effect
	More int `json:"more"` // calls that had more
}

func (t *tally) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/effects" {
		t.tell(w)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	t.note(body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	t.upstream.ServeHTTP(w, r)
}

func (t *tally) note(body []byte) {
	var call struct {
		Params struct {
			Name      string `json:"name"`
			Arguments struct {
				N int64 `json:"n"`
			} `json:"arguments"`
		} `json:"params"`
	}
	if json.Unmarshal(body, &call) != nil || call.Params.Name != "write" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done == nil {
		t.done = map[int64]int{}
	}
	t.done[call.Params.Arguments.N]++
}

func (t *tally) tell(w io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var e effects
	for _, times := range t.done {
		if times == 1 {
			e.Once++
		} else {
			e.More++
		}
	}
	raw, err := json.Marshal(e)
	if err == nil {
		fmt.Fprintf(w, "%s", raw)
	}
}
