package inbound

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"sallyport/ingest/event"
	"sallyport/store/database"
)

// originTable is the table of triggers or of schedules, which own events.
type originTable string

const (
	TriggersTable  originTable = "triggers"
	schedulesTable originTable = "schedules"
)

// originRow is an enabled trigger or schedule.
type originRow struct {
	ID           string             `bun:"id"`
	Organization string             `bun:"organization_id"`
	Enabled      bool               `bun:"enabled"`       // whether its automation is enabled
	LastEventAt  database.Timestamp `bun:"last_event_at"` // only of triggers
}

// origins are triggers or schedules by ID.
type origins map[string]originRow

// readOrigins reads the enabled triggers or schedules of the matches. It locks
// their automations, so that none is deleted before the transaction inserts
// runs.
func readOrigins(ctx context.Context, tx bun.IDB, table originTable, list []event.Match) (origins, error) {
	ids := make([]string, 0, len(list))
	for i := range list {
		ids = append(ids, list[i].Record.Trigger)
	}
	slices.Sort(ids)
	enabled := origins{}
	for batch := range slices.Chunk(slices.Compact(ids), database.MaxIDsPerStatement) {
		var rows []originRow
		if err := SelectOrigins(tx, table, batch).Scan(ctx, &rows); err != nil {
			return nil, fmt.Errorf("reading %s: %w", table, err)
		}
		for _, r := range rows {
			enabled[r.ID] = r
		}
	}
	return enabled, nil
}

// lookup returns the trigger or schedule of the match.
func (live origins) lookup(m *event.Match) (originRow, bool) {
	o, ok := live[m.Record.Trigger]
	return o, ok && o.Organization == m.Record.Organization
}

// SelectOrigins selects the enabled triggers or schedules and locks their
// automations.
func SelectOrigins(db bun.IDB, table originTable, ids []string) *bun.SelectQuery {
	q := db.NewSelect().TableExpr("? AS o", bun.Ident(table)).ColumnExpr("o.id, o.organization_id, a.enabled").
		Join("JOIN automations AS a ON a.organization_id = o.organization_id AND a.id = o.automation_id").
		Where("o.id IN (?)", bun.List(ids)).Where("o.enabled")
	if table == TriggersTable {
		q = q.Column("o.last_event_at")
	}
	if database.Shared(db) {
		q = q.OrderExpr("a.organization_id, a.id").For("KEY SHARE OF a")
	}
	return q
}

// lastEventInterval limits how often a trigger's last_event_at is written, so
// that transactions do not contend for the row of a busy trigger.
const lastEventInterval = time.Minute

// updateLastEvent records when an event last matched each trigger.
func (live origins) updateLastEvent(ctx context.Context, tx bun.IDB, list []event.Match, now database.Timestamp) error {
	var ids []string
	for i := range list {
		o, ok := live.lookup(&list[i])
		if ok && list[i].Record.Skip == "" && now.Time.Sub(o.LastEventAt.Time) >= lastEventInterval {
			ids = append(ids, o.ID)
		}
	}
	slices.Sort(ids)
	for batch := range slices.Chunk(slices.Compact(ids), database.MaxIDsPerStatement) {
		if _, err := updateLastEventAt(tx, batch, now).Exec(ctx); err != nil {
			return fmt.Errorf("noting events of triggers: %w", err)
		}
	}
	return nil
}

// updateLastEventAt skips rows that another transaction has locked.
func updateLastEventAt(db bun.IDB, ids []string, now database.Timestamp) *bun.UpdateQuery {
	q := db.NewUpdate().Table("triggers").Set("last_event_at = ?", now)
	if !database.Shared(db) {
		return q.Where("id IN (?)", bun.List(ids))
	}
	unlocked := db.NewSelect().Table("triggers").Column("id").Where("id IN (?)", bun.List(ids)).For("NO KEY UPDATE SKIP LOCKED")
	return q.Where("id = ANY (ARRAY(?))", unlocked)
}
