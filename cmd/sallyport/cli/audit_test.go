package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport/cmd/sallyport/command"
)

// An export is complete, or it is an error and leaves no file.
func TestExport(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		err    string
	}{
		"whole":         {answer: serveLines("{\"id\":\"1\"}\n{\"id\":\"2\",\"error\":{}}\n")},
		"empty":         {answer: serveLines("")},
		"long":          {answer: serveLines(strings.Repeat("{\"id\":\"1\"}\n", 100_000))},
		"an error line": {answer: serveLines("{\"id\":\"1\"}\n{\"error\":{\"code\":\"internal\",\"detail\":\"The database is away.\"}}\n"), err: "The database is away."},
		"another error": {answer: serveLines("id,status\n{\"error\":\"gone\"}\n"), err: "gone"},
		"half a line":   {answer: serveLines("{\"id\":\"1\"}\n{\"id\":"), err: "middle of a line"},
		"a cut": {answer: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "{\"id\":\"1\"}\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, err: "unexpected EOF"},
		"silence": {answer: func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "{\"id\":\"1\"}\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, err: "no data arrived for"},
		"a refusal": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"code":"role_required","detail":"An owner or admin may."}`)
		}, err: "An owner or admin may."},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.answer)
			defer server.Close()
			t.Setenv("SALLYPORT_API_KEY", "key")
			file := filepath.Join(t.TempDir(), "out")
			var said bytes.Buffer
			export := &auditExport{clientFlags: clientFlags{URL: server.URL}, Out: file}
			err := export.write(t.Context(), &command.Streams{Out: io.Discard, Err: &said}, time.Second)
			if c.err == "" {
				if err != nil {
					t.Fatal(err)
				}
				if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("the file is %v, %v", info, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("the error is %v, which lacks %q", err, c.err)
			}
			if _, err := os.Stat(file); !os.IsNotExist(err) {
				t.Errorf("half a file was left: %v", err)
			}
		})
	}
}

func serveLines(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// An existing file is not overwritten.
func TestExportKeepsExistingFile(t *testing.T) {
	server := httptest.NewServer(serveLines("{}\n"))
	defer server.Close()
	t.Setenv("SALLYPORT_API_KEY", "key")
	file := filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	export := &auditExport{clientFlags: clientFlags{URL: server.URL}, Out: file}
	if err := export.Run(context.Background(), &command.Streams{Err: io.Discard}); err == nil || !strings.Contains(err.Error(), "name another") {
		t.Errorf("the error is %v", err)
	}
	if raw, err := os.ReadFile(file); err != nil || string(raw) != "old" {
		t.Errorf("the file holds %q, %v", raw, err)
	}
}

// readHead returns the last head of a file.
func TestReadHead(t *testing.T) {
	const one = `{"organization_id":"o","seq":%d,"hash":"h","mac":"m"}` + "\n"
	for name, c := range map[string]struct {
		text string
		seq  int64
	}{
		"one":          {fmt.Sprintf(one, 7), 7},
		"several":      {fmt.Sprintf(one+one, 7, 9), 9},
		"nothing":      {"", 0},
		"another file": {"root:x:0:0\n", 0},
		"a list":       {`{"items":[]}`, 0},
		"a broken end": {fmt.Sprintf(one, 7) + `{"seq":`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "heads")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			head, err := readHead(file)
			if c.seq == 0 {
				if err == nil || !strings.Contains(err.Error(), "audit heads") {
					t.Errorf("read %v, %v", head, err)
				}
			} else if err != nil || head.Seq != c.seq {
				t.Errorf("read %v, %v", head, err)
			}
		})
	}
}

// The report has the checks that were skipped and the head that was compared.
func TestVerifyReportsHead(t *testing.T) {
	server := httptest.NewServer(serveLines(`{"ok":true,"checked":3,"head":{"seq":9},"note":"Old rows \u001b were not looked at."}`))
	defer server.Close()
	t.Setenv("SALLYPORT_API_KEY", "key")
	file := filepath.Join(t.TempDir(), "heads")
	if err := os.WriteFile(file, []byte(`{"seq":7,"mac":"m","at":"2026-01-02T16:04:05+01:00"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	verify := &auditVerify{clientFlags: clientFlags{URL: server.URL}, Head: file}
	if err := verify.Run(t.Context(), &command.Streams{Out: &out}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"compared with head 7 of 2026-01-02T15:04:05Z\n", `Old rows \u001b were not`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, out.String())
		}
	}
}
