package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// firstList is the reviewer of tools that were trusted unseen.
const firstList = "first list"

// reviewRow is a tool of a connector. It is there while the tool is listed, or
// was reviewed.
type reviewRow struct {
	bun.BaseModel `bun:"table:tool_reviews"`

	Organization string  `bun:"organization_id,pk"`
	Connector    string  `bun:"connector_id,pk"`
	Tool         string  `bun:"tool,pk"`
	Reviewed     version `bun:"embed:reviewed_"` // NULL: it is not
	Current      version `bun:"embed:current_"`  // NULL: it is not listed
	ReviewedBy   opt     `bun:"reviewed_by"`
	ReviewedAt   stamp   `bun:"reviewed_at"`
	SeenAt       stamp   `bun:"seen_at"`
}

// version is a definition with its hashes; all NULL, or none.
type version struct {
	Behaviour  *string `bun:"behaviour"`
	Text       *string `bun:"text"`
	Risk       opt     `bun:"risk"`
	Definition *string `bun:"definition"` // nil, too, when it was not asked for
}

func newVersion(t action.ToolVersion) version {
	definition := string(t.Definition)
	return version{&t.Behaviour, &t.Text, opt(t.Risk), &definition}
}

// hashes are nil when there is no such version.
func (v *version) hashes() *action.ToolHashes {
	if v.Behaviour == nil {
		return nil
	}
	return &action.ToolHashes{Behaviour: *v.Behaviour, Text: *v.Text}
}

// lists reports whether a connector that lists t lists nothing new.
func (v *version) lists(t action.ToolVersion) bool {
	return v.is(t.ToolHashes) && v.Risk == opt(t.Risk)
}

func (v *version) is(h action.ToolHashes) bool { return v.Behaviour != nil && *v.hashes() == h }

func (v *version) tool() *action.ToolVersion {
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
	case !r.Reviewed.is(*r.Current.hashes()):
		return action.ToolChanged
	}
	return action.ToolReviewed
}

func (r *reviewRow) review() action.ToolReview {
	return action.ToolReview{
		Organization: r.Organization, Connector: r.Connector, Tool: r.Tool, State: r.state(),
		Reviewed: r.Reviewed.tool(), Current: r.Current.tool(),
		ReviewedBy: string(r.ReviewedBy), ReviewedAt: r.ReviewedAt.ptr(), SeenAt: r.SeenAt.t,
	}
}

// standing is what an event tells of a tool: hashes, and not whole definitions.
type standing struct {
	State    action.ReviewState `json:"state"`
	Reviewed *action.ToolHashes `json:"reviewed,omitempty"`
	Current  *action.ToolHashes `json:"current,omitempty"`
}

func (r *reviewRow) standing() standing {
	return standing{State: r.state(), Reviewed: r.Reviewed.hashes(), Current: r.Current.hashes()}
}

// reviewEvent is of one tool of a connector, or of several when none is named.
func reviewEvent(organization, connector, tool, by string) action.PolicyEvent {
	subject := (&action.Connector{ID: connector}).Source()
	if tool != "" {
		subject += ":" + tool
	}
	return action.PolicyEvent{Organization: organization, Kind: action.EventReview, Subject: subject, By: by}
}

// ListReviews returns what is known of a connector's tools, by name;
// ErrNotFound when there is no such connector.
func (db *DB) ListReviews(ctx context.Context, organization, connector string) ([]action.ToolReview, error) {
	if _, err := connectorOf(ctx, db.read, organization, connector); err != nil {
		return nil, err
	}
	return listReviews(ctx, db.read, organization, connector)
}

func listReviews(ctx context.Context, db bun.IDB, organization, connector string) ([]action.ToolReview, error) {
	var rows []reviewRow
	if err := reviews(db, organization, connector).Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("listing the tools of connector %s: %w", connector, err)
	}
	list := make([]action.ToolReview, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].review())
	}
	return list, nil
}

func reviews(db bun.IDB, organization, connector string) *bun.SelectQuery {
	return db.NewSelect().Model((*reviewRow)(nil)).
		Where("organization_id = ?", organization).Where("connector_id = ?", connector).Order("tool")
}

// toolRows reads a connector's tools without their definitions, by name.
func toolRows(ctx context.Context, db bun.IDB, organization, connector string) (map[string]*reviewRow, error) {
	var rows []reviewRow
	err := reviews(db, organization, connector).ExcludeColumn("reviewed_definition", "current_definition").Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("reading the tools of connector %s: %w", connector, err)
	}
	byName := make(map[string]*reviewRow, len(rows))
	for i := range rows {
		byName[rows[i].Tool] = &rows[i]
	}
	return byName, nil
}

// reviewed reads what was reviewed of all tools, by source and name: hashes,
// and the risks where they are known.
func reviewed(ctx context.Context, db bun.IDB, organization string) (map[action.Key]action.ToolHashes, map[action.Key]action.Risk, error) {
	var rows []reviewRow
	if err := reviewedTools(db, organization).Scan(ctx, &rows); err != nil {
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

func reviewedTools(db bun.IDB, organization string) *bun.SelectQuery {
	return db.NewSelect().Model((*reviewRow)(nil)).Column("connector_id", "tool", "reviewed_behaviour", "reviewed_text", "reviewed_risk").
		Where("organization_id = ?", organization).Where("reviewed_behaviour IS NOT NULL")
}
