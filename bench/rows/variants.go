package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/internal/dbtest"
	"sallyport/store"
	"sallyport/store/calls"
)

// variant is one way to write ended calls. prepare makes rows outside of the
// measurement; write writes them in transactions of batch rows.
type variant struct {
	name    string
	prepare func(n int) []row
	write   func(ctx context.Context, rows []row, batch int) error
}

// row is an ended call as the gateway holds it.
type row struct {
	id   string
	call *calls.InvocationRow
}

var auditKey = []byte("0123456789abcdef0123456789abcdef")

func open(ctx context.Context, kind, dir string) (list []variant, cpu func() time.Duration, closeAll func(), err error) {
	if kind == "postgres" {
		return openPostgres(ctx, dir)
	}
	return openSQLite(ctx, dir)
}

func openSQLite(ctx context.Context, dir string) (list []variant, cpu func() time.Duration, closeAll func(), err error) {
	var dbs []*sql.DB
	closeAll = func() {
		for _, db := range dbs {
			_ = db.Close()
		}
	}
	connect := func(name string) (*sql.DB, error) {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, name+".db")+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)&_pragma=temp_store(MEMORY)&_pragma=cache_size(-32768)&_pragma=wal_autocheckpoint(4000)")
		if err == nil {
			db.SetMaxOpenConns(1)
			dbs = append(dbs, db)
		}
		return db, err
	}
	for _, sealed := range []bool{false, true} {
		name := map[bool]string{false: "today, not sealed", true: "today, sealed"}[sealed]
		s, session, err := newStore(ctx, store.Config{Path: filepath.Join(dir, name+".db")})
		if err != nil {
			return nil, nil, closeAll, err
		}
		db, err := connect(name)
		if err != nil {
			return nil, nil, closeAll, err
		}
		stmt, err := db.PrepareContext(ctx, calls.EndedSQL)
		if err != nil {
			return nil, nil, closeAll, err
		}
		list = append(list, today(name, db, stmt, s, session, sealed))
	}
	list[0], list[1] = list[1], list[0] // the first is what others are compared with
	for _, l := range leanShapes {
		db, err := connect(l.name)
		if err != nil {
			return nil, nil, closeAll, err
		}
		v, err := l.open(ctx, db, false)
		if err != nil {
			return nil, nil, closeAll, fmt.Errorf("%s: %w", l.name, err)
		}
		list = append(list, v)
	}
	return list, ownCPU, closeAll, nil
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func newStore(ctx context.Context, c store.Config) (*store.DB, *action.Session, error) {
	s, err := store.Open(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	session, err := s.CreateSession(ctx, action.Session{Organization: store.DefaultOrganization, CreatedBy: "bench"})
	return s, &session, err
}

// call returns an ended read as the Gate makes it.
func call(session *action.Session, i int) *calls.InvocationRow {
	now := time.Now()
	d := &action.Draft{Invocation: action.Invocation{
		ID: uuid.Must(uuid.NewV7()).String(), Organization: session.Organization, Session: session.ID,
		Source: "connector:1", SourceName: "notes", Action: "list", Risk: action.RiskRead, Mode: action.ModeAllow,
		ModeSource: action.LayerOrganization, Status: action.StatusExecuting,
		Steps:  []action.Step{{Layer: action.LayerOrganization, Key: "connector:1:*", Mode: action.ModeAllow, Note: "The organization allows it."}},
		Params: json.RawMessage(fmt.Sprintf(`{"text":"hello %d"}`, i)), ParamsHash: fmt.Sprint("hash", i), CreatedAt: now,
	}, PolicyVersion: 1, Executor: "here", LeaseUntil: now.Add(time.Minute)}
	r, err := calls.NewRow(d)
	if err != nil {
		panic(err)
	}
	r.Finish(&action.Finish{Status: action.StatusCompleted, Now: now, DurationMS: 3, Result: json.RawMessage(`{"content":[{"type":"text","text":"hello"}]}`)})
	return r
}

func prepareCalls(session *action.Session) func(n int) []row {
	return func(n int) []row {
		rows := make([]row, n)
		for i := range rows {
			c := call(session, i)
			rows[i] = row{id: c.ID, call: c}
		}
		return rows
	}
}

// today writes with the statement of the store and, if sealed, lets the store seal.
func today(name string, db *sql.DB, stmt *sql.Stmt, s *store.DB, session *action.Session, sealed bool) variant {
	return variant{name, prepareCalls(session), func(ctx context.Context, rows []row, batch int) error {
		err := inBatches(ctx, db, rows, batch, func(tx *sql.Tx, part []row) error {
			stmt := tx.StmtContext(ctx, stmt) //nolint:sqlclosecheck // the transaction closes it
			for _, r := range part {
				if _, err := stmt.ExecContext(ctx, calls.EndedColumns.Values(r.call)...); err != nil {
					return err
				}
			}
			return nil
		})
		for sealed && err == nil {
			n := 0
			if n, err = s.Seal(ctx, auditKey, 200); n < 200 {
				break
			}
		}
		return err
	}}
}

func inBatches(ctx context.Context, db *sql.DB, rows []row, batch int, write func(*sql.Tx, []row) error) error {
	for len(rows) > 0 {
		n := min(batch, len(rows))
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err := write(tx, rows[:n]); err != nil {
			_ = tx.Rollback()
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// lean is a shape of the past row.
type lean struct {
	name    string
	columns []column
	indexes []string
	link    bool // chain, seq, digest and hash are columns of the row
	many    int  // rows of a statement on SQLite; arrays on PostgreSQL
}

type column struct {
	name, kind string
	value      func(*calls.InvocationRow) any
}

var pastIndexes = []string{
	"CREATE UNIQUE INDEX past_id ON past (id)",
	"CREATE INDEX past_list ON past (organization_id, at)",
	"CREATE INDEX past_session ON past (session_id, at)",
	"CREATE INDEX past_source ON past (source_id, at)",
	"CREATE INDEX past_person ON past (decided_by, at) WHERE decided_by IS NOT NULL",
}

func text(name string, value func(*calls.InvocationRow) any) column {
	return column{name, "TEXT", value}
}

func optional(name string, value func(*calls.InvocationRow) string) column {
	return column{name, "TEXT", func(r *calls.InvocationRow) any {
		if s := value(r); s != "" {
			return s
		}
		return nil
	}}
}

// indexed are the columns that lists look for.
var indexed = []column{
	text("id", func(r *calls.InvocationRow) any { return r.ID }),
	text("organization_id", func(r *calls.InvocationRow) any { return r.Organization }),
	text("session_id", func(r *calls.InvocationRow) any { return r.Session }),
	{"at", "BIGINT", func(r *calls.InvocationRow) any { return r.CreatedAt.Time.UnixMicro() }},
	text("source_id", func(r *calls.InvocationRow) any { return r.Source }),
	optional("decided_by", func(r *calls.InvocationRow) string { return string(r.ApprovedBy) }),
}

// rest are the other columns, each by itself.
var rest = []column{
	text("status", func(r *calls.InvocationRow) any { return r.Status }),
	{"started_at", "BIGINT", func(r *calls.InvocationRow) any { return r.StartedAt.Time.UnixMicro() }},
	{"ended_at", "BIGINT", func(r *calls.InvocationRow) any { return r.CompletedAt.Time.UnixMicro() }},
	{"policy_version", "BIGINT", func(r *calls.InvocationRow) any { return r.PolicyVersion }},
	{"duration_ms", "BIGINT", func(r *calls.InvocationRow) any { return *r.DurationMS }},
	text("action", func(r *calls.InvocationRow) any { return r.Action }),
	text("params_hash", func(r *calls.InvocationRow) any { return r.ParamsHash }),
	text("tool_hash", func(r *calls.InvocationRow) any { return r.ToolHash }),
	text("revision", func(r *calls.InvocationRow) any { return r.Revision }),
	text("risk", func(r *calls.InvocationRow) any { return r.Risk }),
	text("mode", func(r *calls.InvocationRow) any { return r.Mode }),
	text("mode_source", func(r *calls.InvocationRow) any { return r.ModeSource }),
	text("source_name", func(r *calls.InvocationRow) any { return r.SourceName }),
	text("decision", func(r *calls.InvocationRow) any { return r.Decision }),
	text("params", func(r *calls.InvocationRow) any { return r.Params }),
	optional("result", func(r *calls.InvocationRow) string { return string(r.Result) }),
	optional("summary", func(r *calls.InvocationRow) string { return string(r.Summary) }),
	optional("executor", func(r *calls.InvocationRow) string { return string(r.Executor) }),
	optional("denied_reason", func(r *calls.InvocationRow) string { return string(r.DeniedReason) }),
	optional("denied_note", func(r *calls.InvocationRow) string { return string(r.DeniedNote) }),
	optional("error_code", func(r *calls.InvocationRow) string { return string(r.ErrorCode) }),
	optional("error_fault", func(r *calls.InvocationRow) string { return string(r.ErrorFault) }),
	optional("error_message", func(r *calls.InvocationRow) string { return string(r.ErrorMessage) }),
	optional("grant_id", func(r *calls.InvocationRow) string { return string(r.Grant) }),
	optional("integration_id", func(r *calls.InvocationRow) string { return string(r.Integration) }),
}

// packed are the rest in one value.
var packed = []column{{"body", "BLOB", func(r *calls.InvocationRow) any {
	b := make([]byte, 0, 1024)
	for i := range rest {
		v := rest[i].value(r)
		if v == nil {
			continue
		}
		b = append(b, byte(i))
		switch v := v.(type) {
		case string:
			b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
		case int64:
			b = binary.AppendVarint(b, v)
		}
	}
	return b
}}}

var leanShapes = []lean{
	{"lean, not sealed", join(indexed, rest), pastIndexes, false, 1},
	{"lean, sealed", join(indexed, rest), pastIndexes, true, 1},
	{"lean, sealed, 16 a statement", join(indexed, rest), pastIndexes, true, 16},
	{"packed, not sealed", join(indexed, packed), pastIndexes, false, 1},
	{"packed, sealed", join(indexed, packed), pastIndexes, true, 1},
	{"packed, sealed, 16 a statement", join(indexed, packed), pastIndexes, true, 16},
	{"packed, sealed, one index", join(indexed, packed), pastIndexes[1:2], true, 1},
}

func join(lists ...[]column) (all []column) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

func (l *lean) create() string {
	parts := []string{"n INTEGER PRIMARY KEY"}
	for _, c := range l.columns {
		parts = append(parts, c.name+" "+c.kind)
	}
	if l.link {
		parts = append(parts, "seq BIGINT NOT NULL", "hash BLOB NOT NULL")
	}
	return "CREATE TABLE past (" + strings.Join(parts, ", ") + ")"
}

func (l *lean) insert(rows int) string {
	var names, marks []string
	for _, c := range l.columns {
		names = append(names, c.name)
	}
	if l.link {
		names = append(names, "seq", "hash")
	}
	for r := range rows {
		var list []string
		for i := range names {
			list = append(list, "?"+strconv.Itoa(r*len(names)+i+1))
		}
		marks = append(marks, "("+strings.Join(list, ", ")+")")
	}
	return "INSERT INTO past (" + strings.Join(names, ", ") + ") VALUES " + strings.Join(marks, ", ")
}

const headSQL = "INSERT INTO heads (id, seq, hash) VALUES (1, ?1, ?2) ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, hash = excluded.hash"

var questionMark = regexp.MustCompile(`\?(\d+)`)

func (l *lean) open(ctx context.Context, db *sql.DB, postgres bool) (v variant, err error) {
	words := func(s string) string { return s }
	statements := append([]string{l.create(), "CREATE TABLE heads (id INTEGER PRIMARY KEY, seq BIGINT NOT NULL, hash BLOB NOT NULL)"}, l.indexes...)
	if postgres {
		words = func(s string) string {
			return questionMark.ReplaceAllString(strings.NewReplacer("n INTEGER PRIMARY KEY", "n BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "BLOB", "BYTEA").Replace(s), "$$$1")
		}
		statements = append(statements,
			"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN RAISE 'the past does not change'; END $f$",
			"CREATE TRIGGER past_update BEFORE UPDATE ON past FOR EACH ROW EXECUTE FUNCTION refuse()",
			"CREATE TRIGGER past_delete BEFORE DELETE ON past FOR EACH ROW EXECUTE FUNCTION refuse()")
	} else {
		statements = append(statements,
			"CREATE TRIGGER past_update BEFORE UPDATE ON past BEGIN SELECT RAISE(ABORT, 'the past does not change'); END",
			"CREATE TRIGGER past_delete BEFORE DELETE ON past BEGIN SELECT RAISE(ABORT, 'the past does not change'); END")
	}
	for _, s := range statements {
		if _, err := db.ExecContext(ctx, words(s)); err != nil {
			return v, fmt.Errorf("%s: %w", s, err)
		}
	}
	prepare := func(s string) (stmt *sql.Stmt) {
		if err == nil {
			stmt, err = db.PrepareContext(ctx, words(s))
		}
		return stmt
	}
	one, many, head := prepare(l.insert(1)), prepare(l.insert(l.many)), prepare(headSQL)
	if err != nil {
		return v, err
	}
	session := &action.Session{ID: uuid.NewString(), Organization: store.DefaultOrganization}
	chain := newChain()
	return variant{l.name, prepareCalls(session), func(ctx context.Context, rows []row, batch int) error {
		return inBatches(ctx, db, rows, batch, func(tx *sql.Tx, part []row) error {
			for len(part) > 0 {
				n, stmt := 1, one
				if len(part) >= l.many {
					n, stmt = l.many, many
				}
				var args []any
				for _, r := range part[:n] {
					args = l.values(args, r.call, chain)
				}
				if _, err := tx.StmtContext(ctx, stmt).ExecContext(ctx, args...); err != nil { //nolint:sqlclosecheck // the transaction closes it
					return err
				}
				part = part[n:]
			}
			if !l.link {
				return nil
			}
			_, err := tx.StmtContext(ctx, head).ExecContext(ctx, chain.seq, chain.hash) //nolint:sqlclosecheck // the transaction closes it
			return err
		})
	}}, nil
}

// values appends what a statement takes of a row; its link is computed from the same
// values.
func (l *lean) values(args []any, r *calls.InvocationRow, c *chain) []any {
	first := len(args)
	for i := range l.columns {
		args = append(args, l.columns[i].value(r))
	}
	if l.link {
		seq, hash := c.extend(args[first:])
		args = append(args, seq, hash)
	}
	return args
}

// chain is the head of a chain that one writer extends.
type chain struct {
	seq  int64
	hash []byte
	text []byte
}

func newChain() *chain { return &chain{hash: make([]byte, 32)} }

func (c *chain) extend(values []any) (int64, []byte) {
	c.seq++
	b := append(binary.BigEndian.AppendUint64(c.text[:0], uint64(c.seq)), c.hash...)
	for i, v := range values {
		b = append(b, byte(i))
		switch v := v.(type) {
		case string:
			b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
		case []byte:
			b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
		case int64:
			b = binary.AppendVarint(b, v)
		}
	}
	c.text = b
	mac := hmac.New(sha256.New, auditKey)
	mac.Write(b)
	c.hash = mac.Sum(nil)
	return c.seq, c.hash
}

func openPostgres(ctx context.Context, _ string) (list []variant, cpu func() time.Duration, closeAll func(), err error) {
	server, err := dbtest.StartPostgresAt(memoryDisk(), "shared_buffers=512MB", "max_wal_size=2GB")
	if err != nil {
		return nil, nil, func() {}, err
	}
	var closers []func()
	closeAll = func() {
		for _, c := range closers {
			c()
		}
		server.Close()
	}
	admin, err := sql.Open("pgx", server.URL)
	if err != nil {
		return nil, nil, closeAll, err
	}
	closers = append(closers, func() { _ = admin.Close() })
	var pids []int
	n := 0
	connect := func() (*sql.DB, string, error) {
		n++
		name := fmt.Sprint("rows", n)
		if _, err := admin.ExecContext(ctx, "CREATE DATABASE "+name); err != nil {
			return nil, "", err
		}
		url := strings.Replace(server.URL, "/postgres?", "/"+name+"?", 1)
		db, err := sql.Open("pgx", url)
		if err != nil {
			return nil, "", err
		}
		db.SetMaxOpenConns(1)
		closers = append(closers, func() { _ = db.Close() })
		var pid int
		err = db.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&pid)
		pids = append(pids, pid)
		return db, url, err
	}
	for _, sealed := range []bool{true, false} {
		db, url, err := connect()
		if err != nil {
			return nil, nil, closeAll, err
		}
		s, session, err := newStore(ctx, store.Config{URL: url})
		if err != nil {
			return nil, nil, closeAll, err
		}
		closers = append(closers, func() { _ = s.Close() })
		stmt, err := db.PrepareContext(ctx, questionMark.ReplaceAllString(calls.EndedSQL, "$$$1"))
		if err != nil {
			return nil, nil, closeAll, err
		}
		name := map[bool]string{false: "today, not sealed", true: "today, sealed"}[sealed]
		list = append(list, today(name, db, stmt, s, session, sealed))
	}
	for _, l := range leanShapes {
		db, _, err := connect()
		if err != nil {
			return nil, nil, closeAll, err
		}
		v, err := l.open(ctx, db, true)
		if err != nil {
			return nil, nil, closeAll, fmt.Errorf("%s: %w", l.name, err)
		}
		list = append(list, v)
	}
	return list, func() time.Duration { return ownCPU() + serverCPU(admin) }, closeAll, nil
}

// serverCPU returns the processor time of all backends, those of the store's pool
// included, as the scheduler counts it in nanoseconds.
func serverCPU(admin *sql.DB) (total time.Duration) {
	rows, err := admin.QueryContext(context.Background(), "SELECT pid FROM pg_stat_activity")
	if err != nil {
		return 0
	}
	defer rows.Close()
	for rows.Next() {
		var pid int
		if rows.Scan(&pid) != nil {
			continue
		}
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid)); err == nil {
			ns, _ := strconv.ParseInt(strings.Fields(string(stat))[0], 10, 64)
			total += time.Duration(ns)
		}
	}
	if rows.Err() != nil {
		return 0
	}
	return total
}
