package connect

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// observation is what a list of tools changes in the rows.
type observation struct {
	first   bool        // the list is taken as reviewed
	listed  []reviewRow // new, changed or back
	removed []string    // listed no more, but reviewed
	dropped []string    // listed no more, and never reviewed: nothing is left of them
}

func (o *observation) empty() bool {
	return !o.first && len(o.listed)+len(o.removed)+len(o.dropped) == 0
}

// ObserveTools writes down the whole list of tools that a connector of the
// revision has now, and reports whether it differs from what was known. The
// first list is taken as reviewed, and moves policy, unless people must review.
// Later ones change no review: they only tell what differs from it. A list that
// was asked for at another revision is not looked at.
func (st *Store) ObserveTools(ctx context.Context, organization, connector string, revision int64, tools map[string]action.ToolVersion) (changed bool, err error) {
	o, err := st.compareTools(ctx, st.db.Read, organization, connector, revision, tools)
	if err != nil || o.empty() {
		return false, err
	}
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		o, err := st.compareTools(ctx, tx, organization, connector, revision, tools)
		if changed = err == nil && !o.empty(); !changed {
			return err
		}
		if err := o.write(ctx, tx, organization, connector, database.NewTimestamp(st.db.Now())); err != nil || !o.first {
			return err
		}
		return st.recordFirstList(ctx, tx, organization, connector, tools)
	})
	return changed, err
}

// compareTools compares a list with the rows.
func (st *Store) compareTools(ctx context.Context, from bun.IDB, organization, connector string, revision int64, tools map[string]action.ToolVersion) (*observation, error) {
	c, err := ReadConnector(ctx, from, organization, connector)
	if err != nil {
		return nil, err
	}
	o := &observation{}
	if c.Revision != revision {
		return o, nil
	}
	rows, err := toolRows(ctx, from, organization, connector)
	if err != nil {
		return nil, err
	}
	// A server that lists nothing yet has not shown what would be trusted.
	o.first = c.TrustedAt == nil && len(tools) > 0
	now := database.NewTimestamp(st.db.Now())
	for _, tool := range slices.Sorted(maps.Keys(tools)) {
		if was := rows[tool]; was == nil || !was.Current.matches(tools[tool]) {
			o.listed = append(o.listed, o.row(organization, connector, tool, tools[tool], now))
		}
	}
	for tool, was := range rows {
		if _, ok := tools[tool]; ok || was.Current.Behaviour == nil {
			continue
		}
		if was.Reviewed.Behaviour == nil {
			o.dropped = append(o.dropped, tool)
		} else {
			o.removed = append(o.removed, tool)
		}
	}
	return o, nil
}

// row is that of a tool that was not known. Of one that was, its review stays.
func (o *observation) row(organization, connector, tool string, v action.ToolVersion, now database.Timestamp) reviewRow {
	r := reviewRow{Organization: organization, Connector: connector, Tool: tool, Current: newVersion(v), SeenAt: now}
	if o.first {
		r.Reviewed, r.ReviewedBy, r.ReviewedAt = r.Current, firstListReviewer, now
	}
	return r
}

// toolsPerStatement is how many are written in one statement.
const toolsPerStatement = 100

func (o *observation) write(ctx context.Context, tx bun.Tx, organization, connector string, now database.Timestamp) error {
	for rows := range slices.Chunk(o.listed, toolsPerStatement) {
		_, err := tx.NewInsert().Model(&rows).On("CONFLICT (organization_id, connector_id, tool) DO UPDATE").
			Set("current_behaviour = EXCLUDED.current_behaviour, current_text = EXCLUDED.current_text").
			Set("current_risk = EXCLUDED.current_risk, current_definition = EXCLUDED.current_definition, seen_at = EXCLUDED.seen_at").Exec(ctx)
		if err != nil {
			return fmt.Errorf("writing the tools of connector %s: %w", connector, err)
		}
	}
	if err := deleteTools(ctx, tx, organization, connector, o.dropped); err != nil || len(o.removed) == 0 {
		return err
	}
	_, err := tx.NewUpdate().Model((*reviewRow)(nil)).
		Set("current_behaviour = NULL, current_text = NULL, current_risk = NULL, current_definition = NULL, seen_at = ?", now).
		Where("organization_id = ?", organization).Where("connector_id = ?", connector).Where("tool IN (?)", bun.List(o.removed)).Exec(ctx)
	if err != nil {
		return fmt.Errorf("writing which tools connector %s has no more: %w", connector, err)
	}
	return nil
}

// recordFirstList notes that the first list was taken as reviewed, so that no other one
// is.
func (st *Store) recordFirstList(ctx context.Context, tx bun.Tx, organization, connector string, tools map[string]action.ToolVersion) error {
	_, err := tx.NewUpdate().Model((*ConnectorRow)(nil)).Set("trusted_at = ?", database.NewTimestamp(st.db.Now())).
		Where("id = ?", connector).Where("organization_id = ?", organization).Exec(ctx)
	if err != nil {
		return fmt.Errorf("trusting the tools of connector %s: %w", connector, err)
	}
	hashes := make(map[string]action.ToolHashes, len(tools))
	for tool, v := range tools {
		hashes[tool] = v.ToolHashes
	}
	return st.history.RecordPolicyChange(ctx, tx, reviewEvent(organization, connector, "", firstListReviewer), nil, hashes)
}
