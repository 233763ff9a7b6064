package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// ReviewTools takes tools of a connector as reviewed, as a person saw them: by
// name, with the hashes that were shown; none for one that is not listed any
// more, which is forgotten then. Nil means all, as they are now. It returns all
// tools afterwards.
//
// Errors: ErrNotFound; ErrConflict with code "tool_changed" when a tool is
// another by now. Then nothing is reviewed.
func (db *DB) ReviewTools(ctx context.Context, organization, connector string, seen map[string]action.ToolHashes, by string) ([]action.ToolReview, error) {
	return db.OnboardTools(ctx, organization, connector, seen, nil, by)
}

// OnboardTools does what ReviewTools does, and in the same transaction sets the
// modes that actions of the connector get in the organization, by their names.
func (db *DB) OnboardTools(ctx context.Context, organization, connector string, seen map[string]action.ToolHashes, modes map[string]action.Mode, by string) (list []action.ToolReview, err error) {
	err = db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := connectorOf(ctx, tx, organization, connector); err != nil {
			return err
		}
		rows, err := toolRows(ctx, tx, organization, connector)
		if err != nil {
			return err
		}
		if rows, err = toReview(rows, seen); err != nil {
			return err
		}
		if err := db.accept(ctx, tx, organization, connector, rows, by); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(modes)) {
			o := action.Override{Organization: organization, Key: action.Key{Source: "connector:" + connector, Action: name}, Mode: modes[name], UpdatedBy: by}
			if err := o.Check(); err != nil {
				return err
			}
			if err := db.override(ctx, tx, &o); err != nil {
				return err
			}
		}
		list, err = listReviews(ctx, tx, organization, connector)
		return err
	})
	return list, err
}

// toReview returns those of the rows that a person saw and that are not
// reviewed by one yet.
func toReview(rows map[string]*reviewRow, seen map[string]action.ToolHashes) (map[string]*reviewRow, error) {
	wanted := map[string]*reviewRow{}
	for tool, row := range rows {
		if _, ok := seen[tool]; (ok || seen == nil) && (row.state() != action.ToolReviewed || row.ReviewedBy == firstList) {
			wanted[tool] = row
		}
	}
	for _, tool := range slices.Sorted(maps.Keys(seen)) {
		row, ok := rows[tool]
		if !ok {
			return nil, action.Errorf(action.ErrNotFound, "tool_not_found", "The connector has no tool %q; look at its list again.", tool)
		}
		if !row.Current.is(seen[tool]) && (row.Current.Behaviour != nil || seen[tool] != action.ToolHashes{}) {
			e := action.Errorf(action.ErrConflict, "tool_changed", "The tool %q changed since you looked at it; look again before you review it.", tool)
			e.Field = "/tools"
			return nil, e
		}
	}
	return wanted, nil
}

// accept writes the reviews, each with its event.
func (db *DB) accept(ctx context.Context, tx bun.Tx, organization, connector string, rows map[string]*reviewRow, by string) error {
	var listed, removed []string
	for _, tool := range slices.Sorted(maps.Keys(rows)) {
		was := rows[tool].standing()
		var is any
		if was.Current == nil {
			removed = append(removed, tool)
		} else {
			listed = append(listed, tool)
			is = standing{action.ToolReviewed, was.Current, was.Current}
		}
		if err := db.recordChange(ctx, tx, reviewEvent(organization, connector, tool, by), was, is); err != nil {
			return err
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if err := forgetTools(ctx, tx, organization, connector, removed); err != nil {
		return err
	}
	if len(listed) > 0 {
		_, err := tx.NewUpdate().Model((*reviewRow)(nil)).
			Set("reviewed_behaviour = current_behaviour, reviewed_text = current_text, reviewed_risk = current_risk, reviewed_definition = current_definition").
			Set("reviewed_by = ?, reviewed_at = ?", by, at(db.now())).
			Where("organization_id = ?", organization).Where("connector_id = ?", connector).Where("tool IN (?)", bun.List(listed)).Exec(ctx)
		if err != nil {
			return fmt.Errorf("reviewing tools of connector %s: %w", connector, err)
		}
	}
	_, err := policyMoved(ctx, tx, organization)
	return err
}

func forgetTools(ctx context.Context, tx bun.Tx, organization, connector string, tools []string) error {
	if len(tools) == 0 {
		return nil
	}
	_, err := tx.NewDelete().Model((*reviewRow)(nil)).
		Where("organization_id = ?", organization).Where("connector_id = ?", connector).Where("tool IN (?)", bun.List(tools)).Exec(ctx)
	if err != nil {
		return fmt.Errorf("forgetting tools of connector %s: %w", connector, err)
	}
	return nil
}

// resetReviews takes back the reviews of a connector's tools: of all, when it
// leads to another server, and then nothing is known of what that one lists; or
// only those of one reviewer. That it moves the version is for the caller.
func (db *DB) resetReviews(ctx context.Context, tx bun.Tx, c *connectorRow, reviewer, by string) error {
	rows, err := toolRows(ctx, tx, c.Organization, c.ID)
	if err != nil {
		return err
	}
	was := map[string]action.ToolHashes{}
	var unknown []string // nothing is left of them
	for tool, r := range rows {
		mine := r.Reviewed.hashes() != nil && (reviewer == "" || string(r.ReviewedBy) == reviewer)
		if mine {
			was[tool] = *r.Reviewed.hashes()
		}
		if reviewer == "" || mine && r.Current.Behaviour == nil {
			unknown = append(unknown, tool)
		}
	}
	if err := forgetTools(ctx, tx, c.Organization, c.ID, unknown); err != nil || len(was) == 0 {
		return err
	}
	if reviewer != "" {
		_, err := tx.NewUpdate().Model((*reviewRow)(nil)).
			Set("reviewed_behaviour = NULL, reviewed_text = NULL, reviewed_risk = NULL, reviewed_definition = NULL, reviewed_by = NULL, reviewed_at = NULL").
			Where("organization_id = ?", c.Organization).Where("connector_id = ?", c.ID).Where("reviewed_by = ?", reviewer).Exec(ctx)
		if err != nil {
			return fmt.Errorf("taking back the reviews of connector %s: %w", c.ID, err)
		}
	}
	return db.recordChange(ctx, tx, reviewEvent(c.Organization, c.ID, "", by), was, nil)
}
