package store

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/ingest/event"
)

type pollGroupRow struct {
	bun.BaseModel `bun:"table:poll_groups,alias:g"`

	ID           string `bun:"id,pk"`
	Organization string `bun:"organization_id"`
	Provider     string `bun:"provider"`
	Integration  string `bun:"integration_id"`
	Cursor       opt    `bun:"cursor"`
	PollSeconds  int    `bun:"poll_seconds"`
	NextAt       stamp  `bun:"next_at"`
	LastAt       stamp  `bun:"last_at"`
	Failures     int    `bun:"failures"`
	LastError    opt    `bun:"last_error"`
	Lost         opt    `bun:"lost"`
	LostAt       stamp  `bun:"lost_at"`
	Turn         int64  `bun:"turn"`
	Holder       opt    `bun:"holder"`
	LeaseUntil   stamp  `bun:"lease_until"`
}

func (r *pollGroupRow) group() event.PollGroup {
	g := event.PollGroup{
		ID: r.ID, Organization: r.Organization, Provider: r.Provider, Integration: r.Integration, PollSeconds: r.PollSeconds, NextAt: r.NextAt.t,
		LastAt: r.LastAt.ptr(), Failures: r.Failures, LastError: string(r.LastError), Lost: string(r.Lost), LostAt: r.LostAt.ptr(), Turn: r.Turn,
	}
	if r.Cursor != "" {
		g.Cursor = []byte(r.Cursor)
	}
	return g
}

// PollGroups tells how an organization's polling goes, by provider.
func (db *DB) PollGroups(ctx context.Context, organization string) ([]event.PollGroup, error) {
	var rows []pollGroupRow
	err := db.read.NewSelect().Model(&rows).Where("organization_id = ?", organization).Order("provider", "integration_id").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing what is polled: %w", err)
	}
	list := make([]event.PollGroup, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].group())
	}
	return list, nil
}

// pollsMoved keeps the group of a trigger in step with all triggers of it: it is
// there while one of them is enabled, and as quick as the quickest. It belongs
// into the transaction of each change of a trigger, of which [DB.do] lets one at
// a time be.
func (db *DB) pollsMoved(ctx context.Context, tx bun.Tx, t *event.Trigger) error {
	if t.Kind != event.Polling {
		return nil
	}
	var seconds int
	if err := quickest(tx, t).Scan(ctx, &seconds); err != nil {
		return fmt.Errorf("reading the triggers that poll %s: %w", t.Integration, err)
	}
	if seconds == 0 {
		_, err := tx.NewDelete().Table("poll_groups").Where("organization_id = ?", t.Organization).Where("provider = ?", t.Provider).
			Where("integration_id = ?", t.Integration).Exec(ctx)
		if err != nil {
			return fmt.Errorf("ending to poll %s: %w", t.Integration, err)
		}
		return nil
	}
	return db.putPollGroup(ctx, tx, t, seconds)
}

// quickest finds the least time between two looks of the trigger's group; zero
// when nobody wants one.
func quickest(db bun.IDB, t *event.Trigger) *bun.SelectQuery {
	return db.NewSelect().Table("triggers").ColumnExpr("coalesce(min(poll_seconds), 0)").
		Where("organization_id = ?", t.Organization).Where("provider = ?", t.Provider).Where("enabled = ?", true).
		Where("kind = ?", string(event.Polling)).Where("integration_id = ?", t.Integration)
}

// putPollGroup makes the group, due at once, or changes how quick it is. When it
// is due stays, but that one which goes well need not wait for longer than what
// is wanted now.
func (db *DB) putPollGroup(ctx context.Context, tx bun.Tx, t *event.Trigger, seconds int) error {
	id, err := newID()
	if err != nil {
		return err
	}
	now := db.now()
	_, err = tx.NewInsert().Model(&pollGroupRow{
		ID: id, Organization: t.Organization, Provider: t.Provider, Integration: t.Integration, PollSeconds: seconds, NextAt: at(now),
	}).On("CONFLICT (organization_id, provider, integration_id) DO UPDATE").Set("poll_seconds = EXCLUDED.poll_seconds").
		Set("next_at = CASE WHEN g.failures = 0 AND g.next_at > ?0 AND g.poll_seconds > ?1 THEN ?0 ELSE g.next_at END",
			at(now.Add(time.Duration(seconds)*time.Second)), seconds).Exec(ctx)
	if err != nil {
		return fmt.Errorf("writing how often %s is polled: %w", t.Integration, err)
	}
	return nil
}
