package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport/action"
)

// An upload may take longer than other requests; a stalled one is canceled and
// retried.
func TestUploadTimesOutOnlyWhenStalled(t *testing.T) {
	const size = 8 << 20 // larger than the connection buffers
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "film"), bytes.Repeat([]byte("x"), size), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	stalls, over := make(chan bool, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if <-stalls {
			<-over
			return
		}
		n, _ := io.Copy(io.Discard, r.Body)
		if n != size {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	defer server.Close()
	defer close(over)
	c, err := NewClient(server.URL, "token")
	if err != nil {
		t.Fatal(err)
	}
	c.HTTP.Timeout = time.Nanosecond
	a := &agentClient{Client: c, session: "s"}
	file := &action.UploadFile{Name: "film", Size: size, SHA256: strings.Repeat("0", 64)}
	stalls <- false
	if err := a.uploadOnce(t.Context(), root, "u", file, time.Minute); err != nil {
		t.Errorf("a file that moves: %v", err)
	}
	stalls <- true
	if err := a.uploadOnce(t.Context(), root, "u", file, 50*time.Millisecond); !errors.As(err, new(noResponseError)) || !strings.Contains(err.Error(), "no data was sent or received") {
		t.Errorf("one that stalls: %v", err)
	}
}

// Temporary errors of an upload are retried; permanent ones are not.
func TestUploadRetries(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "film"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for answer, sent := range map[string]int{
		`{"status":429,"code":"file_underway","detail":"It is underway."}`:        2,
		`{"status":502,"code":"files_unavailable","detail":"The store is away."}`: 2,
		`{"status":400,"code":"body_broken","detail":"It broke off."}`:            2,
		`{"status":400,"code":"wrong_digest","detail":"It changed."}`:             1,
		`{"status":409,"code":"upload_gone","detail":"It is gone."}`:              1,
	} {
		tries := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if tries++; tries == 1 {
				var p problem
				if err := json.Unmarshal([]byte(answer), &p); err != nil {
					t.Error(err)
				}
				w.WriteHeader(p.Status)
				_, _ = io.WriteString(w, answer)
			}
		}))
		c, err := NewClient(server.URL, "token")
		if err != nil {
			t.Fatal(err)
		}
		a := &agentClient{Client: c, session: "s", log: io.Discard}
		err = a.uploadFile(t.Context(), root, "u", &action.UploadFile{Name: "film", Size: 1, SHA256: strings.Repeat("0", 64)})
		if tries != sent || (err == nil) != (sent == 2) {
			t.Errorf("%s: sent %d times, want %d: %v", answer, tries, sent, err)
		}
		server.Close()
	}
}
