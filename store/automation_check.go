package store

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// idOr gives what is new an id, unless it has one.
func idOr(id *string) (err error) {
	if *id == "" {
		*id, err = newID()
	}
	return err
}

// checkTitle refuses a name that people could not tell in a list, or would take
// for a pattern.
func checkTitle(field, thing, name string) error {
	if strings.TrimSpace(name) == "" || utf8.RuneCountInString(name) > maxTitle || !plain(name) {
		return invalid(field, fmt.Sprintf("The name of the %s has 1 to %d characters, no control characters and no *.", thing, maxTitle))
	}
	return nil
}

func (r *automationRow) checkInstructions() error {
	if text := r.Instructions; len(text) > maxInstructions || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return invalid("/instructions", fmt.Sprintf("Instructions have at most %d bytes of UTF-8, and no NUL; put the rest where the agent can read it.", maxInstructions))
	}
	return nil
}

// checkCount refuses one more row of a table than an organization may have.
func checkCount(ctx context.Context, tx bun.Tx, organization, table string, most int) error {
	n, err := tx.NewSelect().Table(table).Where("organization_id = ?", organization).Count(ctx)
	if err != nil {
		return fmt.Errorf("counting %s: %w", table, err)
	}
	if int(n) >= most {
		return action.Errorf(action.ErrTooMany, "too_many_"+table, "An organization has at most %d %s; remove one first.", most, table)
	}
	return nil
}
