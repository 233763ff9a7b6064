package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/stdlib"

	"sallyport/action"
	"sallyport/internal/dbtest"
)

// notSealed are columns of bytes that hold no secret.
var notSealed = []string{
	"audit_checkpoints.hash", "audit_checkpoints.mac", "audit_heads.hash", "audit_heads.mac", "audit_seals.digest", "audit_seals.hash",
	"invocations.sealed_params", // NULL, as open_calls has them
}

const (
	bytesOfSQLite   = `SELECT m.name || '.' || c.name FROM sqlite_schema AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table' AND upper(c.type) = 'BLOB'`
	bytesOfPostgres = `SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = current_schema() AND data_type = 'bytea' AND table_name <> 'all_calls'`
)

// A sealed column that is not in the list would be lost with the old key.
func TestSealedColumnsAreListed(t *testing.T) {
	onBoth(t, func(t *testing.T, raw *sql.DB) {
		want := slices.Clone(notSealed)
		for _, c := range sealedColumns() {
			want = append(want, c.table+"."+c.column)
		}
		slices.Sort(want)
		want = slices.Compact(want) // by status
		query := bytesOfSQLite
		if _, ok := raw.Driver().(*stdlib.Driver); ok {
			query = bytesOfPostgres
		}
		var got []string
		rows, err := raw.QueryContext(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				t.Fatal(err)
			}
			got = append(got, name)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" || rows.Err() != nil {
			t.Errorf("columns of bytes (-known +there), %v:\n%s", rows.Err(), diff)
		}
	})
}

// resealRows are the rows of the schema's tests: one of each sealed column.
var resealRows = slices.Concat(integrationRows, []string{
	`INSERT INTO secrets (organization_id, key, host, sealed, updated_by, created_at, updated_at) VALUES ('default', 'k', 'h', BYTES, 'me', 'T', 'T')`,
	`INSERT INTO oauth_grants (organization_id, connector_id, issuer, status, updated_at, version, sealed) VALUES ('default', 'c', 'https://i', 'connected', 'T', 1, BYTES)`,
	`INSERT INTO oauth_flows (state_hash, organization_id, connector_id, by, expires_at, sealed) VALUES ('f', 'default', 'c', 'me', 'T', BYTES)`,
	`INSERT INTO signing_secrets (id, organization_id, owner_id, sealed, created_at) VALUES ('w', 'default', 't', BYTES, 'T')`,
	`INSERT INTO notify_channels (organization_id, kind, enabled, wants, failures, sealed, updated_by, updated_at) VALUES ('default', 'slack', TRUE, 'all', 0, BYTES, 'me', 'T')`,
	`INSERT INTO inbox (id, organization_id, endpoint, provider, dedup_key, size, status, attempt, next_at, received_at, sealed)
	  VALUES ('d', 'default', 'direct/github', 'github', 'k', 1, 'queued', 0, 'T', 'T', BYTES)`,
	`INSERT INTO events (id, organization_id, trigger_id, automation_id, provider, type, dedup_key, title, created_at, sealed)
	  VALUES ('e', 'default', 't', 'a', 'github', 'issue', 'k', 'n', 'T', BYTES)`,
	`INSERT INTO rounds (id, organization_id, invocation_id, session_id, needs, keys, sealed, asked_at, until) VALUES ('r', 'default', 'executing', 's', 1, '["a"]', BYTES, 'T', 'T')`,
	`INSERT INTO round_replies (round_id, key, at, sealed) VALUES ('r', 'a', 'T', BYTES)`,
	`UPDATE open_calls SET sealed_params = BYTES`,
})

// resealWant are the places that those are sealed for.
var resealWant = []string{
	" vault_keys k sealed", "default events e sealed", "default inbox d sealed", "default integration_flows s sealed", "default integrations i sealed", "default invocations approved sealed_params",
	"default invocations completed sealed_result", "default invocations executing sealed_params", "default invocations pending sealed_params",
	"default notify_channels slack sealed", "default oauth_flows f sealed", "default oauth_grants c sealed", "default provider_apps slack sealed",
	"default rounds r reply/a", "default rounds r sealed", "default secrets k sealed", "default signing_secrets w sealed",
}

// resealOnBoth has one value sealed with key "OLD.KEY!" in each column.
func resealOnBoth(t *testing.T, test func(t *testing.T, db *DB, raw *sql.DB)) {
	path := newPath(t)
	for name, c := range map[string]Config{"SQLite": {Path: path}, "Postgres": {URL: dbtest.Postgres(t)}} {
		t.Run(name, func(t *testing.T) {
			db, err := Open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.db.Close() })
			raw := db.db.Read.DB
			if c.Path != "" {
				raw = openRaw(t, path)
			}
			seed(t, raw)
			for _, text := range resealRows {
				if err := change(t, raw, text); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
			}
			for _, c := range sealedColumns() {
				text := fmt.Sprintf("UPDATE %s SET %s = $1 WHERE %[2]s IS NOT NULL", c.table, c.column)
				if _, err := raw.ExecContext(t.Context(), text, sealedWith("OLD.KEY!", "of "+c.table)); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
			}
			test(t, db, raw)
		})
	}
}

func sealedWith(key, plain string) []byte { return []byte("\x01" + key + plain) }

// rekey is what a vault does.
func rekey(places *[]string) func(action.Ref, []byte) ([]byte, error) {
	return func(ref action.Ref, sealed []byte) ([]byte, error) {
		*places = append(*places, strings.Join([]string{ref.Organization, ref.Table, ref.Row, ref.Column}, " "))
		return sealedWith("NEW.KEY!", string(sealed[9:])), nil
	}
}

func TestReseal(t *testing.T) {
	resealOnBoth(t, func(t *testing.T, db *DB, raw *sql.DB) {
		before := contents(t, raw)
		var places []string
		done, left, err := db.Reseal(t.Context(), []byte("NEW.KEY!"), rekey(&places))
		if done != len(resealWant) || left != 0 || err != nil {
			t.Fatalf("done %d, left %d, %v", done, left, err)
		}
		slices.Sort(places)
		if diff := cmp.Diff(resealWant, places); diff != "" {
			t.Errorf("places (-want +got):\n%s", diff)
		}
		after := contents(t, raw)
		if diff := cmp.Diff(strings.ReplaceAll(before, "OLD.KEY!", "NEW.KEY!"), after); diff != "" {
			t.Errorf("more than the key is another (-want +got):\n%s", diff)
		}
		places = nil
		if done, left, err = db.Reseal(t.Context(), []byte("NEW.KEY!"), rekey(&places)); done+left != 0 || err != nil || places != nil {
			t.Errorf("the second time: done %d, left %d, %v, %v", done, left, places, err)
		}
	})
}

// contents are the rows of the tables with sealed columns, as text.
func contents(t *testing.T, raw *sql.DB) string {
	t.Helper()
	var b strings.Builder
	tables := []string{}
	for _, c := range sealedColumns() {
		tables = append(tables, c.table+" ORDER BY "+strings.Join(c.key, ", "))
	}
	for _, from := range slices.Compact(tables) {
		rows, err := raw.QueryContext(t.Context(), "SELECT * FROM "+from)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		columns, err := rows.Columns()
		for err == nil && rows.Next() {
			values, to := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
			for i := range values {
				to[i] = &values[i]
			}
			if err = rows.Scan(to...); err == nil {
				fmt.Fprintf(&b, "%s %s\n", from, bytes.Join(rawOf(values), []byte("|")))
			}
		}
		if err := errors.Join(err, rows.Err()); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func rawOf(values []sql.RawBytes) [][]byte {
	list := make([][]byte, len(values))
	for i := range values {
		list[i] = values[i]
	}
	return list
}

// What changes while it is sealed anew stays as it was changed, and what is
// refused stays as it is.
func TestResealSkips(t *testing.T) {
	resealOnBoth(t, func(t *testing.T, db *DB, raw *sql.DB) {
		var places []string
		seal := rekey(&places)
		done, left, err := db.Reseal(t.Context(), []byte("NEW.KEY!"), func(ref action.Ref, sealed []byte) ([]byte, error) {
			switch ref.Table {
			case "secrets":
				return nil, errors.New("refused")
			case "oauth_grants":
				_, err := raw.ExecContext(context.Background(), "UPDATE oauth_grants SET version = 2, sealed = $1", sealedWith("NEW.KEY!", "newer"))
				return sealedWith("NEW.KEY!", "older"), err
			case "integration_flows":
				_, err := raw.ExecContext(context.Background(), "DELETE FROM integration_flows")
				return sealedWith("NEW.KEY!", "gone"), err
			}
			return seal(ref, sealed)
		})
		if want := len(resealWant) - 3; done != want || left != 3 || err != nil {
			t.Errorf("done %d, left %d, %v; want %d and 3", done, left, err, want)
		}
		all := contents(t, raw)
		for part, there := range map[string]bool{"NEW.KEY!newer": true, "NEW.KEY!older": false, "NEW.KEY!gone": false, "OLD.KEY!of secrets": true} {
			if strings.Contains(all, part) != there {
				t.Errorf("%s is there: %v", part, !there)
			}
		}
		if done, left, err = db.Reseal(t.Context(), []byte("NEW.KEY!"), seal); done != 1 || left != 0 || err != nil {
			t.Errorf("then: done %d, left %d, %v", done, left, err)
		}
	})
}

// Values of one time are more than a page, and what is refused does not hide
// what is behind it.
func TestResealPages(t *testing.T) {
	resealOnBoth(t, func(t *testing.T, db *DB, raw *sql.DB) {
		const n = 3*resealPageSize + 7
		for status, columns := range map[string]string{
			"pending":   "sealed_params = BYTES, expires_at = 'AT'",
			"approved":  "sealed_params = BYTES, approved_by = 'me', approved_at = 'AT'",
			"executing": "sealed_params = BYTES, approved_by = 'me', started_at = 'T', executor = 'e', lease_until = 'AT'",
			"completed": "sealed_result = BYTES, approved_by = 'me', started_at = 'T', completed_at = 'T', result = '{}', pickup_until = 'AT'",
		} {
			for i := range n {
				columns := strings.ReplaceAll(columns, "AT", fmt.Sprintf("2026-01-01T00:00:%02d.000000Z", 2-i/resealPageSize/2))
				if err := insertRow(t, raw, fmt.Sprintf("%s %d", status, i), status, columns); err != nil {
					t.Fatal(err)
				}
			}
		}
		asked, refused := map[string]int{}, 0
		done, left, err := db.Reseal(t.Context(), []byte("NEW.KEY!"), func(ref action.Ref, _ []byte) ([]byte, error) {
			if asked[ref.Table+ref.Row+ref.Column]++; len(asked)%3 == 0 {
				refused++
				return nil, errors.New("refused")
			}
			return sealedWith("NEW.KEY!", "again"), nil
		})
		if want := 4*n + len(resealWant); done+left != want || left != refused || len(asked) != want || err != nil {
			t.Errorf("done %d, left %d of %d, asked for %d, %d refused, %v", done, left, want, len(asked), refused, err)
		}
	})
}

// No page reads what it does not need: calls at rest, and those before it.
func TestResealUsesIndexes(t *testing.T) {
	index := map[string]string{"expires_at": "open_calls_expiry", "approved_at": "open_calls_unclaimed", "lease_until": "open_calls_lease", "pickup_until": "invocations_sealed"}
	t.Run("SQLite", func(t *testing.T) {
		db := openAt(t, newPath(t))
		for _, c := range sealedColumns() {
			query := c.page(db.db.Read, []byte("NEW.KEY!"), c.firstRow()).String()
			want := index[c.timeColumn]
			if c.timeColumn == "" {
				want = "(" + c.key[0]
			}
			if plan := explain(t, db, query); !strings.Contains(plan, want) || !strings.Contains(plan, ">?)") && !strings.Contains(plan, ">(?,?") || strings.Contains(plan, "SCAN") {
				t.Errorf("no %s in the plan of %s\n%s", want, query, plan)
			}
		}
	})
	t.Run("Postgres", func(t *testing.T) {
		db := openBusy(t)
		for _, c := range sealedColumns() {
			if c.timeColumn == "" {
				continue // few rows
			}
			query := c.page(db.db.Read, []byte("NEW.KEY!"), c.firstRow()).String()
			if plan := explainPostgres(t, db, query); !strings.Contains(plan, index[c.timeColumn]) || strings.Contains(plan, "Seq Scan") {
				t.Errorf("no %s in the plan of %s\n%s", index[c.timeColumn], query, plan)
			}
		}
	})
}

// Each may be stopped after any value, and two may do it at once.
func TestResealConcurrently(t *testing.T) {
	resealOnBoth(t, func(t *testing.T, db *DB, raw *sql.DB) {
		for i := range 300 {
			text := fmt.Sprintf(`INSERT INTO secrets (organization_id, key, host, sealed, updated_by, created_at, updated_at) VALUES ('default', 'k%03d', 'h', $1, 'me', '%s', '%[2]s')`, i, when)
			if _, err := raw.ExecContext(t.Context(), text, sealedWith("OLD.KEY!", "secret")); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var places []string
		seal := rekey(&places)
		done, _, err := db.Reseal(ctx, []byte("NEW.KEY!"), func(ref action.Ref, sealed []byte) ([]byte, error) {
			if len(places) == 100 {
				cancel()
			}
			return seal(ref, sealed)
		})
		if !errors.Is(err, context.Canceled) || done < 50 || done > 200 {
			t.Fatalf("stopped after %d with %v", done, err)
		}
		type result struct {
			done int
			err  error
		}
		results := make(chan result)
		for range 2 {
			go func() {
				var places []string
				n, _, err := db.Reseal(t.Context(), []byte("NEW.KEY!"), rekey(&places))
				results <- result{n, err}
			}()
		}
		a, b := <-results, <-results
		if err := errors.Join(a.err, b.err); err != nil || done+a.done+b.done != 300+len(resealWant) {
			t.Errorf("done %d, then %d and %d, of %d: %v", done, a.done, b.done, 300+len(resealWant), err)
		}
		if all := contents(t, raw); strings.Contains(all, "OLD.KEY!") {
			t.Errorf("some are as they were:\n%s", all)
		}
	})
}
