package vault_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sallyport/internal/vault"
)

func keyFile(t *testing.T) (path string, first []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "master.key")
	first, err := vault.LoadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, first
}

func TestReplaceKey(t *testing.T) {
	path, first := keyFile(t)
	if old, err := vault.LoadRetired(path); old != nil || err != nil {
		t.Fatalf("before: %x, %v", old, err)
	}
	master, old, err := vault.ReplaceKey(path)
	if err != nil || !bytes.Equal(old, first) || bytes.Equal(master, first) || len(master) != vault.KeySize {
		t.Fatalf("got %d bytes, the old one %v, %v", len(master), bytes.Equal(old, first), err)
	}
	for _, file := range []string{path, vault.Retired(path)} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	again, same, err := vault.ReplaceKey(path)
	if err != nil || !bytes.Equal(again, master) || !bytes.Equal(same, first) {
		t.Errorf("a second call makes a third key, or fails: %v", err)
	}
	if err := vault.DropRetired(path); err != nil {
		t.Fatal(err)
	}
	if err := vault.DropRetired(path); err != nil {
		t.Errorf("dropped twice: %v", err)
	}
	kept, err := vault.LoadKey(path)
	if files, _ := os.ReadDir(filepath.Dir(path)); err != nil || !bytes.Equal(kept, master) || len(files) != 1 {
		t.Errorf("in the end: %v, %v", files, err)
	}
}

// TestReplacementStopped is at the one moment when both names are of one key.
func TestReplacementStopped(t *testing.T) {
	path, first := keyFile(t)
	if err := os.Link(path, vault.Retired(path)); err != nil {
		t.Fatal(err)
	}
	if old, err := vault.LoadRetired(path); old != nil || err != nil {
		t.Errorf("nothing is being replaced, but %x, %v", old, err)
	}
	master, old, err := vault.ReplaceKey(path)
	if err != nil || !bytes.Equal(old, first) || bytes.Equal(master, first) {
		t.Errorf("it does not go on: %v", err)
	}
}

// An unreadable old key is no reason to begin anew: it would be lost.
func TestReplaceKeyKeepsABrokenOne(t *testing.T) {
	path, first := keyFile(t)
	if err := os.WriteFile(vault.Retired(path), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := vault.LoadRetired(path); err == nil {
		t.Error("a broken old key is taken for none")
	}
	if _, _, err := vault.ReplaceKey(path); err == nil {
		t.Error("it is replaced all the same")
	}
	if kept, err := vault.LoadKey(path); err != nil || !bytes.Equal(kept, first) {
		t.Errorf("the key is another: %v", err)
	}
}

// TestShelve replaces a key twice, and the old ones stay until they are dropped.
func TestShelve(t *testing.T) {
	path, first := keyFile(t)
	if err := vault.Shelve(path); err != nil {
		t.Errorf("without an old key: %v", err)
	}
	want := [][]byte{first}
	for range 2 {
		master, _, err := vault.ReplaceKey(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := vault.Shelve(path); err != nil {
			t.Fatal(err)
		}
		if old, err := vault.LoadRetired(path); old != nil || err != nil {
			t.Errorf("it is being replaced still: %v, %v", old != nil, err)
		}
		got, err := vault.LoadShelved(path)
		slices.SortFunc(got, bytes.Compare)
		slices.SortFunc(want, bytes.Compare)
		if !slices.EqualFunc(got, want, bytes.Equal) || err != nil {
			t.Errorf("got %d keys, %v; want %d", len(got), err, len(want))
		}
		want = append(want, master)
	}
	files, err := filepath.Glob(path + ".old.*")
	if len(files) != 2 || err != nil {
		t.Errorf("there are %v, %v", files, err)
	}
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	if err := vault.DropRetired(path); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); len(left) != 1 || err != nil {
		t.Errorf("dropped, there are %v, %v", left, err)
	}
	if err := os.WriteFile(vault.Retired(path)+".0123456789abcdef", []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := vault.LoadShelved(path); err == nil {
		t.Error("a broken one is passed over")
	}
}

// What was hashed before compares with what is hashed after.
func TestUse(t *testing.T) {
	v := open(t, key(1))
	sealed, hash := seal(t, v, here, "secret"), v.Hash([]byte("x"))
	if err := v.Use(key(2), key(1)); err != nil {
		t.Fatal(err)
	}
	if got, err := v.Open(here, sealed); err != nil || string(got) != "secret" {
		t.Errorf("the older key does not open: %q, %v", got, err)
	}
	if fresh := seal(t, v, here, "new"); !bytes.Equal(fresh[1:9], vault.KeyID(key(2))) {
		t.Error("the new key does not seal, or is not named")
	}
	if v.Hash([]byte("x")) != hash {
		t.Error("the hash is another")
	}
	if err := v.Use(make([]byte, 7)); err == nil {
		t.Error("a short key is taken")
	}
	kept, err := vault.HashKey(key(1))
	if err != nil {
		t.Fatal(err)
	}
	later := open(t, key(2))
	if later.UseHash(kept); later.Hash([]byte("x")) != hash {
		t.Error("the hash is another after a start")
	}
}
