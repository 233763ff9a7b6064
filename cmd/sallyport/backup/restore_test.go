package backup

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// staged is a data folder with a stage in it, held, and a folder beside it that
// a restore must leave alone.
func staged(t *testing.T) (folder, held *os.Root, beside string) {
	t.Helper()
	data := t.TempDir()
	for _, name := range []string{"stage/evidence/deep", "beside"} {
		if err := os.MkdirAll(filepath.Join(data, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"stage/sallyport.db", "stage/evidence/deep/file", "beside/passwd"} {
		if err := os.WriteFile(filepath.Join(data, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	folder, err := os.OpenRoot(data)
	if err != nil {
		t.Fatal(err)
	}
	held, err = openStage(folder, "stage", os.Geteuid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = folder.Close(), held.Close()
	})
	return folder, held, filepath.Join(data, "beside")
}

// swap puts a link to another folder in the stage's place.
func swap(t *testing.T, folder *os.Root, to string) {
	t.Helper()
	if err := folder.Rename("stage", "away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, filepath.Join(folder.Name(), "stage")); err != nil {
		t.Fatal(err)
	}
}

// What root restores is of the owner of the data folder, and nothing that he
// puts in its place. Anybody else restores for himself.
func TestRestoredFilesAreTheOwners(t *testing.T) {
	folder, held, beside := staged(t)
	me := uint32(os.Geteuid())
	want := me
	if me == 0 {
		want = 65534
		if err := os.Lchown(folder.Name(), 65534, 65534); err != nil {
			t.Fatal(err)
		}
	} else {
		t.Log("NOT COVERED without root: that files change hands")
	}
	swap(t, folder, beside)
	if err := changeOwner(held, folder); err != nil {
		t.Fatal(err)
	}
	of := func(root string, want uint32) {
		t.Helper()
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil && info.Sys().(*syscall.Stat_t).Uid != want {
				t.Errorf("%s is of user %d, want %d", path, info.Sys().(*syscall.Stat_t).Uid, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	of(filepath.Join(folder.Name(), "away"), want)
	of(beside, me)
}

// What is given over is what was made, whatever has its name by then, and a
// folder after what is in it.
func TestRestoreGivesWhatItMade(t *testing.T) {
	folder, held, beside := staged(t)
	swap(t, folder, beside)
	var names []string
	if err := deepestFirst(held, func(name string) error {
		names = append(names, name)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"sallyport.db", "evidence/deep/file", "evidence/deep", "evidence", "."}; !slices.Equal(names, want) {
		t.Errorf("it gives %q, want %q", names, want)
	}
	if err := unstage(held, folder, "stage"); err == nil {
		t.Error("what was not there took its place")
	}
	if _, err := os.Stat(filepath.Join(beside, "passwd")); err != nil {
		t.Error("what lay behind the link was moved:", err)
	}
}

// A stage that is not what this process made is not filled.
func TestRestoreRefusesAnothersStage(t *testing.T) {
	folder, _, beside := staged(t)
	if _, err := openStage(folder, "stage", os.Geteuid()+1); err == nil {
		t.Error("the folder of another user is taken")
	}
	if _, err := openStage(folder, "stage/sallyport.db", os.Geteuid()); err == nil {
		t.Error("a file is taken")
	}
	for _, to := range []string{beside, "beside", t.TempDir()} {
		swap(t, folder, to)
		if _, err := openStage(folder, "stage", os.Geteuid()); err == nil {
			t.Errorf("a link to %s is taken", to)
		}
		if err := os.RemoveAll(filepath.Join(folder.Name(), "stage")); err != nil {
			t.Fatal(err)
		}
		if err := folder.Rename("away", "stage"); err != nil {
			t.Fatal(err)
		}
	}
}
