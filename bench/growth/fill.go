package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

const (
	organizations = 20
	perSession    = 10   // invocations
	together      = 20   // sessions at the same time
	open          = 2000 // invocations, the newest ones: most pending, some executing
	batch         = 100_000
)

// dialect is what the two databases say differently.
type dialect struct {
	time string // of %s seconds since 1970
	hash string // 64 characters without any order, of %s
	tune string // before filling
	done string // after it
}

func sqliteWords() dialect {
	return dialect{
		time: `strftime('%%Y-%%m-%%dT%%H:%%M:%%S.000000Z', %s, 'unixepoch')`,
		hash: `lower(hex(randomblob(32)))`,
		tune: `PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-262144`,
	}
}

// postgresWords leave checks of foreign keys out, and end with what autovacuum
// does after so many new rows. Nobody does that on SQLite.
func postgresWords() dialect {
	return dialect{
		time: `to_timestamp(%s)`,
		hash: `md5('a' || %[1]s) || md5('b' || %[1]s)`,
		tune: `SET synchronous_commit=off; SET session_replication_role=replica`,
		done: `VACUUM (ANALYZE)`,
	}
}

// historySQL writes those of the invocations {from} to {to}, one a second up to
// {end}, that ended or that are open. A block of neighbours belongs to sessions that go on at the same time.
const historySQL = `INSERT INTO {table} ({columns})
WITH RECURSIVE number(n) AS (SELECT {from} UNION ALL SELECT n + 1 FROM number WHERE n < {to}),
placed AS (SELECT n, (n / 200) * 20 + n % 20 AS s, {end} - {rows} + n AS t,
    CASE WHEN n < {rows} - {open} THEN n % 100 WHEN n % 10 = 0 THEN 101 ELSE 100 END AS k FROM number),
kinds AS (SELECT n, s, t, k,
    CASE WHEN k < 90 THEN 'completed' WHEN k < 94 THEN 'failed' WHEN k < 98 THEN 'denied' WHEN k < 100 THEN 'expired'
      WHEN k = 100 THEN 'pending' ELSE 'executing' END AS status,
    CASE WHEN k < 60 THEN 0 ELSE 1 END AS joins,
    CASE WHEN k < 75 OR k = 101 THEN 'allow' WHEN k = 96 THEN 'deny' ELSE 'require_approval' END AS mode FROM placed),
made (id, organization_id, session_id, status, joins, unattended, created_at, waiter_seen_at, expires_at, approved_at,
  started_at, lease_until, completed_at, pickup_until, delivered_at, duration_ms, policy_version, source_id, action,
  params_hash, tool_hash, revision, risk, mode, mode_source, executor, approved_by, denied_reason, error_code,
  source_name, error_message, decision, params, result)
AS (SELECT '01999999-0000-7000-8000-' || CAST(100000000000 + n AS TEXT),
  {organization}, {session},
  status, joins, 0, {time:t}, {time:t}, CASE WHEN mode = 'require_approval' THEN {time:t + 86400} END,
  CASE WHEN mode = 'require_approval' AND k BETWEEN 75 AND 93 THEN {time:t + 5} END,
  CASE WHEN k < 94 OR k = 101 THEN {time:t + 6} END, CASE WHEN k < 94 OR k = 101 THEN {time:t + 86400} END,
  CASE WHEN k < 100 THEN {time:t + 7} END,
  CASE WHEN k BETWEEN 60 AND 93 THEN {time:t + 907} END,
  CASE WHEN k BETWEEN 60 AND 93 AND n % 20 > 0 THEN {time:t + 8} END,
  CASE WHEN k < 94 THEN 5 + n % 500 END, 1,
  'connector:' || CAST(1 + n % 7 AS TEXT), 'action_' || CAST(n % 40 AS TEXT), {hash:n}, 'tool hash', '1',
  CASE WHEN joins = 0 THEN 'read' ELSE 'write' END, mode, 'organization',
  CASE WHEN k < 94 OR k = 101 THEN 'instance-1' END,
  CASE WHEN mode = 'require_approval' AND k BETWEEN 75 AND 95 THEN 'person' END,
  CASE WHEN k IN (94, 95) THEN 'human' WHEN k = 96 THEN 'policy' WHEN k = 97 THEN 'withdrawn' END,
  CASE WHEN k BETWEEN 90 AND 93 THEN 'tool_error' END,
  'A service', CASE WHEN k BETWEEN 90 AND 93 THEN 'The service said no.' END,
  '[{"layer":"organization","key":"connector:1:*","mode":"allow","note":"The organization decided so for all actions of this source."}]',
  '{"n":' || CAST(n AS TEXT) || ',"text":"{filler}"}',
  CASE WHEN k < 94 THEN '{"content":[{"type":"text","text":"{filler} {filler}"}]}' END
FROM kinds)
SELECT {columns} FROM made WHERE {which}`

// tables are those that [historySQL] fills.
var tables = []struct{ name, columns, which string }{
	{"open_calls", openColumns, "completed_at IS NULL"},
	{"invocations", openColumns + ", completed_at, pickup_until, delivered_at, duration_ms, denied_reason, error_code, error_message, result", "completed_at IS NOT NULL"},
}

const openColumns = `id, organization_id, session_id, status, joins, unattended, created_at, waiter_seen_at, expires_at, approved_at,
  started_at, lease_until, policy_version, source_id, action, params_hash, tool_hash, revision, risk, mode, mode_source, executor, approved_by,
  source_name, decision, params`

// sessionsSQL writes the sessions of the invocations before {rows}.
// Every second one has one of three groups.
const sessionsSQL = `INSERT INTO sessions (id, organization_id, kind, type, group_id, title, created_by, created_at)
WITH RECURSIVE number(s) AS (SELECT 0 UNION ALL SELECT s + 1 FROM number WHERE s < {rows} / 10 + 20)
SELECT {session}, {organization}, 'interactive', 'coding', CASE WHEN s % 2 = 0 THEN 'group-' || CAST(s % 3 AS TEXT) END, 'Fix the build', 'person', {time:{end} - {rows} + (s / 20) * 200} FROM number`

const organizationsSQL = `INSERT INTO organizations (id, name, policy_version, created_at)
WITH RECURSIVE number(o) AS (SELECT 0 UNION ALL SELECT o + 1 FROM number WHERE o < 19)
SELECT 'organization-' || CAST(o AS TEXT), 'Organization', 1, {time:{end}} FROM number`

// keysSQL gives every tenth write of the last days an idempotency key, as many
// as the sweep leaves.
const keysSQL = `INSERT INTO idempotency_keys (organization_id, session_id, source_id, action, key, invocation_id, params_hash, created_at)
SELECT organization_id, session_id, source_id, action, 'key of ' || id, id, params_hash, created_at
FROM all_calls WHERE joins = 1 AND id LIKE '%0' AND created_at > {time:{end} - 250000}`

// originsSQL makes up for triggers that were left out.
const originsSQL = `INSERT INTO invocation_origins (organization_id, kind, name, created_at, id)
SELECT i.organization_id, 'group', s.group_id, i.created_at, i.id FROM all_calls AS i JOIN sessions AS s ON s.id = i.session_id
WHERE s.group_id IS NOT NULL ON CONFLICT DO NOTHING`

// grantsSQL gives every session a grant that it has used up.
const grantsSQL = `INSERT INTO grants (id, organization_id, scope, session_id, source_id, action, covers_any, max_calls, used_calls, spent_at, created_by, created_at)
SELECT 'grant of ' || id, organization_id, 'session', id, 'connector:1', 'write', 0, 1, 1, created_at, 'person', created_at FROM sessions`

// Three of five sessions are of organization 0: what is measured is the one
// that has the most.
const (
	organizationSQL = `'organization-' || CAST(CASE WHEN s % 5 < 3 THEN 0 ELSE 1 + s % 19 END AS TEXT)`
	sessionSQL      = `'session-' || CAST(1000000 + s AS TEXT)`
	measured        = "organization-0"
)

// history fills an empty database with rows invocations and all that they
// belong to.
func history(ctx context.Context, db *sql.DB, d dialect, rows int) error {
	conn, err := db.Conn(ctx) // the settings are of one connection
	if err != nil {
		return err
	}
	defer conn.Close()
	end := time.Now().Unix()
	for _, text := range []string{d.tune, organizationsSQL, sessionsSQL} {
		if _, err := conn.ExecContext(ctx, d.write(text, rows, end, 0)); err != nil {
			return fmt.Errorf("%.60s: %w", text, err)
		}
	}
	for from := 0; from < rows; from += batch {
		for _, table := range tables {
			text := strings.NewReplacer("{table}", table.name, "{columns}", table.columns, "{which}", table.which).Replace(historySQL)
			if _, err := conn.ExecContext(ctx, d.write(text, rows, end, from)); err != nil {
				return fmt.Errorf("invocations from %d on: %w", from, err)
			}
		}
	}
	for _, text := range []string{keysSQL, originsSQL, grantsSQL, d.done} {
		if _, err := conn.ExecContext(ctx, d.write(text, rows, end, 0)); err != nil {
			return fmt.Errorf("%.60s: %w", text, err)
		}
	}
	return nil
}

// write puts the dialect's words and the numbers into a text.
func (d dialect) write(text string, rows int, end int64, from int) string {
	text = strings.NewReplacer(
		"{organization}", organizationSQL, "{session}", sessionSQL, "{hash:n}", fmt.Sprintf(d.hash+"%.0[1]s", "n"),
		"{rows}", fmt.Sprint(rows), "{end}", fmt.Sprint(end), "{open}", fmt.Sprint(open),
		"{from}", fmt.Sprint(from), "{to}", fmt.Sprint(min(from+batch, rows)-1),
		"{filler}", strings.Repeat("lorem ipsum ", 14),
	).Replace(text)
	for {
		before, rest, found := strings.Cut(text, "{time:")
		if !found {
			return text
		}
		expression, after, _ := strings.Cut(rest, "}")
		text = before + fmt.Sprintf(d.time, expression) + after
	}
}

// idOf and sessionOf are the names that historySQL gives.
func idOf(n int) string      { return fmt.Sprintf("01999999-0000-7000-8000-%d", 100_000_000_000+n) }
func sessionOf(n int) string { return fmt.Sprintf("session-%d", 1_000_000+n/200*20+n%20) }

// ofMeasured reports whether invocation n belongs to the organization.
func ofMeasured(n int) bool { return (n/200*20+n%20)%5 < 3 }
