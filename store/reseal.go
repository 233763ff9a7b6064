package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// sealedColumn is a column of sealed bytes, and the place that each of them is
// sealed for: the last part of the row's key, unless place says another.
type sealedColumn struct {
	table, column string
	key           []string // the primary key
	organization  string   // an expression; the row is t
	where         string   // further rows cannot have the column; empty: all may
	place         func(key []string) (table, row, column string)
}

// sealedColumns are all of them.
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
		{table: "rounds", column: "sealed", key: []string{"id"}, organization: own},
		{
			table: "round_replies", column: "sealed", key: []string{"round_id", "key"},
			organization: "(SELECT r.organization_id FROM rounds AS r WHERE r.id = t.round_id)", place: placeOfReply,
		},
		{
			table: "invocations", column: "sealed_params", key: []string{"id"}, organization: own,
			where: "(t.status = 'pending' OR t.status = 'approved' OR t.status = 'executing')", // by their small indexes
		},
		{table: "invocations", column: "sealed_result", key: []string{"id"}, organization: own},
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

// keyColumns are the parts of the key, and what stands between them.
func (c *sealedColumn) keyColumns(between string) string {
	return "t." + strings.Join(c.key, between+"t.")
}

// rekeyBatch is how many values one transaction replaces.
const rekeyBatch = 50

// Reseal has every sealed value whose bytes 2 to 9, which name the master key,
// are others than keyID replaced by what seal makes of it; everything else of
// the rows stays. It counts those that were replaced, and those that are left
// because seal refused them or they changed meanwhile, which another call finds.
// It can be stopped at any time, and several may do it at once.
func (db *DB) Reseal(ctx context.Context, keyID []byte, seal func(action.Ref, []byte) ([]byte, error)) (done, left int, err error) {
	if err := db.Flush(ctx); err != nil {
		return 0, 0, err
	}
	for _, c := range sealedColumns() {
		keys, err := db.sealedOtherwise(ctx, &c, keyID)
		if err != nil {
			return done, left, fmt.Errorf("looking for what another key sealed in %s: %w", c.table, err)
		}
		for some := range slices.Chunk(keys, rekeyBatch) {
			if err := ctx.Err(); err != nil {
				return done, left, err
			}
			n, over, err := db.resealSome(ctx, &c, keyID, some, seal)
			if err != nil {
				return done, left, fmt.Errorf("sealing %s.%s anew: %w", c.table, c.column, err)
			}
			done, left = done+n, left+over
		}
	}
	return done, left, nil
}

// sealedOtherwise are the keys of the rows that another master key sealed.
func (db *DB) sealedOtherwise(ctx context.Context, c *sealedColumn, keyID []byte) (keys [][]string, err error) {
	q := otherwise(db.read, c, keyID).ColumnExpr(c.keyColumns(", "))
	err = db.each(ctx, q, func(rows *sql.Rows) error {
		key := make([]string, len(c.key))
		keys = append(keys, key)
		return rows.Scan(into(key)...)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	slices.SortFunc(keys, slices.Compare) // all lock rows in one order
	return keys, err
}

func otherwise(db bun.IDB, c *sealedColumn, keyID []byte) *bun.SelectQuery {
	q := db.NewSelect().TableExpr(c.table+" AS t").Where("t."+c.column+" IS NOT NULL").Where("substr(t."+c.column+", 2, ?) <> ?", len(keyID), keyID)
	if c.where != "" {
		q = q.Where(c.where)
	}
	return q
}

// resealed is a value that replaces another.
type resealed struct {
	key      []string
	old, now []byte
}

// resealSome reads the values, seals them outside of the writer, and replaces
// those that are as they were.
func (db *DB) resealSome(ctx context.Context, c *sealedColumn, keyID []byte, keys [][]string, seal func(action.Ref, []byte) ([]byte, error)) (done, left int, err error) {
	var list []resealed
	for _, key := range keys {
		r, organization := resealed{key: key}, ""
		q := otherwise(db.read, c, keyID).ColumnExpr(c.organization + ", t." + c.column)
		err := db.each(ctx, c.one(q.QueryBuilder(), key).Unwrap().(*bun.SelectQuery), func(rows *sql.Rows) error {
			return rows.Scan(&organization, &r.old)
		})
		switch {
		case errors.Is(err, sql.ErrNoRows):
			continue // it is gone, or somebody else did it
		case err != nil:
			return 0, 0, err
		}
		if r.now, err = seal(c.ref(organization, key), r.old); err != nil {
			left++
			continue
		}
		list = append(list, r)
	}
	done, err = db.replaceSealed(ctx, c, list)
	return done, left + len(list) - done, err
}

func (db *DB) replaceSealed(ctx context.Context, c *sealedColumn, list []resealed) (n int, err error) {
	if len(list) == 0 {
		return 0, nil
	}
	err = db.write.do(ctx, &job{whole: true, run: func(ctx context.Context, tx bun.IDB) error {
		n = 0
		for _, r := range list {
			q := tx.NewUpdate().TableExpr(c.table+" AS t").Set("? = ?", bun.Ident(c.column), r.now).Where("t.? = ?", bun.Ident(c.column), r.old)
			one, err := affected(c.one(q.QueryBuilder(), r.key).Unwrap().(*bun.UpdateQuery).Exec(ctx))
			if err != nil {
				return err
			}
			n += one
		}
		return nil
	}})
	return n, err
}

// one narrows a query to the row of a key.
func (c *sealedColumn) one(q bun.QueryBuilder, key []string) bun.QueryBuilder {
	for i, part := range c.key {
		q = q.Where("t.? = ?", bun.Ident(part), key[i])
	}
	return q
}

// into has a row scanned into the parts.
func into(parts []string) []any {
	to := make([]any, len(parts))
	for i := range parts {
		to[i] = &parts[i]
	}
	return to
}
