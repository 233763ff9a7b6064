package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/uptrace/bun"
)

// The kinds of rows that are sealed.
const (
	sealedInvocation = "invocation"
	sealedEvent      = "event"
	sealedPolicy     = "policy"
)

// evidence is a table whose rows are sealed.
type evidence struct {
	kind, table string
	columns     []string // that the digest covers, sorted
	order       []string // in which all rows of an organization can be read
	session     []string // columns of its session that the digest covers, too: who asked
}

// names are those of all that the digest covers.
func (e evidence) names() []string {
	names := slices.Clone(e.columns)
	for _, column := range e.session {
		names = append(names, "session "+column)
	}
	return names
}

// evidenceTables are all of them. The columns leave out encrypted values and those of
// delivery, which change after the end.
//
// A column that is added later must be covered, and be NULL in rows that were sealed
// before: the digest leaves NULL out. Those of invocations are in invocationTable.
var evidenceTables = []evidence{
	{
		sealedInvocation, "invocations", slices.Sorted(slices.Values(digestColumns.names())),
		[]string{"created_at", "id"},
		[]string{"automation_id", "connections", "created_by", "event_id", "group_id", "kind", "task_id"},
	},
	{sealedEvent, "invocation_events", []string{"at", "by", "data", "id", "invocation_id", "kind", "organization_id"}, []string{"invocation_id", "at", "id"}, nil},
	{sealedPolicy, "policy_events", []string{"after", "at", "before", "by", "id", "kind", "organization_id", "subject"}, []string{"at", "id"}, nil},
}

// goneDigest stands for a row that was not there any more when it was to be
// sealed.
var goneDigest = make([]byte, sha256.Size)

// rows selects those with the ids. The organization is an expression, so that
// the primary key is taken and not an index of all that is the organization's.
func (e evidence) rows(db bun.IDB, organization string, ids []string) *bun.SelectQuery {
	q := db.NewSelect().TableExpr("? AS r", bun.Ident(e.table))
	for _, column := range e.columns {
		q = q.ColumnExpr("r.?", bun.Ident(column))
	}
	if len(e.session) > 0 {
		q = q.Join("LEFT JOIN sessions AS s ON s.id = r.session_id")
	}
	for _, column := range e.session {
		q = q.ColumnExpr("s.?", bun.Ident(column))
	}
	return q.Where("r.id IN (?) AND r.organization_id || '' = ?", bun.List(ids), organization)
}

const withIDs = "id IN (?) AND organization_id || '' = ?"

// rowKey names a row of evidence.
type rowKey struct{ kind, id string }

// digests of the rows of an organization, as far as they are there. It holds
// one row at a time.
func (db *DB) digests(ctx context.Context, organization string, keys []rowKey) (map[rowKey][]byte, error) {
	found := make(map[rowKey][]byte, len(keys))
	for _, e := range evidenceTables {
		ids := ofKind(keys, e.kind)
		if len(ids) == 0 {
			continue
		}
		d := e.digester()
		err := db.each(ctx, e.rows(db.read, organization, ids), func(rows *sql.Rows) error {
			id, digest, err := d.digest(rows)
			found[rowKey{e.kind, id}] = digest
			return err
		})
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, fmt.Errorf("reading what was sealed of %s: %w", e.table, err)
		}
	}
	return found, nil
}

func ofKind(keys []rowKey, kind string) (ids []string) {
	for _, k := range keys {
		if k.kind == kind {
			ids = append(ids, k.id)
		}
	}
	return ids
}

// digester digests rows of one table, one after the other.
type digester struct {
	evidence
	covered      []string
	values, dest []any
	text         []byte
}

func (e evidence) digester() *digester {
	names := e.names()
	d := &digester{evidence: e, covered: names, values: make([]any, len(names)), dest: make([]any, len(names))}
	for i := range d.values {
		d.dest[i] = &d.values[i]
	}
	return d
}

// digest of the current row: of its kind, and of the names and values that are
// not NULL, each with its length.
func (d *digester) digest(rows *sql.Rows) (id string, digest []byte, err error) {
	if err := rows.Scan(d.dest...); err != nil {
		return "", nil, err
	}
	text := sized(sized(d.text[:0], "sallyport row 1"), d.kind)
	for i, name := range d.covered {
		if d.values[i] == nil {
			continue
		}
		value, err := lexeme(d.values[i])
		if err != nil {
			return "", nil, fmt.Errorf("column %s: %w", name, err)
		}
		if name == "id" {
			id = value
		}
		text = sized(sized(text, name), value)
	}
	d.text = text
	sum := sha256.Sum256(text)
	return id, sum[:], nil
}

// lexeme is a value in the one form that it has whatever the database: of a
// time that of [layout], which is how SQLite has it.
func lexeme(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case []byte:
		return string(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case time.Time:
		return v.UTC().Format(layout), nil
	}
	return "", fmt.Errorf("a value is a %T", v)
}
