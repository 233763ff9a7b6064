package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/history"
)

// sealedColumn is a column of sealed bytes. Each value is sealed for its table,
// column and row (the last part of the key), unless ref returns another
// reference.
type sealedColumn struct {
	table, column      string
	key                []string // the primary key
	organization       string   // an expression; the row's alias is t
	status, timeColumn string   // for invocations, a status and the column that precedes the key in its index; an empty timeColumn means the key alone
	ref                func(key []string) (table, row, column string)
}

// sealedColumns lists all sealed columns. Values that move to another column as
// a call progresses move to a later entry.
func sealedColumns() []sealedColumn {
	const own, none = "t.organization_id", "''"
	return []sealedColumn{
		{table: "vault_keys", column: "sealed", key: []string{"name"}, organization: none},
		{table: "secrets", column: "sealed", key: []string{"organization_id", "key"}, organization: own},
		{table: "oauth_grants", column: "sealed", key: []string{"organization_id", "connector_id"}, organization: own},
		{table: "oauth_flows", column: "sealed", key: []string{"state_hash"}, organization: own},
		{table: "integrations", column: "sealed", key: []string{"id"}, organization: own},
		{table: "provider_apps", column: "sealed", key: []string{"organization_id", "provider"}, organization: own},
		{table: "integration_flows", column: "sealed", key: []string{"state_hash"}, organization: own},
		{table: "signing_secrets", column: "sealed", key: []string{"id"}, organization: own},
		{table: "variables", column: "sealed", key: []string{"organization_id", "workspace_id", "name"}, organization: own, ref: variableRef},
		{table: "notify_channels", column: "sealed", key: []string{"organization_id", "kind"}, organization: own},
		{table: "inbox", column: "sealed", key: []string{"id"}, organization: own},
		{table: "events", column: "sealed", key: []string{"id"}, organization: own},
		{table: "env_requests", column: "sealed", key: []string{"id"}, organization: own},
		{table: "rounds", column: "sealed", key: []string{"id"}, organization: own},
		{
			table: "round_replies", column: "sealed", key: []string{"round_id", "key"},
			organization: "(SELECT r.organization_id FROM rounds AS r WHERE r.id = t.round_id)", ref: replyRef,
		},
		{table: "open_calls", column: "sealed_params", key: []string{"id"}, organization: own, status: "pending", timeColumn: "expires_at", ref: paramsRef},
		{table: "open_calls", column: "sealed_params", key: []string{"id"}, organization: own, status: "approved", timeColumn: "approved_at", ref: paramsRef},
		{table: "open_calls", column: "sealed_params", key: []string{"id"}, organization: own, status: "executing", timeColumn: "lease_until", ref: paramsRef},
		{table: "invocations", column: "sealed_result", key: []string{"id"}, organization: own, timeColumn: "pickup_until"},
	}
}

// paramsRef returns the reference of the params of an open call, which is that of
// the call.
func paramsRef(key []string) (table, row, column string) {
	return "invocations", key[0], "sealed_params"
}

// variableRef returns the reference of a variable, which names its workspace.
func variableRef(key []string) (table, row, column string) {
	ref := action.VariableRef(key[0], key[1], key[2])
	return ref.Table, ref.Row, ref.Column
}

// replyRef returns the reference of a reply, which is that of its round,
// because the instance that opened the round opens its replies.
func replyRef(key []string) (table, row, column string) {
	return "rounds", key[0], "reply/" + key[1]
}

func (c *sealedColumn) refOf(organization string, key []string) action.Ref {
	ref := action.Ref{Organization: organization, Table: c.table, Row: key[len(key)-1], Column: c.column}
	if c.ref != nil {
		ref.Table, ref.Row, ref.Column = c.ref(key)
	}
	return ref
}

// resealPageSize is the number of values that are read and replaced at a time.
const resealPageSize = 50

// Reseal replaces every sealed value that another master key than keyID sealed
// (bytes 2 to 9 name the key) with the result of seal. It counts the replaced
// values, and those skipped because seal failed or they changed concurrently;
// another call finds these again. It can be interrupted at any time and run
// concurrently.
func (db *DB) Reseal(ctx context.Context, keyID []byte, seal func(action.Ref, []byte) ([]byte, error)) (done, skipped int, err error) {
	if err := db.db.Flush(ctx); err != nil {
		return 0, 0, err
	}
	for _, c := range sealedColumns() {
		n, remaining, err := db.resealColumn(ctx, &c, keyID, seal)
		done, skipped = done+n, skipped+remaining
		if err != nil {
			return done, skipped, fmt.Errorf("resealing %s.%s: %w", c.table, c.column, err)
		}
	}
	return done, skipped, nil
}

// resealColumn processes a column in pages. Values are sealed outside of the
// write transaction, and replaced by compare-and-swap.
func (db *DB) resealColumn(ctx context.Context, c *sealedColumn, keyID []byte, seal func(action.Ref, []byte) ([]byte, error)) (done, skipped int, err error) {
	for page, after := []sealedRow(nil), c.firstRow(); ; after = page[resealPageSize-1] {
		if page, err = db.readOutdated(ctx, c, keyID, after); err != nil {
			return done, skipped, err
		}
		var list []sealedRow
		for _, r := range page {
			if r.replacement, err = seal(c.refOf(r.organization, r.key), r.current); err == nil {
				list = append(list, r)
			}
		}
		n, err := db.replaceSealed(ctx, c, list)
		done, skipped = done+n, skipped+len(page)-n
		if err != nil || len(page) < resealPageSize {
			return done, skipped, err
		}
	}
}

// sealedRow is a sealed value and its replacement.
type sealedRow struct {
	key                  []string
	at                   database.Timestamp // the value of timeColumn, if any
	organization         string
	current, replacement []byte
}

// firstRow returns a cursor before all rows.
func (c *sealedColumn) firstRow() sealedRow {
	return sealedRow{key: make([]string, len(c.key)), at: database.Epoch}
}

// readOutdated returns a page of values that another master key sealed.
func (db *DB) readOutdated(ctx context.Context, c *sealedColumn, keyID []byte, after sealedRow) (page []sealedRow, err error) {
	err = db.db.ForEachRow(ctx, c.page(db.db.Read, keyID, after), func(rows *sql.Rows) error {
		r := c.firstRow()
		dest := []any{&r.organization, &r.current}
		if c.timeColumn != "" {
			dest = append(dest, &r.at)
		}
		for i := range r.key {
			dest = append(dest, &r.key[i])
		}
		err := rows.Scan(dest...)
		page = append(page, r)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return page, err
}

func (c *sealedColumn) page(db bun.IDB, keyID []byte, after sealedRow) *bun.SelectQuery {
	var order []string
	var bounds []any
	if c.timeColumn != "" {
		order, bounds = append(order, "t."+c.timeColumn), append(bounds, after.at)
	}
	for i, part := range c.key {
		order, bounds = append(order, "t."+part), append(bounds, after.key[i])
	}
	columns := strings.Join(order, ", ")
	q := db.NewSelect().TableExpr(c.table+" AS t").ColumnExpr(c.organization+", t."+c.column+", "+columns).
		Where("t."+c.column+" IS NOT NULL").Where("substr(t."+c.column+", 2, ?) <> ?", len(keyID), keyID).
		Where("("+columns+") > (?)", bun.List(bounds))
	if c.status != "" {
		q = q.Where("t.status = ?", c.status)
	}
	return q.OrderExpr(columns).Limit(resealPageSize)
}

// replaceSealed returns the number of replaced values. All transactions lock
// the rows in the same order.
func (db *DB) replaceSealed(ctx context.Context, c *sealedColumn, list []sealedRow) (n int, err error) {
	if len(list) == 0 {
		return 0, ctx.Err()
	}
	slices.SortFunc(list, func(a, b sealedRow) int { return slices.Compare(a.key, b.key) })
	err = db.db.Write.Do(ctx, &database.Job{InTransaction: true, Run: func(ctx context.Context, tx bun.IDB) error {
		n = 0
		for _, r := range list {
			q := tx.NewUpdate().TableExpr(c.table+" AS t").Set("? = ?", bun.Ident(c.column), r.replacement).Where("t.? = ?", bun.Ident(c.column), r.current)
			for i, part := range c.key {
				q = q.Where("t.? = ?", bun.Ident(part), r.key[i])
			}
			affected, err := database.RowsAffected(q.Exec(ctx))
			if err != nil {
				return err
			}
			n += affected
		}
		return nil
	}})
	return n, err
}

// Rotation is a replacement of the master key. Key IDs reveal nothing about the
// keys.
type Rotation struct {
	Organization string // whose history records it
	KeyID        string // of the new key
	Old          []string
	By           string
}

// previousKeys is the state before a rotation in its history event.
type previousKeys struct {
	KeyIDs []string `json:"key_ids"`
}

// RecordRotation records a rotation in the history, unless it is already the
// newest one: an interrupted rotation that resumes is recorded once.
func (db *DB) RecordRotation(ctx context.Context, r Rotation) error {
	return db.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		last, err := lastRotation(ctx, tx, r.Organization)
		if err != nil || last.KeyID == r.KeyID {
			return err
		}
		e := action.PolicyEvent{Organization: r.Organization, Kind: action.EventMasterKey, Subject: r.KeyID, By: r.By}
		return db.RecordChange(ctx, tx, e, previousKeys{r.Old}, map[string]string{"key_id": r.KeyID})
	})
}

// LastRotation returns the newest rotation; its KeyID is empty if there was
// none.
func (db *DB) LastRotation(ctx context.Context, organization string) (Rotation, error) {
	return lastRotation(ctx, db.db.Read, organization)
}

func lastRotation(ctx context.Context, tx bun.IDB, organization string) (r Rotation, err error) {
	var rows []history.PolicyEventRow
	var old previousKeys
	f := action.PolicyEventFilter{Organization: organization, Kind: action.EventMasterKey}
	if err = history.PolicyEventsQuery(f, tx, database.Cursor{}, 0).Scan(ctx, &rows); err == nil && len(rows) > 0 { // a limit of zero selects one row
		r = Rotation{Organization: organization, KeyID: rows[0].Subject, By: rows[0].By}
		err = json.Unmarshal([]byte(rows[0].Before), &old)
		r.Old = old.KeyIDs
	}
	if err != nil {
		err = fmt.Errorf("reading the last rotation: %w", err)
	}
	return r, err
}
