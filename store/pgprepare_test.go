package store

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/stdlib"

	"sallyport/action"
	"sallyport/internal/dbtest"
	"sallyport/store/calls"
	"sallyport/store/database"
)

// called makes an allowed call with these params and sees it end.
func called(t *testing.T, db *DB, s action.Session, params string) {
	t.Helper()
	now := time.Now()
	d := drafted(s, params)
	if _, err := db.Begin(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	f := &action.Finish{Organization: s.Organization, ID: d.ID, Executor: "here", Status: action.StatusFailed, Error: &action.Failure{Code: "c", Message: params}, Now: now}
	if _, ok, err := db.Finish(t.Context(), f); !ok || err != nil {
		t.Fatal(ok, err)
	}
	rec, err := db.Load(t.Context(), s.Organization, d.ID)
	if err != nil || rec.Error == nil || rec.Error.Message != database.SanitizeText(params) || !rec.CreatedAt.Equal(database.NewTimestamp(d.CreatedAt).Time) {
		t.Fatalf("%+v, %v", rec.Invocation, err)
	}
}

// drafted is an allowed write.
func drafted(s action.Session, params string) *action.Draft {
	now := time.Now()
	return &action.Draft{Invocation: action.Invocation{
		ID: uuid.Must(uuid.NewV7()).String(), Organization: s.Organization, Session: s.ID, Source: "linear", SourceName: "Linear", Action: "x",
		Risk: action.RiskWrite, Mode: action.ModeAllow, ModeSource: action.LayerOrganization, Status: action.StatusExecuting,
		Params: []byte(params), ParamsHash: params, CreatedAt: now, StartedAt: &now,
	}, PolicyVersion: 1, Joins: true, Executor: "here", LeaseUntil: now.Add(time.Minute)}
}

func preparedOn(t *testing.T, db *DB) (n int) {
	t.Helper()
	if err := db.db.Read.DB.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_prepared_statements").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func newSessionOn(t *testing.T, db *DB) action.Session {
	t.Helper()
	s, err := db.CreateSession(t.Context(), action.Session{Organization: DefaultOrganization, CreatedBy: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestHotStatementsArePrepared: on a connection to the server, and text is kept as it
// is where nothing is prepared.
func TestHotStatementsArePrepared(t *testing.T) {
	db := openPostgres(t, Config{MaxConns: 1})
	s := newSessionOn(t, db)
	for _, params := range []string{`{"a":1}`, "a \x00 b", "a \xff\xfe b", "it's $1 ?1 \\", "ä€𝄞"} {
		called(t, db, s, params)
	}
	if n := preparedOn(t, db); n < 5 {
		t.Errorf("%d statements are prepared", n)
	}
	var mode string
	if err := db.db.Read.DB.QueryRowContext(t.Context(), "SHOW plan_cache_mode").Scan(&mode); err != nil || mode != "force_generic_plan" {
		t.Error(mode, err)
	}
}

// TestPreparedStatementsLost: what is prepared may be gone when a pooler
// that looks like the server is in between. The call goes on, and nothing is
// prepared any more.
func TestPreparedStatementsLost(t *testing.T) {
	db := openPostgres(t, Config{MaxConns: 1})
	s := newSessionOn(t, db)
	called(t, db, s, "a")
	if _, err := db.db.Read.DB.ExecContext(t.Context(), "DEALLOCATE ALL"); err != nil {
		t.Fatal(err)
	}
	called(t, db, s, "b")
	called(t, db, s, "c")
	if n := preparedOn(t, db); n != 0 {
		t.Errorf("%d statements are prepared again", n)
	}
}

// TestPoolerDisablesPrepare: behind one that gives its clients other numbers
// than the server's.
func TestPoolerDisablesPrepare(t *testing.T) {
	to := dbtest.PostgresFrom(t, "tables", func(url string) error {
		_, err := database.Migrate(t.Context(), Config{URL: url})
		return err
	})
	db, err := Open(t.Context(), Config{URL: pooled(t, to), MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.db.Close()
	s := newSessionOn(t, db)
	for _, params := range []string{`{"a":1}`, "a \x00 b", "a \xff\xfe b", "it's $1 ?1 \\"} {
		called(t, db, s, params)
	}
	if n := preparedOn(t, db); n != 0 {
		t.Errorf("%d statements are prepared", n)
	}
}

// pooled is the URL of a database through what tells its clients a number that
// is not that of the server's process.
func pooled(t *testing.T, to string) string {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	server := u.Host
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go otherNumber(client, server)
		}
	}()
	u.Host = l.Addr().String()
	return u.String()
}

func otherNumber(client net.Conn, to string) {
	defer client.Close()
	server, err := net.Dial("tcp", to) //nolint:noctx // on this machine
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		defer server.Close()
		_, _ = io.Copy(server, client)
	}()
	head := make([]byte, 5)
	for head[0] != 'Z' { // ready
		if _, err := io.ReadFull(server, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(server, body); err != nil {
			return
		}
		if head[0] == 'K' { // the process and its secret
			binary.BigEndian.PutUint32(body, binary.BigEndian.Uint32(body)+1)
		}
		if _, err := client.Write(append(head[:5:5], body...)); err != nil {
			return
		}
	}
	_, _ = io.Copy(client, server)
}

// TestPlansAreRenewed: a plan that was made when there were a few rows
// does not stay when there are many.
func TestPlansAreRenewed(t *testing.T) {
	db := openPostgres(t, Config{MaxConns: 1})
	do := func(text string) {
		t.Helper()
		if _, err := db.db.Read.DB.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	plan := func() string {
		t.Helper()
		var name string
		err := db.db.Read.DB.QueryRowContext(t.Context(), "SELECT name FROM pg_prepared_statements WHERE statement = '"+strings.ReplaceAll(statementOf(t, db, calls.FinishSQL(true)).Dollars, "'", "''")+"'").Scan(&name)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := db.db.Read.DB.QueryContext(t.Context(), "EXPLAIN EXECUTE "+name+nulls(highest(statementOf(t, db, calls.FinishSQL(true)).Dollars)))
		if err != nil {
			t.Fatal(err)
		}
		return lines(t, rows)
	}
	do("ALTER TABLE open_calls SET (autovacuum_enabled = off)")
	s := newSessionOn(t, db)
	called(t, db, s, "a")
	do("ANALYZE open_calls")
	called(t, db, s, "b")
	do(`INSERT INTO open_calls (id, organization_id, session_id, status, joins, unattended, created_at, waiter_seen_at, expires_at,
		policy_version, source_id, action, params_hash, tool_hash, revision, risk, mode, mode_source, source_name, decision, params)
		SELECT id || n, organization_id, session_id, 'pending', 0, 0, created_at, waiter_seen_at, created_at,
		1, source_id, action, params_hash, '', '', risk, mode, mode_source, source_name, decision, params
		FROM invocations, generate_series(1, 10000) n WHERE params = 'a'`)
	if p := plan(); !strings.Contains(p, "Seq Scan on open_calls") {
		t.Fatalf("the plan is another one already:\n%s", p)
	}
	conn, err := db.db.Read.DB.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = conn.Raw(func(c any) error {
		data := c.(*stdlib.Conn).Conn().PgConn().CustomData()
		data[database.PreparableKey] = data[database.PreparableKey].(time.Time).Add(-database.PlanLifetime)
		return nil
	})
	if err := errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
	called(t, db, s, "c")
	if p := plan(); strings.Contains(p, "Seq Scan") {
		t.Errorf("the plan is the old one:\n%s", p)
	}
}

// TestColumnTypeChanges: a newer gateway may have changed one while this one has
// statements prepared.
func TestColumnTypeChanges(t *testing.T) {
	db := openPostgres(t, Config{MaxConns: 1})
	s := newSessionOn(t, db)
	called(t, db, s, "a")
	if _, err := db.db.Read.DB.ExecContext(t.Context(), "ALTER TABLE organizations ALTER COLUMN policy_version TYPE NUMERIC"); err != nil {
		t.Fatal(err)
	}
	called(t, db, s, "b")
}

// TestPreparedStatementLostAfterExecution: a job whose first statement was committed before
// the next one was forgotten finds what it did itself.
func TestPreparedStatementLostAfterExecution(t *testing.T) {
	db := openPostgres(t, Config{MaxConns: 1})
	s := newSessionOn(t, db)
	called(t, db, s, "a")
	d := drafted(s, "b")
	if _, err := db.Begin(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	db.EvictExecuting(s.Organization, d.ID) // as on an instance that did not begin it
	if _, err := db.LoadInTx(t.Context(), db.db.Write.DB, s.Organization, d.ID); err != nil {
		t.Fatal(err)
	}
	var name string
	err := db.db.Read.DB.QueryRowContext(t.Context(), "SELECT name FROM pg_prepared_statements WHERE statement = '"+strings.ReplaceAll(statementOf(t, db, calls.LoadSQL).Dollars, "'", "''")+"'").Scan(&name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.db.Read.DB.ExecContext(t.Context(), "DEALLOCATE "+name); err != nil {
		t.Fatal(err)
	}
	f := &action.Finish{Organization: s.Organization, ID: d.ID, Executor: "here", Status: action.StatusCompleted, Now: time.Now()}
	if _, ok, err := db.Finish(t.Context(), f); !ok || err != nil {
		t.Errorf("recorded %v, %v", ok, err)
	}
}

// TestGenericPlans: the one plan of each prepared statement is a good one.
func TestGenericPlans(t *testing.T) {
	db := openBusy(t)
	conn, err := db.db.Read.DB.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	all := map[string]*database.Statement{}
	for _, s := range db.db.Statements() {
		all[s.Text] = s
	}
	want := map[string][]string{
		calls.CheckSQL:        {"sessions_", "idempotency_keys_pkey", "open_calls_once", "invocations_undelivered", "invocations_refused", "open_calls_"},
		calls.FinishSQL(true): {"open_calls_pkey"}, calls.DeliveredSQL: {"invocations_pkey"}, calls.ApproveSQL: {"open_calls_pkey"}, calls.DenySQL(true): {"open_calls_pkey"}, calls.ClaimSQL: {"open_calls_pkey"}, calls.LoadSQL: {"invocations_pkey", "open_calls_pkey"},
	}
	n := 0
	for text, s := range all {
		n++
		name := fmt.Sprint("s", n)
		for _, q := range []string{"SET plan_cache_mode = force_generic_plan", "PREPARE " + name + " AS " + s.Dollars} {
			if _, err := conn.ExecContext(t.Context(), q); err != nil {
				t.Fatalf("%s: %v", q, err)
			}
		}
		rows, err := conn.QueryContext(t.Context(), "EXPLAIN EXECUTE "+name+nulls(highest(s.Dollars)))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		checkPlan(t, text, lines(t, rows), want[text], []string{"Seq Scan on open_calls", "Seq Scan on sessions", "Seq Scan on idempotency_keys"})
	}
}

// nulls are so many values.
func nulls(n int) string {
	return "(" + strings.TrimSuffix(strings.Repeat("NULL, ", n), ", ") + ")"
}

// highest is the number of values that a text asks for.
func highest(text string) int {
	for n := 99; n > 0; n-- {
		if strings.Contains(text, fmt.Sprint("$", n)) {
			return n
		}
	}
	return 0
}

func lines(t *testing.T, rows *sql.Rows) string {
	t.Helper()
	defer rows.Close()
	var text strings.Builder
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		text.WriteString(line + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return text.String()
}
