package cloudlogs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maxFiles bounds the files per service; the latest modified are read.
const maxFiles = 1000

// fileInfo describes a file that is not open.
type fileInfo struct {
	dir      string // the root it must not leave; empty if the operator named the file
	path     string // relative to dir
	gzipped  bool
	size     int64
	modified time.Time
}

// listFiles returns the files of a pattern, last modified first, and how many
// were skipped because they resolve outside the directory.
func listFiles(pattern string) (list []fileInfo, strays int) {
	paths, _ := filepath.Glob(pattern) // New validated the pattern
	folder := fixedDir(pattern)
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		f := fileInfo{path: path, gzipped: strings.HasSuffix(path, ".gz"), size: info.Size(), modified: info.ModTime()}
		if folder != "" && !f.within(folder) {
			strays++
			continue
		}
		list = append(list, f)
	}
	slices.SortStableFunc(list, func(a, b fileInfo) int { return b.modified.Compare(a.modified) })
	return list[:min(len(list), maxFiles)], strays
}

// fixedDir returns the directory before the first wildcard, or "" for a plain
// path.
func fixedDir(pattern string) string {
	folder := pattern
	for strings.ContainsAny(folder, `*?[\`) {
		folder = filepath.Dir(folder)
	}
	if folder == pattern {
		return ""
	}
	return folder
}

// within reports whether the file resolves inside the directory, and records
// the resolved path.
func (f *fileInfo) within(folder string) bool {
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return false
	}
	path, err := filepath.EvalSymlinks(f.path)
	if err != nil {
		return false
	}
	path, err = filepath.Rel(folder, path)
	f.dir, f.path = folder, path
	return err == nil && filepath.IsLocal(path)
}

// open opens the file. Inside a root, a concurrent swap for a link cannot
// escape it.
func (f *fileInfo) open() (*os.File, error) {
	if f.dir == "" {
		return os.Open(f.path)
	}
	return os.OpenInRoot(f.dir, f.path)
}
