package files_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/internal/aws"
	"sallyport/store/files"
)

// serve starts a server and returns the address of a bucket there, with fixed
// credentials in the environment.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "canary-secret")
	t.Setenv("AWS_SESSION_TOKEN", "session")
	return "s3://evidence?region=eu-central-1&endpoint=" + server.URL
}

// signed refuses requests whose signature does not cover them as they arrived.
func signed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		claimed := r.Header.Get("Authorization")
		_, rest, _ := strings.Cut(claimed, "SignedHeaders=")
		names, _, _ := strings.Cut(rest, ",")
		again := &http.Request{Method: r.Method, Header: http.Header{}, URL: &url.URL{Host: r.Host, Path: r.URL.Path, RawPath: r.URL.EscapedPath(), RawQuery: r.URL.RawQuery}}
		for name := range strings.SplitSeq(names, ";") {
			if name != "host" {
				again.Header.Set(name, r.Header.Get(name))
			}
		}
		at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		aws.Keys{ID: "test", Secret: "canary-secret", Token: "session"}.Sign(again, "s3", "eu-central-1", r.Header.Get("X-Amz-Content-Sha256"), at)
		if err != nil || again.Header.Get("Authorization") != claimed || r.Header.Get("X-Amz-Security-Token") != "session" {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `<Error><Code>SignatureDoesNotMatch</Code><Message>The request signature we calculated does not match.</Message></Error>`)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func open(t *testing.T, url string) *files.Store {
	t.Helper()
	s, err := files.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func there(t *testing.T, s *files.Store, key string) string {
	t.Helper()
	r, size, err := s.Get(t.Context(), key)
	if errors.Is(err, action.ErrNotFound) {
		return "nothing"
	}
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil || int64(len(b)) != size {
		t.Fatalf("%d of %d bytes, %v", len(b), size, err)
	}
	return string(b)
}

func TestFolderPermissions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "evidence")
	s, b := open(t, "file://"+dir), []byte("x")
	if err := s.Put(t.Context(), "o/s/u/k", bytes.NewReader(b), 1, sum(b)); err != nil {
		t.Fatal(err)
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if info, err := d.Info(); err != nil || d.IsDir() && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v, %v", path, info.Mode(), err)
		}
		return err
	})
	if entries, _ := os.ReadDir(filepath.Join(dir, "o", "s", "u")); len(entries) != 1 {
		t.Errorf("there is more than the file: %v", entries)
	}
}

func TestInvalidURLs(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	for _, url := range []string{"", "/var/x", "file://relative/x", "file:///x?create=1", "gs://x", "s3://", "s3://b/path", "s3://k:s@b", "s3://b?accelerate=true", "::", "s3://b", "s3://b:80?region=x", "s3://b?region=x/y", "s3://b?region=x&endpoint=minio"} {
		if _, err := files.Open(t.Context(), url); err == nil {
			t.Errorf("%q was opened", url)
		}
	}
}

func TestServerUnavailable(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	s := open(t, "s3://b?region=x&endpoint=http://127.0.0.1:1")
	err := s.Put(t.Context(), "k", strings.NewReader("x"), 1, sum([]byte("x")))
	if !errors.Is(err, action.ErrUnavailable) || strings.Contains(action.Public(err).Message, "127.0.0.1") {
		t.Errorf("%v", err)
	}
}
