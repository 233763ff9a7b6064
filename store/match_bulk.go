package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"

	"sallyport/ingest/event"
)

const eventColumns = `id, organization_id, trigger_id, automation_id, inbox_id, provider, type, native, dedup_key,
  occurred_at, title, url, skip_reason, error, created_at, shown, sealed`

// keepSQL writes events with their runs and parcels on PostgreSQL, and returns
// the ids of the events that are new. It is insertEventsSQL and startRuns in one
// statement, with a list for each column: so sealed payloads, which nearly all
// of it is, are neither written out as text nor parsed.
//
// Measured with BenchmarkSettle, fsync on, on two busy cores, medians of three
// rounds in turn: 1,800 deliveries a second with one worker and 2,840 with four;
// 1,370 and 1,780 as three statements of text.
const keepSQL = `WITH v AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
  $10::timestamptz[], $11::text[], $12::text[], $13::text[], $14::text[], $15::timestamptz[], $16::text[], $17::bytea[], $18::text[], $19::text[]) AS v (
  ` + eventColumns + `, run_id, parcel_id)),
e AS (INSERT INTO events AS e (` + eventColumns + `)
  SELECT ` + eventColumns + ` FROM v
  ON CONFLICT (trigger_id, dedup_key) DO UPDATE SET ` + replaceSQL + `
  WHERE ` + givesWaySQL + ` RETURNING id),
n AS (SELECT v.* FROM v JOIN e ON e.id = v.id WHERE v.run_id IS NOT NULL),
r AS (INSERT INTO runs (id, organization_id, automation_id, event_id, trigger_id, status, attempt, created_at)
  SELECT run_id, organization_id, automation_id, id, trigger_id, 'queued', 0, $20 FROM n),
o AS (INSERT INTO outbox (id, organization_id, run_id, status, attempt, next_at, created_at)
  SELECT parcel_id, organization_id, run_id, 'pending', 0, $20, $20 FROM n)
SELECT id FROM e`

// columns are those of keepSQL.
type columns struct {
	texts  [16][]*string
	times  [2][]*time.Time
	sealed [][]byte
}

func (c *columns) add(m *event.Match, parcel string, now stamp) {
	r := newRecordRow(m, now)
	for i, text := range []string{
		r.ID, r.Organization, r.Trigger, r.Automation, string(r.Receipt), r.Provider, r.Type, string(r.Native), r.Key,
		r.Title, string(r.URL), string(r.Skip), string(r.Error), string(r.Shown), m.Run, parcel,
	} {
		c.texts[i] = append(c.texts[i], textOf(text, i == title))
	}
	c.times[0], c.times[1] = append(c.times[0], r.OccurredAt.ptr()), append(c.times[1], r.CreatedAt.ptr())
	c.sealed = append(c.sealed, r.Sealed)
}

// title may be empty, of all texts: it is NULL nowhere.
const title = 9

// textOf is text that PostgreSQL can hold; nil for NULL.
func textOf(text string, empty bool) *string {
	if text == "" && !empty {
		return nil
	}
	text = storable(text)
	return &text
}

// storable is text that each database can hold.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// keepAll writes events with their runs and parcels, and returns which are new.
// The server tells of the columns' types first: nothing of that outlives the
// transaction.
func keepAll(ctx context.Context, tx bun.Tx, list []event.Match, now stamp) (fresh []string, err error) {
	var c columns
	for i := range list {
		id, err := newID()
		if err != nil {
			return nil, err
		}
		c.add(&list[i], id, now)
	}
	t := &c.texts
	rows, err := tx.Tx.QueryContext(ctx, keepSQL, pgx.QueryExecModeDescribeExec,
		t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], c.times[0], t[9], t[10], t[11], t[12], c.times[1], t[13], c.sealed, t[14], t[15], now.t)
	if err != nil {
		return nil, fmt.Errorf("writing events: %w", err)
	}
	return idsOf(rows)
}
