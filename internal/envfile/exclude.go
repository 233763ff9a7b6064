package envfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// exclude makes git ignore the files, each in its own repository, once. Without
// a repository it does nothing.
func exclude(workspace string, files []File) error {
	for i := range files {
		name, err := filepath.Abs(filepath.Join(workspace, filepath.FromSlash(files[i].Name())))
		if err != nil {
			return err
		}
		top, common, err := repository(filepath.Dir(name))
		if err == nil && common != "" {
			err = addLine(filepath.Join(common, "info", "exclude"), excludePattern(top, name))
		}
		if err != nil {
			return fmt.Errorf("the files are written, but git was not told to ignore %s: %w", files[i].Name(), err)
		}
	}
	return nil
}

// repository finds the work tree that dir is in and its common git directory;
// both are empty if there is none.
func repository(dir string) (top, common string, err error) {
	for {
		at := filepath.Join(dir, ".git")
		info, err := os.Stat(at)
		switch {
		case err == nil && info.IsDir():
			return dir, at, nil
		case err == nil:
			common, err := commonDir(dir, at)
			return dir, common, err
		case !errors.Is(err, fs.ErrNotExist):
			return "", "", err
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", "", nil
		}
		dir = up
	}
}

// commonDir reads a .git file, of a linked work tree or of a submodule.
func commonDir(dir, file string) (common string, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	to, ok := strings.CutPrefix(strings.TrimSpace(string(raw)), "gitdir: ")
	if !ok {
		return "", nil // not git's
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(dir, to)
	}
	shared, err := os.ReadFile(filepath.Join(to, "commondir"))
	if err == nil {
		if common = strings.TrimSpace(string(shared)); !filepath.IsAbs(common) {
			common = filepath.Join(to, common)
		}
		to = common
	}
	if _, err := os.Stat(filepath.Join(to, "HEAD")); err != nil {
		return "", nil // the repository was moved or deleted
	}
	return to, nil
}

// excludePattern returns the gitignore pattern for exactly one file.
func excludePattern(top, name string) string {
	rel, err := filepath.Rel(top, name)
	if err != nil {
		rel = name
	}
	escaped := strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, ` `, `\ `).Replace(filepath.ToSlash(rel))
	return "/" + escaped
}

// addLine appends a line to a file unless it has it.
func addLine(file, line string) error {
	if info, err := os.Lstat(file); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", file)
	}
	raw, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if slices.Contains(strings.Split(string(raw), "\n"), line) {
		return nil
	}
	if len(raw) > 0 && raw[len(raw)-1] != '\n' {
		line = "\n" + line
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}
