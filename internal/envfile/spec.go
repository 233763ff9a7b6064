package envfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of a specification, the same as those of the tool save_env_files.
const (
	maxFiles = 10
	maxKeys  = 50
	maxPath  = 500
	maxKey   = 200
)

// File is a file of environment variables.
type File struct {
	Path          string `json:"path"`                    // relative to the workspace path
	WorkspacePath string `json:"workspacePath,omitempty"` // relative to the workspace; empty for the workspace itself
	Format        string `json:"format,omitempty"`        // dotenv, the default
	Mode          string `json:"mode,omitempty"`          // secret, the default
	Keys          []Key  `json:"keys"`
}

// Key is a variable in a file. An optional one is omitted if it has no value.
type Key struct {
	Key      string `json:"key"`
	Required bool   `json:"required"`
}

// Name returns the file's path in the workspace, with slashes.
func (f *File) Name() string { return path.Join(f.WorkspacePath, f.Path) }

// Parse reads {"files": [...]}, the list alone, or a workspace as printed by
// `sallyport workspace show --json`.
func Parse(raw []byte) ([]File, error) {
	var spec struct {
		Files []File `json:"files"`
	}
	into := any(&spec)
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) {
		into = &spec.Files
	}
	var setup struct {
		Files json.RawMessage `json:"env_files"`
	}
	if json.Unmarshal(raw, &setup) == nil && len(setup.Files) > 0 {
		raw = setup.Files
		if bytes.HasPrefix(raw, []byte("[")) {
			into = &spec.Files
		}
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return nil, fmt.Errorf(`the specification %s; write it as {"files": [{"path": ".env", "keys": [{"key": "NAME", "required": true}]}]}`, decodeErrorText(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is data after the specification")
	}
	return spec.Files, checkFiles(spec.Files)
}

// decodeErrorText explains why a specification cannot be decoded.
func decodeErrorText(err error) string {
	var typed *json.UnmarshalTypeError
	field, unknown := strings.CutPrefix(err.Error(), "json: unknown field ")
	switch {
	case errors.Is(err, io.EOF):
		return "is empty"
	case unknown:
		return "has an unknown field " + field
	case errors.As(err, &typed) && typed.Field != "":
		return fmt.Sprintf("has %s at %s, where there must be %s", typeWithArticle(typed.Value), typed.Field, goTypeText(typed.Type))
	case errors.As(err, &typed):
		return fmt.Sprintf("is %s, and must be an object with files or a list of them", typeWithArticle(typed.Value))
	}
	return "is not valid JSON: " + err.Error()
}

// typeWithArticle describes the type of a JSON value.
func typeWithArticle(value string) string {
	value, _, _ = strings.Cut(value, " ") // a number comes with its digits
	switch value {
	case "bool":
		return "true or false"
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "string":
		return "a text"
	}
	return "a " + value
}

// goTypeText describes the type that the decoder expected.
func goTypeText(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Struct:
		return "an object"
	}
	return "a text"
}

// checkFiles reports all errors.
func checkFiles(files []File) error {
	if len(files) == 0 || len(files) > maxFiles {
		return fmt.Errorf("a specification has 1 to %d files; this one has %d", maxFiles, len(files))
	}
	var errs []error
	seen := map[string]bool{}
	for i := range files {
		f := &files[i]
		if err := f.check(); err != nil {
			errs = append(errs, fmt.Errorf("files/%d: %w", i, err))
		} else if seen[f.Name()] {
			errs = append(errs, fmt.Errorf("files/%d: %q is named twice", i, f.Name()))
		}
		seen[f.Name()] = true
	}
	for i := range files {
		for at := path.Dir(files[i].Name()); at != "." && at != "/"; at = path.Dir(at) {
			if seen[at] {
				errs = append(errs, fmt.Errorf("files/%d: %q lies in %q, which is to be a file, too", i, files[i].Name(), at))
			}
		}
	}
	return errors.Join(errs...)
}

func (f *File) check() error {
	switch {
	case f.Format != "" && f.Format != "dotenv":
		return fmt.Errorf("the format %q is not known; there is dotenv", f.Format)
	case f.Mode != "" && f.Mode != "secret":
		return fmt.Errorf("the mode %q is not known; there is secret", f.Mode)
	case f.Path == "" || path.Clean(f.Path) == ".":
		return errors.New("a file needs a path")
	case len(f.Keys) == 0 || len(f.Keys) > maxKeys:
		return fmt.Errorf("a file has 1 to %d keys; this one has %d", maxKeys, len(f.Keys))
	}
	for _, p := range []string{f.Path, f.WorkspacePath} {
		if err := checkPath(p); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	for _, k := range f.Keys {
		if !ValidKey(k.Key) {
			return fmt.Errorf("%q is not a variable name: use letters, digits and _, at most %d characters, not starting with a digit", k.Key, maxKey)
		}
		if seen[k.Key] {
			return fmt.Errorf("the key %s is named twice", k.Key)
		}
		seen[k.Key] = true
	}
	return nil
}

// checkPath rejects paths that leave the workspace or enter git's directory.
func checkPath(p string) error {
	unseen := func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }
	switch {
	case len(p) > maxPath || !utf8.ValidString(p) || strings.ContainsFunc(p, unseen):
		return fmt.Errorf("the path %q has at most %d bytes and no characters that are not seen", p, maxPath)
	case strings.HasPrefix(p, "/") || strings.Contains(p, `\`):
		return fmt.Errorf("the path %q must be relative, with / between its parts", p)
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." || strings.EqualFold(part, ".git") {
			return fmt.Errorf("the path %q must not have a part %q", p, part)
		}
	}
	return nil
}

// ValidKey reports whether name is a valid variable name for shells and
// programs.
func ValidKey(name string) bool {
	if name == "" || len(name) > maxKey || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}
