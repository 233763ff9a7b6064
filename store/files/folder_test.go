package files_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sallyport/action"
)

// Keys are paths, as in folders that earlier versions wrote, which may hold
// temporary files of an interrupted upload.
func TestFolderLayout(t *testing.T) {
	dir, b := t.TempDir(), []byte("hello")
	at := filepath.Join(dir, "org", "session", "upload")
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{sum(b), sum(b) + ".18a5c0f2.tmp"} {
		if err := os.WriteFile(filepath.Join(at, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, "file://"+dir)
	if got := there(t, s, "org/session/upload/"+sum(b)); got != "hello" {
		t.Errorf("it is %q", got)
	}
	if got := there(t, s, "org/session/upload"); got != "nothing" {
		t.Errorf("a folder is %q", got)
	}
	if err := s.Put(t.Context(), "org/session/upload/other", bytes.NewReader(b), 5, sum(b)); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(at, "other")); string(got) != "hello" || err != nil {
		t.Errorf("other is %q, %v", got, err)
	}
	if err := s.RemoveAll(t.Context(), "org/session/upload/"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(at); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something is left: %v", err)
	}
}

// An upload that fails leaves no temporary file.
func TestFailedUploadLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, "file://"+dir)
	if err := s.Put(t.Context(), "k", strings.NewReader("other"), 5, sum([]byte("hello"))); err == nil {
		t.Error("it was stored")
	}
	if entries, err := os.ReadDir(dir); len(entries) != 0 || err != nil {
		t.Errorf("there is %v, %v", entries, err)
	}
}

// Nobody who can place a link in the folder has the gateway read, write or remove
// what is outside of it.
func TestLinksAreNotFollowed(t *testing.T) {
	dir, outside, b := t.TempDir(), t.TempDir(), []byte("hello")
	secret := filepath.Join(outside, "secret")
	if err := errors.Join(os.WriteFile(secret, []byte("secret"), 0o600), os.Symlink(outside, filepath.Join(dir, "o")), os.Symlink(secret, filepath.Join(dir, "k"))); err != nil {
		t.Fatal(err)
	}
	s := open(t, "file://"+dir)
	for _, key := range []string{"k", "o/secret", "../" + filepath.Base(outside) + "/secret"} {
		if r, _, err := s.Get(t.Context(), key); !errors.Is(err, action.ErrUnavailable) {
			t.Errorf("%s was opened: %v, %v", key, r, err)
		}
	}
	if err := s.Put(t.Context(), "o/new", bytes.NewReader(b), 5, sum(b)); !errors.Is(err, action.ErrUnavailable) {
		t.Errorf("a file was put: %v", err)
	}
	if err := s.Put(t.Context(), "k", bytes.NewReader(b), 5, sum(b)); err != nil { // replaces the link
		t.Error(err)
	}
	_ = s.RemoveAll(t.Context(), "o/")
	if got, err := os.ReadFile(secret); string(got) != "secret" || err != nil {
		t.Errorf("the file outside is %q, %v", got, err)
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 1 {
		t.Errorf("there is more outside: %v", entries)
	}
}
