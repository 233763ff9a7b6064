package inbound

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store/database"
)

// writeMatches inserts events in a transaction, each with a run and its
// delivery unless it is skipped, and returns the runs. A trigger has one event
// per key: the existing event stays, unless its run could not be created or it
// was not verified. All transactions insert events in the same order, to avoid
// deadlocks on PostgreSQL.
func (st *Store) writeMatches(ctx context.Context, tx bun.IDB, table originTable, list []event.Match) ([]event.Run, error) {
	if len(list) == 0 {
		return nil, nil
	}
	now := database.NewTimestamp(st.db.Now())
	enabled, err := readOrigins(ctx, tx, table, list)
	if err != nil {
		return nil, err
	}
	accepted := enabled.filter(list)
	runs, err := storeEvents(ctx, tx, accepted, now)
	if err != nil {
		return nil, err
	}
	if table == TriggersTable {
		err = enabled.updateLastEvent(ctx, tx, list, now)
	}
	return runs, err
}

// filter drops matches without an enabled trigger and duplicate keys, marks
// those of a disabled automation as skipped and returns the rest in order.
func (live origins) filter(list []event.Match) (accepted []event.Match) {
	for _, m := range list {
		o, ok := live.lookup(&m)
		if !ok {
			continue
		}
		if m.Record.Skip == "" && !o.Enabled {
			m.Record.Skip = event.SkipDisabled
		}
		if m.Record.Skip != "" {
			m.Run, m.Sealed = "", nil
		}
		accepted = append(accepted, m)
	}
	slices.SortStableFunc(accepted, func(a, b event.Match) int {
		return cmp.Or(compareKeys(a, b), cmp.Compare(replaceRank(&a), replaceRank(&b)))
	})
	return slices.CompactFunc(accepted, func(a, b event.Match) bool { return compareKeys(a, b) == 0 })
}

// replaceRank is 1 for a match that another match with its key replaces.
func replaceRank(m *event.Match) int {
	if m.Record.Skip == event.SkipRunFailed || m.Record.Skip == event.SkipUnverified {
		return 1
	}
	return 0
}

func compareKeys(a, b event.Match) int {
	return cmp.Or(cmp.Compare(a.Record.Trigger, b.Record.Trigger), cmp.Compare(a.Record.Key, b.Record.Key))
}

// storeEvents inserts the events that are new and their runs, and returns the
// runs.
func storeEvents(ctx context.Context, tx bun.IDB, list []event.Match, now database.Timestamp) (all []event.Run, err error) {
	for batch := range slices.Chunk(list, database.MaxIDsPerStatement) {
		var inserted []string
		if database.Shared(tx) {
			inserted, err = insertWithRuns(ctx, tx.(bun.Tx), batch, now)
		} else {
			inserted, err = insertEvents(ctx, tx, batch, now)
		}
		if err != nil {
			return nil, err
		}
		runs := newRuns(batch, inserted, now)
		if !database.Shared(tx) {
			err = insertRuns(ctx, tx, runs)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, runs...)
	}
	return all, nil
}

// insertEvents inserts the events that are new and returns their IDs. Values
// are bound parameters, so that sealed payloads, which are most of the data,
// are not converted to text.
func insertEvents(ctx context.Context, tx bun.IDB, list []event.Match, now database.Timestamp) (inserted []string, err error) {
	args := make([]any, 0, len(list)*17)
	for i := range list {
		r := newRecordRow(&list[i], now)
		r.Title = database.SanitizeText(r.Title)
		for _, text := range []*database.NullString{&r.Native, &r.URL, &r.Error, &r.Shown} {
			*text = database.NullString(database.SanitizeText(string(*text)))
		}
		args = append(args, r.ID, r.Organization, r.Trigger, r.Automation, r.Receipt, r.Provider, r.Type, r.Native, r.Key,
			r.OccurredAt, r.Title, r.URL, r.Skip, r.Error, r.CreatedAt, r.Shown, r.Sealed)
	}
	placeholders := "(" + strings.Repeat("?, ", 16) + "?)"
	rows, err := tx.(bun.Tx).Tx.QueryContext(ctx, insertEventsSQL+strings.Repeat(placeholders+", ", len(list)-1)+placeholders+onConflictSQL, args...)
	if err != nil {
		return nil, fmt.Errorf("writing events: %w", err)
	}
	return scanIDs(rows)
}

// scanIDs reads the IDs that a statement returned.
func scanIDs(rows *sql.Rows) (ids []string, err error) {
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

// newRuns returns the runs of the inserted events.
func newRuns(list []event.Match, inserted []string, now database.Timestamp) (runs []event.Run) {
	slices.Sort(inserted)
	for i := range list {
		if _, ok := slices.BinarySearch(inserted, list[i].Record.ID); ok && list[i].Run != "" {
			m := &list[i].Record
			runs = append(runs, event.Run{
				ID: list[i].Run, Organization: m.Organization, Automation: m.Automation, Event: m.ID, Trigger: m.Trigger,
				Status: event.RunQueued, CreatedAt: now.Time, Title: m.Title,
			})
		}
	}
	return runs
}

// insertRuns inserts runs, each with its delivery.
func insertRuns(ctx context.Context, tx bun.IDB, runs []event.Run) error {
	for batch := range slices.Chunk(runs, database.MaxIDsPerStatement) {
		rows, deliveries := make([]RunRow, 0, len(batch)), make([]RunDeliveryRow, 0, len(batch))
		for i := range batch {
			id, err := database.NewID()
			if err != nil {
				return err
			}
			r := &batch[i]
			rows = append(rows, RunRow{
				ID: r.ID, Organization: r.Organization, Automation: r.Automation, Event: r.Event, Trigger: r.Trigger, Status: string(r.Status),
				CreatedAt: database.NewTimestamp(r.CreatedAt),
			})
			deliveries = append(deliveries, newRunDeliveryRow(id, r.Organization, r.ID, r.CreatedAt))
		}
		if _, err := tx.NewInsert().Model(&rows).Exec(ctx); err != nil {
			return fmt.Errorf("writing runs: %w", err)
		}
		if _, err := tx.NewInsert().Model(&deliveries).Exec(ctx); err != nil {
			return fmt.Errorf("writing the deliveries of runs: %w", err)
		}
	}
	return nil
}

const eventColumns = `id, organization_id, trigger_id, automation_id, inbox_id, provider, type, native, dedup_key,
  occurred_at, title, url, skip_reason, error, created_at, shown, sealed`

// insertWithRunsSQL inserts events with their runs and deliveries on
// PostgreSQL, and returns the IDs of the new events. It combines
// insertEventsSQL and insertRuns in one statement with an array for each
// column, so that sealed payloads, which are most of the data, are neither
// written as text nor parsed.
//
// Measured with BenchmarkSettle, fsync on, on two busy cores, medians of three
// rounds: 1,800 deliveries a second with one worker and 2,840 with four; 1,370
// and 1,780 with three statements of text.
const insertWithRunsSQL = `WITH v AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
  $10::timestamptz[], $11::text[], $12::text[], $13::text[], $14::text[], $15::timestamptz[], $16::text[], $17::bytea[], $18::text[], $19::text[]) AS v (
  ` + eventColumns + `, run_id, parcel_id)),
e AS (INSERT INTO events AS e (` + eventColumns + `)
  SELECT ` + eventColumns + ` FROM v
  ON CONFLICT (trigger_id, dedup_key) DO UPDATE SET ` + replaceSQL + `
  WHERE ` + replaceableSQL + ` RETURNING id),
n AS (SELECT v.* FROM v JOIN e ON e.id = v.id WHERE v.run_id IS NOT NULL),
r AS (INSERT INTO runs (id, organization_id, automation_id, event_id, trigger_id, status, attempt, created_at)
  SELECT run_id, organization_id, automation_id, id, trigger_id, 'queued', 0, $20 FROM n),
o AS (INSERT INTO outbox (id, organization_id, run_id, status, attempt, next_at, created_at)
  SELECT parcel_id, organization_id, run_id, 'pending', 0, $20, $20 FROM n)
SELECT id FROM e`

// columnArrays are the parameters of insertWithRunsSQL.
type columnArrays struct {
	texts  [16][]*string
	times  [2][]*time.Time
	sealed [][]byte
}

func (c *columnArrays) add(m *event.Match, delivery string, now database.Timestamp) {
	r := newRecordRow(m, now)
	for i, text := range []string{
		r.ID, r.Organization, r.Trigger, r.Automation, string(r.Receipt), r.Provider, r.Type, string(r.Native), r.Key,
		r.Title, string(r.URL), string(r.Skip), string(r.Error), string(r.Shown), m.Run, delivery,
	} {
		c.texts[i] = append(c.texts[i], nullableText(text, i == titleIndex))
	}
	c.times[0], c.times[1] = append(c.times[0], r.OccurredAt.Ptr()), append(c.times[1], r.CreatedAt.Ptr())
	c.sealed = append(c.sealed, r.Sealed)
}

// titleIndex is the only text column that is NOT NULL and may be empty.
const titleIndex = 9

// nullableText returns text that PostgreSQL can store; nil for NULL.
func nullableText(text string, allowEmpty bool) *string {
	if text == "" && !allowEmpty {
		return nil
	}
	text = database.SanitizeText(text)
	return &text
}

// insertWithRuns inserts events with their runs and deliveries, and returns the
// IDs of the new events. The query mode asks the server for the column types
// first and leaves no prepared statement behind.
func insertWithRuns(ctx context.Context, tx bun.Tx, list []event.Match, now database.Timestamp) (inserted []string, err error) {
	var c columnArrays
	for i := range list {
		id, err := database.NewID()
		if err != nil {
			return nil, err
		}
		c.add(&list[i], id, now)
	}
	t := &c.texts
	rows, err := tx.Tx.QueryContext(ctx, insertWithRunsSQL, pgx.QueryExecModeDescribeExec,
		t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], c.times[0], t[9], t[10], t[11], t[12], c.times[1], t[13], c.sealed, t[14], t[15], now.Time)
	if err != nil {
		return nil, fmt.Errorf("writing events: %w", err)
	}
	return scanIDs(rows)
}

// recordRow is an event of a trigger or schedule.
type recordRow struct {
	bun.BaseModel `bun:"table:events,alias:e"`

	ID           string              `bun:"id,pk"`
	Organization string              `bun:"organization_id"`
	Trigger      string              `bun:"trigger_id"`
	Automation   string              `bun:"automation_id"`
	Receipt      database.NullString `bun:"inbox_id"`
	Provider     string              `bun:"provider"`
	Type         string              `bun:"type"`
	Native       database.NullString `bun:"native"`
	Key          string              `bun:"dedup_key"`
	OccurredAt   database.Timestamp  `bun:"occurred_at"`
	Title        string              `bun:"title"`
	URL          database.NullString `bun:"url"`
	Skip         database.NullString `bun:"skip_reason"`
	Error        database.NullString `bun:"error"`
	CreatedAt    database.Timestamp  `bun:"created_at"`
	Shown        database.NullString `bun:"shown"`
	Sealed       []byte              `bun:"sealed"`

	Run       database.NullString `bun:"run_id,scanonly"`
	RunStatus database.NullString `bun:"run_status,scanonly"`

	Session     database.NullString `bun:"session_id,scanonly"`
	CompletedAt database.Timestamp  `bun:"completed_at,scanonly"`
}

func newRecordRow(m *event.Match, now database.Timestamp) recordRow {
	r := &m.Record
	return recordRow{
		ID: r.ID, Organization: r.Organization, Trigger: r.Trigger, Automation: r.Automation, Receipt: database.NullString(r.Receipt), Provider: r.Provider,
		Type: r.Type, Native: database.NullString(r.Native), Key: r.Key, OccurredAt: database.TimestampFromPtr(r.OccurredAt), Title: r.Title, URL: database.NullString(r.URL), Skip: database.NullString(r.Skip),
		Error: database.NullString(r.Error), CreatedAt: database.NewTimestamp(r.CreatedAt).Or(now), Shown: database.NullString(r.Redacted), Sealed: m.Sealed,
	}
}

func (r *recordRow) record() event.Record {
	ended := r.CompletedAt // of the run
	if r.Skip != "" && r.Run == "" {
		ended = r.CreatedAt
	}
	return event.Record{
		ID: r.ID, Organization: r.Organization, Trigger: r.Trigger, Automation: r.Automation, Receipt: string(r.Receipt), Provider: r.Provider,
		Type: r.Type, Native: string(r.Native), Key: r.Key, OccurredAt: r.OccurredAt.Ptr(), Title: r.Title, URL: string(r.URL),
		Skip: event.SkipReason(r.Skip), Error: string(r.Error), CreatedAt: r.CreatedAt.Time, Run: string(r.Run), RunStatus: event.RunStatus(r.RunStatus),
		Session: string(r.Session), EndedAt: ended.Ptr(), Redacted: r.Shown.Bytes(),
	}
}

// insertEventsSQL and onConflictSQL enclose the VALUES list. They insert the
// events whose trigger has no event with the key, and replace those that
// replaceableSQL selects, and return the IDs.
const (
	insertEventsSQL = "INSERT INTO events AS e (" + eventColumns + ") VALUES "
	onConflictSQL   = " ON CONFLICT (trigger_id, dedup_key) DO UPDATE SET " + replaceSQL + " WHERE " + replaceableSQL + " RETURNING id"
)

// replaceableSQL selects events that a new event with their key replaces: those
// whose run could not be created, and unverified ones if the new one is
// verified.
const replaceableSQL = "e.skip_reason = 'run_create_failed' OR e.skip_reason = 'unverified' AND EXCLUDED.skip_reason IS NULL"

// replaceSQL replaces an event.
const replaceSQL = `id = EXCLUDED.id, organization_id = EXCLUDED.organization_id, automation_id = EXCLUDED.automation_id, inbox_id = EXCLUDED.inbox_id,
  provider = EXCLUDED.provider, type = EXCLUDED.type, native = EXCLUDED.native, occurred_at = EXCLUDED.occurred_at, title = EXCLUDED.title, url = EXCLUDED.url,
  skip_reason = EXCLUDED.skip_reason, error = EXCLUDED.error, created_at = EXCLUDED.created_at, shown = EXCLUDED.shown, sealed = EXCLUDED.sealed`

// SkipEvent skips the queued run of an event; ErrConflict for other runs. The
// event's context keeps its retention.
func (st *Store) SkipEvent(ctx context.Context, organization, id, by string) (r event.Record, err error) {
	now := st.db.Now()
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if r, err = readRecord(ctx, tx, organization, id); err != nil {
			return err
		}
		before := r.Status()
		if err := skipRun(ctx, tx, &r, now); err != nil {
			return err
		}
		_, err := tx.NewUpdate().Table("events").Set("skip_reason = ?", event.SkipManual).Where("id = ?", id).Exec(ctx)
		if err != nil {
			return fmt.Errorf("skipping event %s: %w", id, err)
		}
		r.Skip, r.RunStatus, r.EndedAt = event.SkipManual, event.RunSkipped, database.NewTimestamp(now).Ptr()
		e := action.PolicyEvent{Organization: organization, Kind: action.EventRun, Subject: r.Run, By: by}
		return st.history.RecordChange(ctx, tx, e, statusSnapshot{id, before}, statusSnapshot{id, r.Status()})
	})
	return r, err
}

// statusSnapshot is what history events hold of a manual change of an event.
type statusSnapshot struct {
	Event  string `json:"event_id"`
	Status string `json:"status"`
}

// skipRun skips a queued run and voids its delivery.
func skipRun(ctx context.Context, tx bun.Tx, r *event.Record, now time.Time) error {
	n, err := database.RowsAffected(tx.NewUpdate().Table("runs").Set("status = 'skipped', completed_at = ?", database.NewTimestamp(now)).
		Where("id = ?", r.Run).Where("status = 'queued'").Exec(ctx))
	switch {
	case err != nil:
		return fmt.Errorf("skipping run %s: %w", r.Run, err)
	case n == 0 && r.Skip != "":
		return action.NewError("already_skipped", r.Skip)
	case n == 0:
		return action.NewError("run_taken")
	}
	return endRunDelivery(ctx, tx, r.Run, event.DeliveryVoid, now)
}
