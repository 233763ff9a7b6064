package store

import (
	"context"
	"strings"

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
	_, err := connectorOf(ctx, tx, organization, id)
	return err
}
