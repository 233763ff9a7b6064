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

// sealedColumn is a column of sealed bytes, and the place that each of them is
// sealed for: the last part of the row's key, unless place says another.
type sealedColumn struct {
	table, column string
	key           []string // the primary key
	organization  string   // an expression; the row is t
	status, by    string   // of an invocation: its time in the status's index comes before the key; empty: the key alone
	place         func(key []string) (table, row, column string)
}

// sealedColumns are all of them. A call goes on to a later one, if anywhere.
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
		{table: "notify_channels", column: "sealed", key: []string{"organization_id", "kind"}, organization: own},
		{table: "inbox", column: "sealed", key: []string{"id"}, organization: own},
		{table: "events", column: "sealed", key: []string{"id"}, organization: own},
		{table: "env_requests", column: "sealed", key: []string{"id"}, organization: own},
		{table: "rounds", column: "sealed", key: []string{"id"}, organization: own},
		{
			table: "round_replies", column: "sealed", key: []string{"round_id", "key"},
			organization: "(SELECT r.organization_id FROM rounds AS r WHERE r.id = t.round_id)", place: placeOfReply,
		},
		{table: "invocations", column: "sealed_params", key: []string{"id"}, organization: own, status: "pending", by: "expires_at"},
		{table: "invocations", column: "sealed_params", key: []string{"id"}, organization: own, status: "approved", by: "approved_at"},
		{table: "invocations", column: "sealed_params", key: []string{"id"}, organization: own, status: "executing", by: "lease_until"},
		{table: "invocations", column: "sealed_result", key: []string{"id"}, organization: own, by: "pickup_until"},
	}
}

// placeOfReply is a round's: who asked opens the replies with it.
func placeOfReply(key []string) (table, row, column string) {
	return "rounds", key[0], "reply/" + key[1]
}

func (c *sealedColumn) ref(organization string, key []string) action.Ref {
	ref := action.Ref{Organization: organization, Table: c.table, Row: key[len(key)-1], Column: c.column}
	if c.place != nil {
		ref.Table, ref.Row, ref.Column = c.place(key)
	}
	return ref
}

// resealPage is how many values are read, and replaced, at a time.
const resealPage = 50

// Reseal has every sealed value whose bytes 2 to 9, which name the master key,
// are others than keyID replaced by what seal makes of it; everything else of
// the rows stays. It counts those that were replaced, and those that are left
// because seal refused them or they changed meanwhile, which another call finds.
// It can be stopped at any time, and several may do it at once.
func (db *DB) Reseal(ctx context.Context, keyID []byte, seal func(action.Ref, []byte) ([]byte, error)) (done, left int, err error) {
	if err := db.db.Flush(ctx); err != nil {
		return 0, 0, err
	}
	for _, c := range sealedColumns() {
		n, over, err := db.resealColumn(ctx, &c, keyID, seal)
		done, left = done+n, left+over
		if err != nil {
			return done, left, fmt.Errorf("sealing %s.%s anew: %w", c.table, c.column, err)
		}
	}
	return done, left, nil
}

// resealColumn goes through the column page by page. Values are sealed outside
// of the writer, and only those replaced that are as they were.
func (db *DB) resealColumn(ctx context.Context, c *sealedColumn, keyID []byte, seal func(action.Ref, []byte) ([]byte, error)) (done, left int, err error) {
	for page, after := []sealedRow(nil), c.start(); ; after = page[resealPage-1] {
		if page, err = db.sealedOtherwise(ctx, c, keyID, after); err != nil {
			return done, left, err
		}
		var list []sealedRow
		for _, r := range page {
			if r.now, err = seal(c.ref(r.organization, r.key), r.old); err == nil {
				list = append(list, r)
			}
		}
		n, err := db.replaceSealed(ctx, c, list)
		done, left = done+n, left+len(page)-n
		if err != nil || len(page) < resealPage {
			return done, left, err
		}
	}
}

// sealedRow is a value, and what replaces it.
type sealedRow struct {
	key          []string
	at           database.Timestamp // in the column's index by time, if it has one
	organization string
	old, now     []byte
}

// start is before all rows.
func (c *sealedColumn) start() sealedRow {
	return sealedRow{key: make([]string, len(c.key)), at: database.Epoch}
}

// sealedOtherwise is a page of what another master key sealed.
func (db *DB) sealedOtherwise(ctx context.Context, c *sealedColumn, keyID []byte, after sealedRow) (page []sealedRow, err error) {
	err = db.db.ForEachRow(ctx, c.page(db.db.Read, keyID, after), func(rows *sql.Rows) error {
		r := c.start()
		to := []any{&r.organization, &r.old}
		if c.by != "" {
			to = append(to, &r.at)
		}
		for i := range r.key {
			to = append(to, &r.key[i])
		}
		err := rows.Scan(to...)
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
	if c.by != "" {
		order, bounds = append(order, "t."+c.by), append(bounds, after.at)
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
	return q.OrderExpr(columns).Limit(resealPage)
}

// replaceSealed counts what it replaced. All lock the rows in one order.
func (db *DB) replaceSealed(ctx context.Context, c *sealedColumn, list []sealedRow) (n int, err error) {
	if len(list) == 0 {
		return 0, ctx.Err()
	}
	slices.SortFunc(list, func(a, b sealedRow) int { return slices.Compare(a.key, b.key) })
	err = db.db.Write.Do(ctx, &database.Job{InTransaction: true, Run: func(ctx context.Context, tx bun.IDB) error {
		n = 0
		for _, r := range list {
			q := tx.NewUpdate().TableExpr(c.table+" AS t").Set("? = ?", bun.Ident(c.column), r.now).Where("t.? = ?", bun.Ident(c.column), r.old)
			for i, part := range c.key {
				q = q.Where("t.? = ?", bun.Ident(part), r.key[i])
			}
			one, err := database.RowsAffected(q.Exec(ctx))
			if err != nil {
				return err
			}
			n += one
		}
		return nil
	}})
	return n, err
}

// Rotation is a replacement of the master key. Keys are named by what tells
// nothing of them.
type Rotation struct {
	Organization string // in whose history it stands
	KeyID        string // of the key that seals from now on
	Old          []string
	By           string
}

// oldKeys are what was before a rotation, in its event.
type oldKeys struct {
	KeyIDs []string `json:"key_ids"`
}

// RecordRotation writes a rotation into the history, unless it is the newest
// one there: one that was stopped and goes on is written down once.
func (db *DB) RecordRotation(ctx context.Context, r Rotation) error {
	return db.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		last, err := lastRotation(ctx, tx, r.Organization)
		if err != nil || last.KeyID == r.KeyID {
			return err
		}
		e := action.PolicyEvent{Organization: r.Organization, Kind: action.EventMasterKey, Subject: r.KeyID, By: r.By}
		return db.RecordChange(ctx, tx, e, oldKeys{r.Old}, map[string]string{"key_id": r.KeyID})
	})
}

// LastRotation is the newest one; without a KeyID there was none.
func (db *DB) LastRotation(ctx context.Context, organization string) (Rotation, error) {
	return lastRotation(ctx, db.db.Read, organization)
}

func lastRotation(ctx context.Context, tx bun.IDB, organization string) (r Rotation, err error) {
	var rows []history.PolicyEventRow
	var old oldKeys
	f := action.PolicyEventFilter{Organization: organization, Kind: action.EventMasterKey}
	if err = history.FindPolicyEvents(f, tx, database.Cursor{}, 0).Scan(ctx, &rows); err == nil && len(rows) > 0 { // a page of none, and the one that tells of more
		r = Rotation{Organization: organization, KeyID: rows[0].Subject, By: rows[0].By}
		err = json.Unmarshal([]byte(rows[0].Before), &old)
		r.Old = old.KeyIDs
	}
	if err != nil {
		err = fmt.Errorf("looking for the last rotation: %w", err)
	}
	return r, err
}
