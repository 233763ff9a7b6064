package dashboard_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/token"
	"sallyport/store"
)

// start is when every test begins.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// furnished is a database with what every test needs: two organizations, an
// owner, an admin and a member with their API keys, two sessions, a connector
// and an automation.
type furnished struct {
	file                 []byte
	owner, admin, member string // API keys
}

// furnish makes it once; each test gets a copy.
var furnish = sync.OnceValues(func() (f furnished, err error) {
	dir, err := os.MkdirTemp("", "dashboard")
	if err != nil {
		return f, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "rows.db")
	ctx := context.Background()
	db, err := store.Open(ctx, store.Config{Path: path, Now: func() time.Time { return start }})
	if err != nil {
		return f, err
	}
	for _, id := range []string{org, "org2"} {
		if _, err := db.EnsureOrganization(ctx, id, id); err != nil {
			return f, err
		}
	}
	for _, p := range []struct {
		name string
		role action.Role
		key  *string
	}{{"ada", action.RoleOwner, &f.owner}, {"ben", action.RoleAdmin, &f.admin}, {"cyd", action.RoleMember, &f.member}} {
		if *p.key, err = addPerson(ctx, db, p.name, p.role); err != nil {
			return f, err
		}
	}
	for _, id := range []string{"s1", "s2"} {
		if _, err := db.CreateSession(ctx, coding(id)); err != nil {
			return f, err
		}
	}
	if err := db.CreateConnector(ctx, action.Connector{ID: "c1", Organization: org, Name: "GitHub", Slug: "github", URL: "https://mcp.example.com/mcp", Enabled: true}, nil, "u-ada"); err != nil {
		return f, err
	}
	if _, err := db.CreateAutomation(ctx, event.Automation{ID: "nightly", Organization: org, Name: "nightly-triage", Enabled: true, Instructions: "Sort the inbox.", CreatedBy: "u-ada"}); err != nil {
		return f, err
	}
	if err := db.Close(); err != nil {
		return f, err
	}
	f.file, err = os.ReadFile(path)
	return f, err
})

// addPerson writes a person and returns an API key of theirs.
func addPerson(ctx context.Context, db *store.DB, name string, role action.Role) (key string, err error) {
	if err := db.CreateUser(ctx, action.User{ID: "u-" + name, Organization: org, Name: name, Role: role}, "u-ada"); err != nil {
		return "", err
	}
	id, key, hash := token.NewAPIKey()
	return key, db.CreateAPIKey(ctx, action.APIKey{ID: id, Organization: org, Name: name, User: "u-" + name, Role: role}, hexOf(hash))
}

func coding(id string) action.Session {
	return action.Session{
		ID: id, Organization: org, Kind: action.Interactive, Type: action.TypeCoding, Title: "Work on " + id, Status: action.SessionRunning, CreatedBy: "u-ada",
	}
}

// openRows opens a copy of the furnished database, and beside the store a
// connection for what no method of it writes. That one does not hold references:
// rows may be of what is gone.
func (h *house) openRows(loginIdle time.Duration) furnished {
	h.t.Helper()
	f, err := furnish()
	if err != nil {
		h.t.Fatal(err)
	}
	path := filepath.Join(h.t.TempDir(), "rows.db")
	if err := os.WriteFile(path, f.file, 0o600); err != nil {
		h.t.Fatal(err)
	}
	if h.db, err = store.Open(h.t.Context(), store.Config{Path: path, Now: h.clock.now, LoginIdle: loginIdle}); err != nil {
		h.t.Fatal(err)
	}
	if h.sql, err = sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=wal_autocheckpoint(0)&_pragma=synchronous(0)"); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := h.sql.Close(); err != nil {
			h.t.Error(err)
		}
		if err := h.db.Close(); err != nil {
			h.t.Error(err)
		}
	})
	return f
}

// flush waits until all that the store queued is written.
func (h *house) flush() {
	h.t.Helper()
	if err := h.db.Flush(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// exec changes rows behind the store's back; some must change.
func (h *house) exec(query string, args ...any) {
	h.t.Helper()
	for i := range args {
		args[i] = column(args[i])
	}
	result, err := h.sql.ExecContext(h.t.Context(), query, args...)
	if err != nil {
		h.t.Fatalf("%s: %v", query, err)
	}
	if n, err := result.RowsAffected(); (err != nil || n == 0) && !strings.HasPrefix(query, "DROP ") {
		h.t.Fatalf("%s changed %d rows: %v", query, n, err)
	}
}

// insert adds a row to a table; names of columns alternate with their values.
func (h *house) insert(table string, row ...any) {
	h.t.Helper()
	var names, marks []string
	var values []any
	for i := 0; i < len(row); i += 2 {
		names, marks, values = append(names, row[i].(string)), append(marks, "?"), append(values, row[i+1])
	}
	h.exec("INSERT INTO "+table+" ("+strings.Join(names, ", ")+") VALUES ("+strings.Join(marks, ", ")+")", values...)
}

// text is what stays text in a row, also when it is empty.
type text string

// column is a value as a column holds it: times as text of 27 bytes, empty text
// as NULL, and what is neither text nor a number as JSON.
func column(v any) any {
	switch v := v.(type) {
	case nil, []byte, int, int64:
		return v
	case text:
		return string(v)
	case time.Time:
		return v.UTC().Format("2006-01-02T15:04:05.000000Z")
	case bool:
		if v {
			return 1
		}
		return 0
	case json.RawMessage:
		return string(v)
	}
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Pointer:
		if r.IsNil() {
			return nil
		}
		return column(r.Elem().Interface())
	case reflect.String:
		if r.Len() == 0 {
			return nil
		}
		return r.String()
	case reflect.Int, reflect.Int64:
		return r.Int()
	case reflect.Slice, reflect.Map:
		if r.Len() == 0 {
			return nil
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// query reads n columns.
func (h *house) query(query string, n int, args ...any) (list [][]any) {
	h.t.Helper()
	rows, err := h.sql.QueryContext(h.t.Context(), query, args...)
	if err != nil {
		h.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		row, into := make([]any, n), make([]any, n)
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			h.t.Fatal(err)
		}
		list = append(list, row)
	}
	if err := rows.Err(); err != nil {
		h.t.Fatal(err)
	}
	return list
}

// count is the number of rows of the organization in a table.
func (h *house) count(table string) (n int) {
	h.t.Helper()
	if err := h.sql.QueryRowContext(h.t.Context(), "SELECT count(*) FROM "+table+" WHERE organization_id = ?", org).Scan(&n); err != nil {
		h.t.Fatal(err)
	}
	return n
}

// rows is all that an organization has, as text, but for when something was
// last used; beside it what went on outside.
func (h *house) rows(organization string) string {
	h.t.Helper()
	columns := map[string][]string{}
	for _, row := range h.query("SELECT m.name, c.name FROM sqlite_schema AS m JOIN pragma_table_info(m.name) AS c WHERE m.type = 'table'", 2) {
		table := row[0].(string)
		columns[table] = append(columns[table], row[1].(string))
	}
	uses := []string{"seen_at", "last_seen_at", "last_used_at", "waiter_seen_at"}
	var lines []string
	for _, table := range slices.Sorted(maps.Keys(columns)) {
		if !slices.Contains(columns[table], "organization_id") {
			continue
		}
		names := slices.DeleteFunc(columns[table], func(name string) bool { return slices.Contains(uses, name) })
		for _, row := range h.query("SELECT "+strings.Join(names, ", ")+" FROM "+table+" WHERE organization_id = ?", len(names), organization) {
			lines = append(lines, fmt.Sprintf("%s %v", table, row))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + fmt.Sprint("\n", h.out.flows, h.out.ended)
}

func (h *house) connector(ref string) action.Connector {
	h.t.Helper()
	all := must(h.db.ListConnectors(h.t.Context(), org))
	i := slices.IndexFunc(all, func(c action.Connector) bool { return c.ID == ref || c.Slug == ref })
	if i < 0 {
		h.t.Fatalf("there is no connector %s", ref)
	}
	return all[i]
}

// serves moves the connector of the house to another server, on which what is
// behind it depends.
func (h *house) serves(url string) {
	h.t.Helper()
	h.exec("UPDATE connectors SET url = ? WHERE id = 'c1'", url)
}

// secret is the value that is sealed under a key.
func (h *house) secret(key string) string {
	h.t.Helper()
	_, sealed, err := h.db.SecretValue(h.t.Context(), org, key)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(must(h.vault.Open(secretRef(org, key), sealed)))
}

// sealed is text that is sealed for a place of the organization.
func (h *house) sealed(table, row, column, text string) []byte {
	h.t.Helper()
	return must(h.vault.Seal(action.Ref{Organization: org, Table: table, Row: row, Column: column}, []byte(text)))
}
