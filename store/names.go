package store

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/uptrace/bun"
)

// first returns the first of the errors that is one.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// checkSource refuses a connector that does not exist: it might come to exist
// later, with other tools than were meant. Modules cannot be told from typing
// errors here; a rule for none of them is of no effect.
func checkSource(ctx context.Context, tx bun.Tx, organization, source string) error {
	id, ok := strings.CutPrefix(source, "connector:")
	if !ok {
		return nil
	}
	_, err := connectorRowOf(ctx, tx, organization, id)
	return err
}

const maxName = 200 // bytes

// plain reports whether a name is a line of text that means just itself.
func plain(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool {
		return r == '*' || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	})
}

// line reports whether text is one line of at most so many bytes.
func line(text string, limit int) bool {
	return len(text) <= limit && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}
