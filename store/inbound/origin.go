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

// origin is the table of what events belong to.
type originTable string

const (
	TriggersTable  originTable = "triggers"
	schedulesTable originTable = "schedules"
)

// originRow is a trigger or schedule that may start something.
type originRow struct {
	ID           string             `bun:"id"`
	Organization string             `bun:"organization_id"`
	Enabled      bool               `bun:"enabled"`       // its automation
	LastEventAt  database.Timestamp `bun:"last_event_at"` // of a trigger
}

type origins map[string]originRow

// readOrigins reads those of the matches that are enabled. No automation is
// deleted before the transaction ends: its runs would outlive it.
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

// of returns what the match is of, if it is there.
func (live origins) lookup(m *event.Match) (originRow, bool) {
	o, ok := live[m.Record.Trigger]
	return o, ok && o.Organization == m.Record.Organization
}

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

// lastEventInterval is how often a trigger notes that something matched: one that
// matches all the time must not have everybody wait for its row.
const lastEventInterval = time.Minute

// note writes down when an event last matched.
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

// updateLastEventAt passes by those that somebody else is about to write.
func updateLastEventAt(db bun.IDB, ids []string, now database.Timestamp) *bun.UpdateQuery {
	q := db.NewUpdate().Table("triggers").Set("last_event_at = ?", now)
	if !database.Shared(db) {
		return q.Where("id IN (?)", bun.List(ids))
	}
	unlocked := db.NewSelect().Table("triggers").Column("id").Where("id IN (?)", bun.List(ids)).For("NO KEY UPDATE SKIP LOCKED")
	return q.Where("id = ANY (ARRAY(?))", unlocked)
}
