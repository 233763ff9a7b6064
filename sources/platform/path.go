package platform

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// checkPath rejects paths that could leave the workspace on any system.
func checkPath(field, path string) error {
	switch {
	case strings.HasPrefix(path, "/"):
		return invalidParam(field, "A path is relative to the workspace: leave the leading / out.")
	case strings.HasPrefix(path, "~"):
		return invalidParam(field, "A path is relative to the workspace: it cannot begin with ~.")
	case strings.Contains(path, `\`):
		return invalidParam(field, `A path has / between its parts, and no \.`)
	case len(path) > 1 && path[1] == ':':
		return invalidParam(field, "A path is relative to the workspace: leave the drive out.")
	case slices.Contains(strings.Split(path, "/"), ".."):
		return invalidParam(field, "A path stays in the workspace: it has no part that is ..")
	}
	return checkText(field, path, false)
}

func checkOptionalPath(field string, path *string) error {
	if path == nil || *path == "" {
		return nil
	}
	return checkPath(field, *path)
}

// checkText rejects text that a person would not see as it is.
func checkText(field, text string, lines bool) error {
	invisible := func(r rune) bool {
		return (unicode.IsControl(r) && (!lines || r != '\n' && r != '\t')) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
	}
	switch {
	case !utf8.ValidString(text) || strings.ContainsFunc(text, invisible):
		return invalidParam(field, "It holds characters that nobody sees, such as control characters; leave them out.")
	case strings.TrimSpace(text) == "":
		return invalidParam(field, "It is blank; say something.")
	}
	return nil
}

// firstError returns the first non-nil error.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
