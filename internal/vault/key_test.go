package vault_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sallyport/internal/vault"
)

func TestParseKey(t *testing.T) {
	want := key(0xab)
	got, err := vault.ParseKey(" " + strings.ToUpper(hex.EncodeToString(want)) + "\n")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %x, %v", got, err)
	}
	for _, text := range []string{"", "canary", strings.Repeat("a", 63), strings.Repeat("a", 66), strings.Repeat("g", 64)} {
		_, err := vault.ParseKey(text)
		if err == nil {
			t.Errorf("%q is taken", text)
		} else if text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("the error holds the text: %v", err)
		}
	}
}

func TestLoadKeyMakesOneAndKeepsIt(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "master.key")
	made, err := vault.LoadKey(path)
	if err != nil || len(made) != vault.KeySize {
		t.Fatalf("got %d bytes, %v", len(made), err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("got mode %v, %v; want 0600", info.Mode(), err)
	}
	again, err := vault.LoadKey(path)
	if err != nil || !bytes.Equal(made, again) {
		t.Errorf("the second time: another key, or %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

func TestLoadKeyInParallel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master.key")
	keys := make([]string, 32)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			k, err := vault.LoadKey(path)
			if err != nil {
				t.Error(err)
			}
			keys[i] = string(k)
		})
	}
	wg.Wait()
	for _, k := range keys {
		if k != keys[0] {
			t.Fatal("two callers got two keys")
		}
	}
}

func TestLoadKeyRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := strings.Repeat("ab", vault.KeySize)
	for name, test := range map[string]struct{ path, says string }{
		"readable by the group": {write("group", good, 0o640), "chmod 600 "},
		"readable by all":       {write("all", good, 0o604), "chmod 600 "},
		"empty":                 {write("empty", "", 0o600), "64 digits"},
		"too much in it":        {write("long", good+good, 0o600), "64 digits"},
		"a directory":           {dir, "regular file"},
		"in no directory":       {filepath.Join(dir, "none", "key"), "no such file"},
	} {
		if _, err := vault.LoadKey(test.path); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v; want %q in it", name, err, test.says)
		}
	}
}
