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

// observation is the difference between a list of tools and the rows.
type observation struct {
	first   bool        // the list is trusted as reviewed
	listed  []reviewRow // new, changed or listed again
	removed []string    // no longer listed, but reviewed
	dropped []string    // no longer listed and never reviewed: deleted
}

func (o *observation) empty() bool {
	return !o.first && len(o.listed)+len(o.removed)+len(o.dropped) == 0
}

// ObserveTools stores the complete list of tools of a connector at a revision, and
// reports whether it differs from the stored one. The first list counts as reviewed
// and increments the policy version, unless a person must review. A later list changes
// no review. A list of another revision is ignored.
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
	// An empty list is not the first one: a later one would be trusted.
	o.first = c.TrustedAt == nil && len(tools) > 0
	now := database.NewTimestamp(st.db.Now())
	for _, tool := range slices.Sorted(maps.Keys(tools)) {
		if row := rows[tool]; row == nil || !row.Current.matches(tools[tool]) {
			o.listed = append(o.listed, o.row(organization, connector, tool, tools[tool], now))
		}
	}
	for tool, row := range rows {
		if _, ok := tools[tool]; ok || row.Current.Behaviour == nil {
			continue
		}
		if row.Reviewed.Behaviour == nil {
			o.dropped = append(o.dropped, tool)
		} else {
			o.removed = append(o.removed, tool)
		}
	}
	return o, nil
}

// row returns the row of a listed tool. write keeps the review of an existing row.
func (o *observation) row(organization, connector, tool string, v action.ToolVersion, now database.Timestamp) reviewRow {
	r := reviewRow{Organization: organization, Connector: connector, Tool: tool, Current: newVersion(v), SeenAt: now}
	if o.first {
		r.Reviewed, r.ReviewedBy, r.ReviewedAt = r.Current, firstListReviewer, now
	}
	return r
}

// toolsPerStatement bounds the rows of one statement.
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
		return fmt.Errorf("writing the removed tools of connector %s: %w", connector, err)
	}
	return nil
}

// recordFirstList marks the connector, so that no later list is trusted as the first,
// and records the trusted tools.
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
