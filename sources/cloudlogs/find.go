package cloudlogs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maxFiles bounds how many files of a service are looked at, the ones written
// last.
const maxFiles = 1000

// found is a file of a service that is not open.
type found struct {
	folder  string // that it may not be outside of; empty: the operator named it
	path    string // within the folder
	zipped  bool
	size    int64
	written time.Time
}

// findFiles returns the files that a pattern stands for, the one written last
// first, and how many links were left out.
func findFiles(pattern string) (list []found, strays int) {
	paths, _ := filepath.Glob(pattern) // New has checked the pattern
	folder := fixed(pattern)
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		f := found{path: path, zipped: strings.HasSuffix(path, ".gz"), size: info.Size(), written: info.ModTime()}
		if folder != "" && !f.within(folder) {
			strays++
			continue
		}
		list = append(list, f)
	}
	slices.SortStableFunc(list, func(a, b found) int { return b.written.Compare(a.written) })
	return list[:min(len(list), maxFiles)], strays
}

// fixed returns the folder before the first wildcard of a pattern; empty: it is
// a path.
func fixed(pattern string) string {
	folder := pattern
	for strings.ContainsAny(folder, `*?[\`) {
		folder = filepath.Dir(folder)
	}
	if folder == pattern {
		return ""
	}
	return folder
}

// within reports whether the file is in the folder, wherever links lead, and
// has it opened there alone.
func (f *found) within(folder string) bool {
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return false
	}
	path, err := filepath.EvalSymlinks(f.path)
	if err != nil {
		return false
	}
	path, err = filepath.Rel(folder, path)
	f.folder, f.path = folder, path
	return err == nil && filepath.IsLocal(path)
}

// open opens the file. Who replaces it by a link meanwhile leads nowhere else.
func (f *found) open() (*os.File, error) {
	if f.folder == "" {
		return os.Open(f.path)
	}
	return os.OpenInRoot(f.folder, f.path)
}
