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
type origin string

const (
	OfTriggers  origin = "triggers"
	ofSchedules origin = "schedules"
)

// originRow is a trigger or schedule that may start something.
type originRow struct {
	ID           string             `bun:"id"`
	Organization string             `bun:"organization_id"`
	Enabled      bool               `bun:"enabled"`       // its automation
	LastEventAt  database.Timestamp `bun:"last_event_at"` // of a trigger
}

type origins map[string]originRow

// liveOrigins reads those of the matches that are enabled. No automation is
// deleted before the transaction ends: its runs would outlive it.
func liveOrigins(ctx context.Context, tx bun.IDB, from origin, list []event.Match) (origins, error) {
	ids := make([]string, 0, len(list))
	for i := range list {
		ids = append(ids, list[i].Record.Trigger)
	}
	slices.Sort(ids)
	live := origins{}
	for some := range slices.Chunk(slices.Compact(ids), database.MaxIDsPerStatement) {
		var rows []originRow
		if err := OriginsOf(tx, from, some).Scan(ctx, &rows); err != nil {
			return nil, fmt.Errorf("reading %s: %w", from, err)
		}
		for _, r := range rows {
			live[r.ID] = r
		}
	}
	return live, nil
}

// of returns what the match is of, if it is there.
func (live origins) of(m *event.Match) (originRow, bool) {
	o, ok := live[m.Record.Trigger]
	return o, ok && o.Organization == m.Record.Organization
}

func OriginsOf(db bun.IDB, from origin, ids []string) *bun.SelectQuery {
	q := db.NewSelect().TableExpr("? AS o", bun.Ident(from)).ColumnExpr("o.id, o.organization_id, a.enabled").
		Join("JOIN automations AS a ON a.organization_id = o.organization_id AND a.id = o.automation_id").
		Where("o.id IN (?)", bun.List(ids)).Where("o.enabled")
	if from == OfTriggers {
		q = q.Column("o.last_event_at")
	}
	if database.Shared(db) {
		q = q.OrderExpr("a.organization_id, a.id").For("KEY SHARE OF a")
	}
	return q
}

// noteEvery is how often a trigger notes that something matched: one that
// matches all the time must not have everybody wait for its row.
const noteEvery = time.Minute

// note writes down when an event last matched.
func (live origins) note(ctx context.Context, tx bun.IDB, list []event.Match, now database.Timestamp) error {
	var ids []string
	for i := range list {
		o, ok := live.of(&list[i])
		if ok && list[i].Record.Skip == "" && now.Time.Sub(o.LastEventAt.Time) >= noteEvery {
			ids = append(ids, o.ID)
		}
	}
	slices.Sort(ids)
	for some := range slices.Chunk(slices.Compact(ids), database.MaxIDsPerStatement) {
		if _, err := noteTriggers(tx, some, now).Exec(ctx); err != nil {
			return fmt.Errorf("noting events of triggers: %w", err)
		}
	}
	return nil
}

// noteTriggers passes by those that somebody else is about to write.
func noteTriggers(db bun.IDB, ids []string, now database.Timestamp) *bun.UpdateQuery {
	q := db.NewUpdate().Table("triggers").Set("last_event_at = ?", now)
	if !database.Shared(db) {
		return q.Where("id IN (?)", bun.List(ids))
	}
	free := db.NewSelect().Table("triggers").Column("id").Where("id IN (?)", bun.List(ids)).For("NO KEY UPDATE SKIP LOCKED")
	return q.Where("id = ANY (ARRAY(?))", free)
}
