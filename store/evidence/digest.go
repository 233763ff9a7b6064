package evidence

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/calls"
	"sallyport/store/database"
)

// Kinds of sealed rows.
const (
	SealedInvocation = "invocation"
	SealedEvent      = "event"
	SealedPolicy     = "policy"
	SealedRefusal    = "refusal"
)

// table is a table whose rows are sealed.
type table struct {
	Kind, Name     string
	Columns        []string // that the digest covers, sorted
	orderColumns   []string // sort order in which an index has the organization's rows
	sessionColumns []string // columns of the row's session that the digest covers as well
	Queue          string   // the table in which rows wait for their seal
}

// Tables are the sealed tables. The digest does not cover encrypted columns or those of
// the delivery, which change after the end of a call.
//
// A new column must be covered and be NULL in rows that were sealed earlier, because the
// digest skips NULL. The columns of invocations are declared in [calls.InvocationTable].
var Tables = []table{
	{
		SealedInvocation, "invocations", slices.Sorted(slices.Values(calls.DigestColumns.Names())),
		[]string{"created_at", "id"},
		[]string{"automation_id", "connections", "created_by", "event_id", "group_id", "kind", "task_id"},
		sealQueue,
	},
	{SealedEvent, "invocation_events", []string{"at", "by", "data", "id", "invocation_id", "kind", "organization_id"}, []string{"invocation_id", "at", "id"}, nil, sealQueue},
	{SealedPolicy, "policy_events", []string{"after", "at", "before", "by", "id", "kind", "organization_id", "subject"}, []string{"at", "id"}, nil, sealQueue},
	{
		SealedRefusal, "refusal_counts",
		[]string{"action", "count", "first_at", "id", "kind", "last_at", "organization_id", "session_id", "source_id"},
		[]string{"last_at", "id"},
		nil, refusalQueue,
	},
}

// The queues. Counts of refusals have their own, which instances of versions before
// them do not know: these would seal them as rows that are missing.
const (
	sealQueue    = "seal_queue"
	refusalQueue = "refusal_queue"
)

// MissingDigest replaces the digest of a row that was deleted before it was sealed.
var MissingDigest = make([]byte, sha256.Size)

// Rows selects the rows with the IDs. The organization is an expression so that the
// planner uses the primary key instead of the organization's index.
func (e table) Rows(db bun.IDB, organization string, ids []string) *bun.SelectQuery {
	q := db.NewSelect().TableExpr("? AS r", bun.Ident(e.Name))
	for _, column := range e.Columns {
		q = q.ColumnExpr("r.?", bun.Ident(column))
	}
	if len(e.sessionColumns) > 0 {
		q = q.Join("LEFT JOIN sessions AS s ON s.id = r.session_id")
	}
	for _, column := range e.sessionColumns {
		q = q.ColumnExpr("s.?", bun.Ident(column))
	}
	return q.Where("r.id IN (?) AND r.organization_id || '' = ?", bun.List(ids), organization)
}

// RowKey identifies a sealed row.
type RowKey struct{ Kind, ID string }

// Digests returns the digests of those rows of an organization that exist. It keeps one
// row in memory at a time.
func (st *Store) Digests(ctx context.Context, organization string, keys []RowKey) (map[RowKey][]byte, error) {
	found := make(map[RowKey][]byte, len(keys))
	for _, e := range Tables {
		var ids []string
		for _, k := range keys {
			if k.Kind == e.Kind {
				ids = append(ids, k.ID)
			}
		}
		if len(ids) == 0 {
			continue
		}
		d := e.digester()
		err := st.db.ForEachRow(ctx, e.Rows(st.db.Read, organization, ids), func(rows *sql.Rows) error {
			id, digest, err := d.digest(rows)
			found[RowKey{e.Kind, id}] = digest
			return err
		})
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, fmt.Errorf("reading the sealed rows of %s: %w", e.Name, err)
		}
	}
	return found, nil
}

// digester computes the digests of rows of one table.
type digester struct {
	table
	covered      []string
	values, dest []any
	text         []byte
}

func (e table) digester() *digester {
	names := slices.Clone(e.Columns)
	for _, column := range e.sessionColumns {
		names = append(names, "session "+column)
	}
	d := &digester{table: e, covered: names, values: make([]any, len(names)), dest: make([]any, len(names))}
	for i := range d.values {
		d.dest[i] = &d.values[i]
	}
	return d
}

// digest returns the digest of the current row: the hash of its kind and of the names and
// values that are not NULL, each prefixed with its length.
func (d *digester) digest(rows *sql.Rows) (id string, digest []byte, err error) {
	if err := rows.Scan(d.dest...); err != nil {
		return "", nil, err
	}
	text := appendField(appendField(d.text[:0], "sallyport row 1"), d.Kind)
	for i, name := range d.covered {
		if d.values[i] == nil {
			continue
		}
		value, err := canonicalValue(d.values[i])
		if err != nil {
			return "", nil, fmt.Errorf("column %s: %w", name, err)
		}
		if name == "id" {
			id = value
		}
		text = appendField(appendField(text, name), value)
	}
	d.text = text
	sum := sha256.Sum256(text)
	return id, sum[:], nil
}

// canonicalValue formats a value independently of the database. Times have the format
// [database.Layout], as in SQLite.
func canonicalValue(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case []byte:
		return string(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case time.Time:
		return v.UTC().Format(database.Layout), nil
	}
	return "", fmt.Errorf("cannot format a %T", v)
}

// SealSQL reads the seal of an invocation.
const SealSQL = `SELECT seq, digest, sealed_at FROM audit_seals WHERE row_id = ? AND kind = 'invocation' AND organization_id || '' = ?`

// Evidence returns the digest and seal of an invocation, which may be open, or ErrNotFound.
// It compares the row with its seal but does not verify the chain; see [Store.VerifyAudit].
func (st *Store) Evidence(ctx context.Context, organization, id string) (e action.Evidence, err error) {
	of := Tables[0]
	of.Name = "all_calls"
	d := of.digester()
	var digest []byte
	err = st.db.ForEachRow(ctx, of.Rows(st.db.Read, organization, []string{id}), func(rows *sql.Rows) (err error) {
		_, digest, err = d.digest(rows)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return e, database.InvocationNotFound(id)
	}
	if err != nil {
		return e, fmt.Errorf("reading invocation %s: %w", id, err)
	}
	e.Digest = hex.EncodeToString(digest)
	var sealed []byte
	var at, delivered database.Timestamp
	err = st.db.ForEachRow(ctx, st.db.Read.NewRaw(SealSQL, id, organization), func(rows *sql.Rows) error { return rows.Scan(&e.Seq, &sealed, &at) })
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return e, fmt.Errorf("reading the seal of invocation %s: %w", id, err)
	}
	e.SealedAt, e.Changed = at.Ptr(), sealed != nil && !bytes.Equal(sealed, digest)
	q := st.db.Read.NewSelect().Table("all_calls").Column("delivered_at").Where("id = ?", id)
	if err := st.db.ForEachRow(ctx, q, func(rows *sql.Rows) error { return rows.Scan(&delivered) }); err != nil {
		return e, fmt.Errorf("reading the delivery of invocation %s: %w", id, err)
	}
	e.DeliveredAt = delivered.Ptr()
	return e, nil
}
