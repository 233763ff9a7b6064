package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/ingest/event"
)

// writeMatches keeps events, in a transaction, each that is not skipped with a
// run and its parcel, and returns the runs. Of one key of one trigger there is
// one event: what is there already stays as it is, unless it is there because
// its run could not be made, or nobody verified it. Everybody writes events in one order: otherwise
// two on PostgreSQL could wait for each other.
func (db *DB) writeMatches(ctx context.Context, tx bun.IDB, from origin, list []event.Match) ([]event.Run, error) {
	if len(list) == 0 {
		return nil, nil
	}
	now := at(db.now())
	live, err := liveOrigins(ctx, tx, from, list)
	if err != nil {
		return nil, err
	}
	kept := live.judge(list)
	runs, err := keepEvents(ctx, tx, kept, now)
	if err != nil {
		return nil, err
	}
	if from == ofTriggers {
		err = live.note(ctx, tx, list, now)
	}
	return runs, err
}

// judge drops matches whose trigger is gone, and those of one key but for the
// first that counts, and skips those whose automation is disabled. It returns the others in
// order.
func (live origins) judge(list []event.Match) (kept []event.Match) {
	for _, m := range list {
		o, ok := live.of(&m)
		if !ok {
			continue
		}
		if m.Record.Skip == "" && !o.Enabled {
			m.Record.Skip = event.SkipDisabled
		}
		if m.Record.Skip != "" {
			m.Run, m.Sealed = "", nil
		}
		kept = append(kept, m)
	}
	slices.SortStableFunc(kept, func(a, b event.Match) int { return cmp.Or(compareKeys(a, b), cmp.Compare(givesWay(&a), givesWay(&b))) })
	return slices.CompactFunc(kept, func(a, b event.Match) bool { return compareKeys(a, b) == 0 })
}

// givesWay is 1 for a match that another of its key takes the place of.
func givesWay(m *event.Match) int {
	if m.Record.Skip == event.SkipRunFailed || m.Record.Skip == event.SkipUnverified {
		return 1
	}
	return 0
}

func compareKeys(a, b event.Match) int {
	return cmp.Or(cmp.Compare(a.Record.Trigger, b.Record.Trigger), cmp.Compare(a.Record.Key, b.Record.Key))
}

// keepEvents writes those that are new, with their runs, which it returns.
func keepEvents(ctx context.Context, tx bun.IDB, list []event.Match, now stamp) (all []event.Run, err error) {
	for some := range slices.Chunk(list, chunk) {
		var fresh []string
		if shared(tx) {
			fresh, err = keepAll(ctx, tx.(bun.Tx), some, now)
		} else {
			fresh, err = writeEvents(ctx, tx, some, now)
		}
		if err != nil {
			return nil, err
		}
		runs := started(some, fresh, now)
		if !shared(tx) {
			err = startRuns(ctx, tx, runs)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, runs...)
	}
	return all, nil
}

// writeEvents inserts those that are new, and returns which. Their values are
// bound: sealed payloads, which nearly all of it is, need not become text.
func writeEvents(ctx context.Context, tx bun.IDB, list []event.Match, now stamp) (fresh []string, err error) {
	args := make([]any, 0, len(list)*17)
	for i := range list {
		r := newRecordRow(&list[i], now)
		r.Title = storable(r.Title)
		for _, text := range []*opt{&r.Native, &r.URL, &r.Error, &r.Shown} {
			*text = opt(storable(string(*text)))
		}
		args = append(args, r.ID, r.Organization, r.Trigger, r.Automation, r.Receipt, r.Provider, r.Type, r.Native, r.Key,
			r.OccurredAt, r.Title, r.URL, r.Skip, r.Error, r.CreatedAt, r.Shown, r.Sealed)
	}
	rows, err := tx.(bun.Tx).Tx.QueryContext(ctx, insertEventsSQL+placeholders(len(list), 17)+keepFirstSQL, args...)
	if err != nil {
		return nil, fmt.Errorf("writing events: %w", err)
	}
	return idsOf(rows)
}

// idsOf reads what was written.
func idsOf(rows *sql.Rows) (ids []string, err error) {
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("writing events: %w", err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("writing events: %w", err)
	}
	return ids, nil
}

// placeholders are those of a list of rows.
func placeholders(rows, columns int) string {
	row := "(" + strings.Repeat("?, ", columns-1) + "?)"
	return strings.Repeat(row+", ", rows-1) + row
}

// started are the runs of those that are new.
func started(list []event.Match, fresh []string, now stamp) (runs []event.Run) {
	slices.Sort(fresh)
	for i := range list {
		if _, ok := slices.BinarySearch(fresh, list[i].Record.ID); ok && list[i].Run != "" {
			runs = append(runs, startedRun(&list[i], now))
		}
	}
	return runs
}

func startedRun(m *event.Match, now stamp) event.Run {
	return event.Run{
		ID: m.Run, Organization: m.Record.Organization, Automation: m.Record.Automation, Event: m.Record.ID, Trigger: m.Record.Trigger,
		Status: event.RunQueued, CreatedAt: now.t, Title: m.Record.Title,
	}
}

// startRuns writes new runs, each with its parcel.
func startRuns(ctx context.Context, tx bun.IDB, runs []event.Run) error {
	for some := range slices.Chunk(runs, chunk) {
		rows, parcels := make([]runRow, 0, len(some)), make([]parcelRow, 0, len(some))
		for i := range some {
			id, err := newID()
			if err != nil {
				return err
			}
			rows, parcels = append(rows, newRunRow(&some[i])), append(parcels, newParcelRow(&some[i], id))
		}
		if _, err := tx.NewInsert().Model(&rows).Exec(ctx); err != nil {
			return fmt.Errorf("writing runs: %w", err)
		}
		if _, err := tx.NewInsert().Model(&parcels).Exec(ctx); err != nil {
			return fmt.Errorf("writing the deliveries of runs: %w", err)
		}
	}
	return nil
}
