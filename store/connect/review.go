package connect

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/history"
)

// firstListReviewer is the reviewer of the tools of a trusted first list.
const firstListReviewer = "first list"

// reviewRow is a tool of a connector that is listed or was reviewed.
type reviewRow struct {
	bun.BaseModel `bun:"table:tool_reviews"`

	Organization string              `bun:"organization_id,pk"`
	Connector    string              `bun:"connector_id,pk"`
	Tool         string              `bun:"tool,pk"`
	Reviewed     version             `bun:"embed:reviewed_"` // NULL if not reviewed
	Current      version             `bun:"embed:current_"`  // NULL if not listed
	ReviewedBy   database.NullString `bun:"reviewed_by"`
	ReviewedAt   database.Timestamp  `bun:"reviewed_at"`
	SeenAt       database.Timestamp  `bun:"seen_at"`
}

// version is a definition with its hashes. Either all columns are NULL, or none is.
type version struct {
	Behaviour  *string             `bun:"behaviour"`
	Text       *string             `bun:"text"`
	Risk       database.NullString `bun:"risk"`
	Definition *string             `bun:"definition"` // also nil if the query omits it
}

func newVersion(t action.ToolVersion) version {
	definition := string(t.Definition)
	return version{&t.Behaviour, &t.Text, database.NullString(t.Risk), &definition}
}

// hashes returns nil if there is no such version.
func (v *version) hashes() *action.ToolHashes {
	if v.Behaviour == nil {
		return nil
	}
	return &action.ToolHashes{Behaviour: *v.Behaviour, Text: *v.Text}
}

// matches reports whether t has the same hashes and risk.
func (v *version) matches(t action.ToolVersion) bool {
	return v.hasHashes(t.ToolHashes) && v.Risk == database.NullString(t.Risk)
}

func (v *version) hasHashes(h action.ToolHashes) bool { return v.Behaviour != nil && *v.hashes() == h }

func (v *version) toolVersion() *action.ToolVersion {
	if v.Behaviour == nil {
		return nil
	}
	return &action.ToolVersion{ToolHashes: *v.hashes(), Risk: action.Risk(v.Risk), Definition: []byte(*v.Definition)}
}

func (r *reviewRow) state() action.ReviewState {
	switch {
	case r.Current.Behaviour == nil:
		return action.ToolRemoved
	case r.Reviewed.Behaviour == nil:
		return action.ToolNew
	case !r.Reviewed.hasHashes(*r.Current.hashes()):
		return action.ToolChanged
	}
	return action.ToolReviewed
}

func (r *reviewRow) review() action.ToolReview {
	return action.ToolReview{
		Organization: r.Organization, Connector: r.Connector, Tool: r.Tool, State: r.state(),
		Reviewed: r.Reviewed.toolVersion(), Current: r.Current.toolVersion(),
		ReviewedBy: string(r.ReviewedBy), ReviewedAt: r.ReviewedAt.Ptr(), SeenAt: r.SeenAt.Time,
	}
}

// reviewSnapshot is the state of a tool in history, with hashes instead of definitions.
type reviewSnapshot struct {
	State    action.ReviewState `json:"state"`
	Reviewed *action.ToolHashes `json:"reviewed,omitempty"`
	Current  *action.ToolHashes `json:"current,omitempty"`
}

func (r *reviewRow) snapshot() reviewSnapshot {
	return reviewSnapshot{State: r.state(), Reviewed: r.Reviewed.hashes(), Current: r.Current.hashes()}
}

// reviewEvent returns an event about a tool of a connector, or about several if tool is
// empty.
func reviewEvent(organization, connector, tool, by string) action.PolicyEvent {
	subject := (&action.Connector{ID: connector}).Source()
	if tool != "" {
		subject += ":" + tool
	}
	return action.PolicyEvent{Organization: organization, Kind: action.EventReview, Subject: subject, By: by}
}

// ListReviews returns the reviews of a connector's tools, by name; ErrNotFound without
// the connector.
func (st *Store) ListReviews(ctx context.Context, organization, connector string) ([]action.ToolReview, error) {
	if _, err := ReadConnector(ctx, st.db.Read, organization, connector); err != nil {
		return nil, err
	}
	return listReviews(ctx, st.db.Read, organization, connector)
}

func listReviews(ctx context.Context, db bun.IDB, organization, connector string) ([]action.ToolReview, error) {
	return database.ListAs(ctx, ReviewsQuery(db, organization, connector), (*reviewRow).review)
}

// ReviewsQuery selects the tools of a connector, by name.
func ReviewsQuery(db bun.IDB, organization, connector string) *bun.SelectQuery {
	return db.NewSelect().Model((*reviewRow)(nil)).
		Where("organization_id = ?", organization).Where("connector_id = ?", connector).Order("tool")
}

// toolRows reads the tools of a connector without their definitions, keyed by name.
func toolRows(ctx context.Context, db bun.IDB, organization, connector string) (map[string]*reviewRow, error) {
	var rows []reviewRow
	err := ReviewsQuery(db, organization, connector).ExcludeColumn("reviewed_definition", "current_definition").Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("reading the tools of connector %s: %w", connector, err)
	}
	byName := make(map[string]*reviewRow, len(rows))
	for i := range rows {
		byName[rows[i].Tool] = &rows[i]
	}
	return byName, nil
}

// Reviewed returns the reviewed hashes of all tools of an organization, and their risks
// where they are known.
func Reviewed(ctx context.Context, db bun.IDB, organization string) (map[action.Key]action.ToolHashes, map[action.Key]action.Risk, error) {
	var rows []reviewRow
	if err := ReviewedToolsQuery(db, organization).Scan(ctx, &rows); err != nil {
		return nil, nil, fmt.Errorf("reading reviews: %w", err)
	}
	hashes, risks := make(map[action.Key]action.ToolHashes, len(rows)), make(map[action.Key]action.Risk, len(rows))
	for i := range rows {
		key := action.Key{Source: (&action.Connector{ID: rows[i].Connector}).Source(), Action: rows[i].Tool}
		hashes[key] = *rows[i].Reviewed.hashes()
		if risk := rows[i].Reviewed.Risk; risk != "" {
			risks[key] = action.Risk(risk)
		}
	}
	return hashes, risks, nil
}

// ReviewedToolsQuery is the query of [Reviewed].
func ReviewedToolsQuery(db bun.IDB, organization string) *bun.SelectQuery {
	return db.NewSelect().Model((*reviewRow)(nil)).Column("connector_id", "tool", "reviewed_behaviour", "reviewed_text", "reviewed_risk").
		Where("organization_id = ?", organization).Where("reviewed_behaviour IS NOT NULL")
}

// ReviewTools marks tools of a connector as reviewed, and returns all tools afterwards.
// seen has the hashes that the reviewer saw, by name; empty hashes for a tool that is
// no longer listed, which is then deleted. Nil reviews all tools as they are now.
//
// Errors, which review nothing: ErrNotFound; ErrConflict with code "tool_changed" if a
// tool has changed since.
func (st *Store) ReviewTools(ctx context.Context, organization, connector string, seen map[string]action.ToolHashes, by string) ([]action.ToolReview, error) {
	return st.OnboardTools(ctx, organization, connector, seen, nil, by)
}

// OnboardTools is [Store.ReviewTools], and sets the modes of actions of the connector in
// the organization, by name, in the same transaction.
func (st *Store) OnboardTools(ctx context.Context, organization, connector string, seen map[string]action.ToolHashes, modes map[string]action.Mode, by string) (list []action.ToolReview, err error) {
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := ReadConnector(ctx, tx, organization, connector); err != nil {
			return err
		}
		rows, err := toolRows(ctx, tx, organization, connector)
		if err != nil {
			return err
		}
		if rows, err = unreviewedTools(rows, seen); err != nil {
			return err
		}
		if err := st.writeReviews(ctx, tx, organization, connector, rows, by); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(modes)) {
			o := action.Override{Organization: organization, Key: action.Key{Source: "connector:" + connector, Action: name}, Mode: modes[name], UpdatedBy: by}
			if err := o.Check(); err != nil {
				return err
			}
			if err := st.policy.PutOverride(ctx, tx, &o); err != nil {
				return err
			}
		}
		list, err = listReviews(ctx, tx, organization, connector)
		return err
	})
	return list, err
}

// unreviewedTools returns the rows that a person saw and that no person has reviewed
// yet.
func unreviewedTools(rows map[string]*reviewRow, seen map[string]action.ToolHashes) (map[string]*reviewRow, error) {
	unreviewed := map[string]*reviewRow{}
	for tool, row := range rows {
		if _, ok := seen[tool]; (ok || seen == nil) && (row.state() != action.ToolReviewed || row.ReviewedBy == firstListReviewer) {
			unreviewed[tool] = row
		}
	}
	for _, tool := range slices.Sorted(maps.Keys(seen)) {
		row, ok := rows[tool]
		if !ok {
			return nil, action.Errorf(action.ErrNotFound, "tool_not_found", "The connector has no tool %q. List its tools again.", tool)
		}
		if !row.Current.hasHashes(seen[tool]) && (row.Current.Behaviour != nil || seen[tool] != action.ToolHashes{}) {
			e := action.Errorf(action.ErrConflict, "tool_changed", "The tool %q changed since you listed it. List it again before you review it.", tool)
			e.Field = "/tools"
			return nil, e
		}
	}
	return unreviewed, nil
}

// writeReviews stores and records the reviews.
func (st *Store) writeReviews(ctx context.Context, tx bun.Tx, organization, connector string, rows map[string]*reviewRow, by string) error {
	var listed, removed []string
	for _, tool := range slices.Sorted(maps.Keys(rows)) {
		before := rows[tool].snapshot()
		var after any
		if before.Current == nil {
			removed = append(removed, tool)
		} else {
			listed = append(listed, tool)
			after = reviewSnapshot{action.ToolReviewed, before.Current, before.Current}
		}
		if err := st.history.RecordChange(ctx, tx, reviewEvent(organization, connector, tool, by), before, after); err != nil {
			return err
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if err := deleteTools(ctx, tx, organization, connector, removed); err != nil {
		return err
	}
	if len(listed) > 0 {
		_, err := tx.NewUpdate().Model((*reviewRow)(nil)).
			Set("reviewed_behaviour = current_behaviour, reviewed_text = current_text, reviewed_risk = current_risk, reviewed_definition = current_definition").
			Set("reviewed_by = ?, reviewed_at = ?", by, database.NewTimestamp(st.db.Now())).
			Where("organization_id = ?", organization).Where("connector_id = ?", connector).Where("tool IN (?)", bun.List(listed)).Exec(ctx)
		if err != nil {
			return fmt.Errorf("reviewing tools of connector %s: %w", connector, err)
		}
	}
	_, err := history.BumpPolicyVersion(ctx, tx, organization)
	return err
}

func deleteTools(ctx context.Context, tx bun.Tx, organization, connector string, tools []string) error {
	if len(tools) == 0 {
		return nil
	}
	_, err := tx.NewDelete().Model((*reviewRow)(nil)).
		Where("organization_id = ?", organization).Where("connector_id = ?", connector).Where("tool IN (?)", bun.List(tools)).Exec(ctx)
	if err != nil {
		return fmt.Errorf("deleting tools of connector %s: %w", connector, err)
	}
	return nil
}

// ResetReviews removes the reviews of a connector's tools: those of one reviewer, or all
// (empty), and then also the list of tools, since the connector leads to another
// server. The caller increments the policy version.
func (st *Store) ResetReviews(ctx context.Context, tx bun.Tx, c *ConnectorRow, reviewer, by string) error {
	rows, err := toolRows(ctx, tx, c.Organization, c.ID)
	if err != nil {
		return err
	}
	before := map[string]action.ToolHashes{}
	var deleted []string
	for tool, r := range rows {
		reset := r.Reviewed.hashes() != nil && (reviewer == "" || string(r.ReviewedBy) == reviewer)
		if reset {
			before[tool] = *r.Reviewed.hashes()
		}
		if reviewer == "" || reset && r.Current.Behaviour == nil {
			deleted = append(deleted, tool)
		}
	}
	if err := deleteTools(ctx, tx, c.Organization, c.ID, deleted); err != nil || len(before) == 0 {
		return err
	}
	if reviewer != "" {
		_, err := tx.NewUpdate().Model((*reviewRow)(nil)).
			Set("reviewed_behaviour = NULL, reviewed_text = NULL, reviewed_risk = NULL, reviewed_definition = NULL, reviewed_by = NULL, reviewed_at = NULL").
			Where("organization_id = ?", c.Organization).Where("connector_id = ?", c.ID).Where("reviewed_by = ?", reviewer).Exec(ctx)
		if err != nil {
			return fmt.Errorf("resetting the reviews of connector %s: %w", c.ID, err)
		}
	}
	return st.history.RecordChange(ctx, tx, reviewEvent(c.Organization, c.ID, "", by), before, nil)
}

// observation is the difference between a list of tools and the rows.
type observation struct {
	connector ConnectorRow
	first     bool        // the list is trusted as reviewed
	profile   bool        // the profile of the connector is to be applied
	listed    []reviewRow // new, changed or listed again
	removed   []string    // no longer listed, but reviewed
	dropped   []string    // no longer listed and never reviewed: deleted
}

func (o *observation) empty() bool {
	return !o.first && !o.profile && len(o.listed)+len(o.removed)+len(o.dropped) == 0
}

// ObserveTools stores the complete list of tools of a connector at a revision, and
// reports whether it differs from the stored one. The first list counts as reviewed
// and increments the policy version, unless a person must review. The profile of the
// connector is applied to its first list. A later list changes no review and no mode.
// A list of another revision is ignored.
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
		err = o.write(ctx, tx, organization, connector, database.NewTimestamp(st.db.Now()))
		if err == nil && o.first {
			err = st.recordFirstList(ctx, tx, organization, connector, tools)
		}
		if err == nil && o.profile {
			err = st.applyProfile(ctx, tx, &o.connector, tools)
		}
		return err
	})
	return changed, err
}

// compareTools compares a list with the rows.
func (st *Store) compareTools(ctx context.Context, from bun.IDB, organization, connector string, revision int64, tools map[string]action.ToolVersion) (*observation, error) {
	c, err := ReadConnector(ctx, from, organization, connector)
	if err != nil {
		return nil, err
	}
	o := &observation{connector: c}
	if c.Revision != revision {
		return o, nil
	}
	rows, err := toolRows(ctx, from, organization, connector)
	if err != nil {
		return nil, err
	}
	// An empty list is not the first one: a later one would be trusted.
	o.first, o.profile = c.TrustedAt == nil && len(tools) > 0, c.ProfileBy != "" && len(tools) > 0
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
