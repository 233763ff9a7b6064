package envfile

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// MergeValues returns the values of the variables in a specification: overrides
// take precedence over lookup.
func MergeValues(files []File, lookup func(string) (string, bool), over map[string]string) map[string]string {
	values := map[string]string{}
	for _, f := range files {
		for _, k := range f.Keys {
			if v, ok := lookup(k.Key); ok {
				values[k.Key] = v
			}
			if v, ok := over[k.Key]; ok {
				values[k.Key] = v
			}
		}
	}
	return values
}

// Apply writes the files to the workspace. It returns an error if a file exists
// that it did not write, unless replace is set. It validates everything before
// it writes; if the disk fails midway, the files already written stay.
func Apply(workspace string, files []File, values map[string]string, replace bool) error {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return fmt.Errorf("opening the workspace: %w", err)
	}
	defer root.Close()
	if err := validate(root, files, values, replace); err != nil {
		return err
	}
	for i := range files {
		text := header + "\n"
		for _, k := range files[i].Keys {
			if v, ok := values[k.Key]; ok {
				quoted, _ := quoteValue(v) // validate checked it
				text += k.Key + "=" + quoted + "\n"
			}
		}
		if err := write(root, files[i].Name(), []byte(text)); err != nil {
			return fmt.Errorf("writing %s: %w", files[i].Name(), err)
		}
	}
	return exclude(workspace, files)
}

// validate reports every variable that is missing and every file that cannot be
// written.
func validate(root *os.Root, files []File, values map[string]string, replace bool) error {
	var missing []string
	var errs []error
	for i := range files {
		f := &files[i]
		for _, k := range f.Keys {
			v, ok := values[k.Key]
			if !ok && k.Required {
				missing = append(missing, k.Key)
			}
			if strings.ContainsRune(v, 0) {
				errs = append(errs, fmt.Errorf("the value of %s contains a NUL, which such a file cannot hold", k.Key))
			}
			if _, plain := quoteValue(v); !plain {
				errs = append(errs, unquotableError(k.Key, v))
			}
		}
		if mine, err := fileOwner(root, f.Name()); err != nil {
			errs = append(errs, err)
		} else if mine == ownedByOthers && !replace {
			errs = append(errs, fmt.Errorf("%s exists and was not written by sallyport env apply; move it away, or pass --replace", f.Name()))
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		errs = append(errs, fmt.Errorf("these variables have no value: %s; nothing was written. Ask for them with request_env_variables and run: sallyport env pull",
			strings.Join(slices.Compact(missing), ", ")))
	}
	return errors.Join(errs...)
}

// ownership tells who wrote a file.
type ownership int

const (
	absent ownership = iota
	ownedByUs
	ownedByOthers
)

// fileOwner reports whether a file exists and who wrote it. It rejects anything
// but a regular file, and paths through symbolic links.
func fileOwner(root *os.Root, name string) (ownership, error) {
	for at := path.Dir(name); at != "."; at = path.Dir(at) {
		info, err := root.Lstat(at)
		if err == nil && !info.IsDir() {
			return absent, fmt.Errorf("%s is not a folder (nothing is written through symbolic links)", at)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return absent, err
		}
	}
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return absent, nil
	case err != nil:
		return absent, err
	case !info.Mode().IsRegular():
		return absent, fmt.Errorf("%s is not a regular file (nothing is written through symbolic links)", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return absent, err
	}
	defer f.Close()
	first, err := io.ReadAll(io.LimitReader(f, int64(len(header))+1))
	if err != nil {
		return absent, err
	}
	if bytes.Equal(first, []byte(header+"\n")) {
		return ownedByUs, nil
	}
	return ownedByOthers, nil
}

// write replaces a file atomically.
func write(root *os.Root, name string, content []byte) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	next := name + ".sallyport-" + rand.Text() // another process may write the same file
	f, err := root.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = root.Rename(next, name)
	}
	if err != nil {
		_ = root.Remove(next)
	}
	return err
}

// Scrub removes the files that this package wrote. It returns the removed
// files, and those that others wrote.
func Scrub(workspace string, files []File) (removed, left []string, err error) {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the workspace: %w", err)
	}
	defer root.Close()
	var errs []error
	for i := range files {
		name := files[i].Name()
		mine, err := fileOwner(root, name)
		switch {
		case err != nil, mine == ownedByOthers:
			left = append(left, name)
		case mine == ownedByUs:
			if err := root.Remove(name); err != nil {
				errs = append(errs, err)
				continue
			}
			removed = append(removed, name)
		}
	}
	return removed, left, errors.Join(errs...)
}

// header is the first line of each written file. It identifies the file later.
const header = "# Written by sallyport env apply; sallyport env scrub removes it."

// quoteValue quotes a value so that shells and dotenv parsers, including
// Node's, read the same text; ok is false if no quoting does. Single quotes
// keep everything literal, so they are preferred if the value has none. In
// double quotes, a shell needs a backslash before what it would expand, and
// Node's parser keeps that backslash. Some parsers also take a backslash before
// a closing quote as an escape. Parsers join CR LF even in quotes, so CR is
// escaped, which no shell reads back.
func quoteValue(v string) (text string, ok bool) {
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("_-./:@%+,=", r)
	}
	switch {
	case v == "":
		return `""`, true
	case !strings.ContainsFunc(v, func(r rune) bool { return !plain(r) }):
		return v, true
	case !strings.ContainsAny(v, "'\r") && !strings.HasSuffix(v, `\`):
		return "'" + v + "'", true
	case strings.ContainsAny(v, "\\\"$`"):
		return "", false
	case strings.Contains(v, "\r"):
		v = strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(v)
	}
	return `"` + v + `"`, true
}

// unquotableError returns an error with a remedy for a value that quoteValue
// rejects.
func unquotableError(key, v string) error {
	why := "it has a ' together with one of \" $ ` \\"
	switch {
	case strings.HasSuffix(v, `\`):
		why = "it ends with a \\"
	case strings.Contains(v, "\r"):
		why = "it has a carriage return together with one of \" $ ` \\"
	}
	return fmt.Errorf("the value of %s cannot be written so that shells and dotenv parsers read it alike: %s; enter another one, or in base64 where the program can decode it, or have the program read what env pull wrote", key, why)
}
