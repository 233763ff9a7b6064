package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sallyport/cmd/sallyport/command"
)

// servePulls answers env pull: each new key takes the next variable, and a
// repeated key gets the same values again.
func servePulls(t *testing.T, known func(), took func(key string)) {
	t.Helper()
	var mu sync.Mutex
	given := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/me" {
			known()
			_, _ = io.WriteString(w, `{"session_id":"s1"}`)
			return
		}
		key := r.Header.Get("Idempotency-Key")
		mu.Lock()
		if given[key] == "" {
			given[key] = fmt.Sprintf("V%d", len(given))
		}
		name := given[key]
		mu.Unlock()
		took(key)
		_, _ = io.WriteString(w, `{"values":{"`+name+`":"x"},"pending":[],"refused":[]}`)
	}))
	t.Cleanup(server.Close)
	t.Setenv("SALLYPORT_URL", server.URL)
	t.Setenv("SALLYPORT_TOKEN", "sps_x")
}

func readPulled(t *testing.T, file string) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]string
	if err := json.Unmarshal(raw, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// Concurrent pulls do not overwrite each other's values, which are handed out
// only once.
func TestConcurrentPullsKeepAllValues(t *testing.T) {
	const commands = 8
	var all sync.WaitGroup
	all.Add(commands)
	servePulls(t, func() { all.Done(); all.Wait() }, func(string) {})
	folder := t.TempDir()
	file := filepath.Join(folder, "values.json")
	var done sync.WaitGroup
	for range commands {
		done.Go(func() {
			var out bytes.Buffer
			if status := executeClient(t.Context(), []string{"env", "pull", "--file", file}, nil, &out, &out); status != command.ExitOK {
				t.Errorf("status %d: %s", status, out.String())
			}
		})
	}
	done.Wait()
	if got := readPulled(t, file); len(got) != commands {
		t.Errorf("the file has %d values, should have %d: %v", len(got), commands, got)
	}
	if left, _ := os.ReadDir(folder); len(left) != 1 {
		t.Errorf("more than the values is left: %v", left)
	}
}

// A command that ends between the response and the write leaves its key, and
// the next one gets the same values.
func TestInterruptedPullResumes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "values.json")
	var keys []string
	servePulls(t, func() {}, func(key string) {
		if keys = append(keys, key); len(keys) == 1 { // makes the write fail
			if err := os.MkdirAll(filepath.Join(file, "x"), 0o700); err != nil {
				t.Error(err)
			}
		}
	})
	var out bytes.Buffer
	line := []string{"env", "pull", "--file", file}
	if status := executeClient(t.Context(), line, nil, &out, &out); status != command.ExitError || !strings.Contains(out.String(), "run this again within five minutes") {
		t.Errorf("status %d: %s", status, out.String())
	}
	if err := os.RemoveAll(file); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if status := executeClient(t.Context(), line, nil, &out, &out); status != command.ExitOK {
			t.Errorf("status %d: %s", status, out.String())
		}
	}
	if len(keys) != 3 || keys[1] != keys[0] || keys[2] == keys[0] {
		t.Errorf("the keys of the attempts: %q", keys)
	}
	if got := readPulled(t, file); got["V0"] != "x" || got["V1"] != "x" {
		t.Errorf("the file has %v", got)
	}
}

// The server may hand out values before an error, so the next command reuses
// the key.
func TestFailedPullKeepsKey(t *testing.T) {
	for status, document := range map[int]string{
		http.StatusInternalServerError: `{"status":500,"code":"internal","detail":"Something went wrong."}`,
		http.StatusServiceUnavailable:  `{"status":503,"code":"unavailable","detail":"The database is away."}`,
		http.StatusConflict:            `{"status":409,"code":"session_paused","detail":"A person paused this session."}`,
		http.StatusUnauthorized:        `{"status":401,"code":"unauthorized","detail":"The token is none."}`,
	} {
		refuses, keys := true, map[string]bool{}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/v1/me" {
				_, _ = io.WriteString(w, `{"session_id":"s1"}`)
				return
			}
			keys[r.Header.Get("Idempotency-Key")] = true
			if refuses {
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, document)
				return
			}
			_, _ = io.WriteString(w, `{"values":{"V":"x"},"pending":[],"refused":[]}`)
		}))
		t.Setenv("SALLYPORT_URL", server.URL)
		t.Setenv("SALLYPORT_TOKEN", "sps_x")
		file := filepath.Join(t.TempDir(), "values.json")
		line := []string{"env", "pull", "--file", file, "--retry-every", "1ns"}
		var out bytes.Buffer
		if got := executeClient(t.Context(), line, nil, &out, &out); got == command.ExitOK {
			t.Errorf("%d: %s", status, out.String())
		}
		refuses = false
		if got := executeClient(t.Context(), line, nil, &out, &out); got != command.ExitOK || len(keys) != 1 || readPulled(t, file)["V"] != "x" {
			t.Errorf("%d: status %d with keys %v: %s", status, got, keys, out.String())
		}
		server.Close()
	}
}

// A lock file that another user may have created is rejected.
func TestPullRejectsForeignLockFile(t *testing.T) {
	servePulls(t, func() {}, func(string) { t.Error("something was taken") })
	folder := t.TempDir()
	file := filepath.Join(folder, "values.json")
	for what, put := range map[string]func(string) error{
		"a link":                  func(name string) error { return os.Symlink(filepath.Join(folder, "other"), name) },
		"a file that others read": func(name string) error { return os.WriteFile(name, []byte("known\n"), 0o644) },
	} {
		if err := put(file + ".taking"); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if status := executeClient(t.Context(), []string{"env", "pull", "--file", file}, nil, &out, &out); status != command.ExitError || !strings.Contains(out.String(), "no values were fetched") {
			t.Errorf("%s: status %d: %s", what, status, out.String())
		}
		if err := os.Remove(file + ".taking"); err != nil {
			t.Fatal(err)
		}
	}
}
