package evidence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/store/calls"
	"sallyport/store/database"
)

// SealBatch is the number of rows that one transaction seals: a compromise between few
// commits and short waits for calls in between.
const SealBatch = 200

// ErrConcurrentAppend means that another instance extended the same chain first.
var ErrConcurrentAppend = errors.New("another instance appended to the audit log")

// QueuedRow is a row that ended and is not sealed.
type QueuedRow struct {
	RowKey
	sealed bool // already sealed, but still in the queue
}

// SealErrors holds the organizations whose chains could not be extended, with the reasons.
// The key "" holds the error of reading the queue.
type SealErrors map[string]error

// Error implements error.
func (u SealErrors) Error() string { return errors.Join(u.Unwrap()...).Error() }

// Unwrap returns the reasons, in the order of the organizations.
func (u SealErrors) Unwrap() (list []error) {
	for _, organization := range slices.Sorted(maps.Keys(u)) {
		list = append(list, u[organization])
	}
	return list
}

// Seal appends up to limit (default 100) queued rows to the chains of their organizations,
// without the excluded ones, using a key of at least 32 bytes. The organization with the
// oldest queued row comes first. It returns the number of sealed rows, not counting those
// whose commit was not confirmed. If that equals limit, there may be more.
//
// Any number of instances can seal concurrently; exactly one of them creates each link.
// Rows are read and hashed outside of the writer. The error, a [SealErrors], holds the
// organizations with broken chains; the others are sealed nonetheless. A row that was
// deleted before it was sealed gets a link with [MissingDigest].
func (st *Store) Seal(ctx context.Context, key []byte, limit int, exclude ...string) (n int, err error) {
	k, err := newAuditKey(key)
	if err != nil {
		return 0, err
	}
	limit = database.LimitOrDefault(limit)
	failed := SealErrors{}
	for conflicts := 0; n < limit && conflicts < calls.MaxRaceRetries; {
		list, err := st.QueuedOrganizations(ctx)
		list = slices.DeleteFunc(list, func(o string) bool { return failed[o] != nil || slices.Contains(exclude, o) })
		if err != nil {
			failed[""] = err
		}
		if len(list) == 0 {
			break
		}
		for _, organization := range list {
			if n == limit {
				break
			}
			done, err := st.sealBatch(ctx, k, organization, min(limit-n, SealBatch))
			switch {
			case err == nil:
				n += done
			case errors.Is(err, ErrConcurrentAppend):
				conflicts++
			default:
				failed[organization] = err
			}
		}
	}
	if len(failed) > 0 {
		return n, failed
	}
	return n, nil
}

// Sealable returns why an organization's chain cannot be extended, or nil if its head and
// checkpoint are valid. It does not check the links; see [Store.VerifyAudit].
func (st *Store) Sealable(ctx context.Context, organization string, key []byte) error {
	k, err := newAuditKey(key)
	if err == nil {
		_, err = st.sealable(ctx, k, organization)
	}
	return err
}

func (st *Store) sealable(ctx context.Context, k AuditKey, organization string) (*chain, error) {
	c, err := st.LoadChain(ctx, organization)
	if err != nil {
		return nil, err
	}
	if f := c.faults(k); len(f) > 0 {
		return nil, c.brokenError(f[0], "sealed")
	}
	return c, nil
}

// QueuedOrganizationsSQL finds the organizations with rows in a queue and the oldest row
// of each. It skips through the index, so that its cost depends on the number of
// organizations and not of rows.
func QueuedOrganizationsSQL(queue string) string {
	return strings.ReplaceAll(`WITH RECURSIVE w (id) AS (
  SELECT min(organization_id) FROM seal_queue
  UNION ALL SELECT (SELECT min(q.organization_id) FROM seal_queue q WHERE q.organization_id > w.id) FROM w WHERE w.id IS NOT NULL)
SELECT w.id, (SELECT min(q.row_id) FROM seal_queue q WHERE q.organization_id = w.id) FROM w WHERE w.id IS NOT NULL`, sealQueue, queue)
}

// QueuedOrganizations returns the organizations with queued rows, the one with the oldest
// row first.
func (st *Store) QueuedOrganizations(ctx context.Context) (list []string, err error) {
	oldest := map[string]string{}
	for _, queue := range []string{sealQueue, refusalQueue} {
		err = st.db.ForEachRow(ctx, st.db.Read.NewRaw(QueuedOrganizationsSQL(queue)), func(rows *sql.Rows) error {
			var organization, row string
			err := rows.Scan(&organization, &row)
			if known := oldest[organization]; known == "" || row < known {
				oldest[organization] = row
			}
			return err
		})
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, fmt.Errorf("reading unsealed rows: %w", err)
		}
	}
	list = slices.Collect(maps.Keys(oldest))
	slices.SortFunc(list, func(a, b string) int { return strings.Compare(oldest[a]+a, oldest[b]+b) })
	return list, nil
}

// QueuedRows selects an organization's oldest rows in the queue of audit rows.
func QueuedRows(db bun.IDB, organization string, limit int) *bun.SelectQuery {
	return db.NewSelect().TableExpr("seal_queue AS q").ColumnExpr("q.kind, q.row_id").
		ColumnExpr("(SELECT s.seq FROM audit_seals AS s WHERE s.row_id = q.row_id AND s.kind = q.kind) IS NOT NULL").
		Where("q.organization_id = ?", organization).OrderExpr("q.row_id, q.kind").Limit(int64(limit))
}

// QueuedRefusals selects an organization's oldest counts of refusals in their queue.
func QueuedRefusals(db bun.IDB, organization string, limit int) *bun.SelectQuery {
	return db.NewSelect().TableExpr("refusal_queue AS q").ColumnExpr("?, q.row_id", SealedRefusal).
		ColumnExpr("(SELECT s.seq FROM audit_seals AS s WHERE s.row_id = q.row_id AND s.kind = ?) IS NOT NULL", SealedRefusal).
		Where("q.organization_id = ?", organization).OrderExpr("q.row_id").Limit(int64(limit))
}

// sealBatch seals an organization's oldest queued rows and returns their number.
func (st *Store) sealBatch(ctx context.Context, k AuditKey, organization string, limit int) (int, error) {
	var list []QueuedRow
	for _, oldest := range []func(bun.IDB, string, int) *bun.SelectQuery{QueuedRows, QueuedRefusals} {
		if len(list) == limit {
			break
		}
		err := st.db.ForEachRow(ctx, oldest(st.db.Read, organization, limit-len(list)), func(rows *sql.Rows) error {
			var w QueuedRow
			err := rows.Scan(&w.Kind, &w.ID, &w.sealed)
			list = append(list, w)
			return err
		})
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return 0, fmt.Errorf("reading unsealed rows: %w", err)
		}
	}
	if len(list) == 0 {
		return 0, nil
	}
	return len(list), st.SealRows(ctx, k, organization, list)
}

// SealRows appends a batch of rows to their organization's chain.
func (st *Store) SealRows(ctx context.Context, k AuditKey, organization string, rows []QueuedRow) error {
	c, err := st.sealable(ctx, k, organization)
	if err != nil {
		return err
	}
	links, err := st.digestLinks(ctx, organization, rows)
	if err != nil {
		return err
	}
	head := k.Extend(c, links, database.NewTimestamp(st.db.Now()))
	return st.db.Write.Do(ctx, &database.Job{InTransaction: true, Unordered: true, Run: func(ctx context.Context, tx bun.IDB) error {
		if err := c.Append(ctx, tx, st.stmts.link, st.stmts.links, head, links); err != nil {
			return err
		}
		for _, e := range Tables {
			if err := e.dequeue(ctx, tx, organization, rows); err != nil {
				return fmt.Errorf("sealing %s: %w", e.Name, err)
			}
		}
		return nil
	}})
}

// digestLinks returns a link without its position for each row that is not sealed.
func (st *Store) digestLinks(ctx context.Context, organization string, rows []QueuedRow) ([]SealRow, error) {
	var keys []RowKey
	for _, w := range rows {
		if !w.sealed {
			keys = append(keys, w.RowKey)
		}
	}
	digests, err := st.Digests(ctx, organization, keys)
	if err != nil {
		return nil, err
	}
	links := make([]SealRow, 0, len(keys))
	for _, key := range keys {
		digest, ok := digests[key]
		if !ok {
			digest = MissingDigest
		}
		links = append(links, SealRow{Organization: organization, Kind: key.Kind, Row: key.ID, Digest: digest})
	}
	return links, nil
}

// Extend gives the links their places behind the chain's last one, and returns
// the head that they make.
func (k AuditKey) Extend(c *chain, links []SealRow, now database.Timestamp) position {
	seq, hash := c.last.seq, c.last.hash
	for i := range links {
		l := &links[i]
		seq++
		l.Seq, l.At = seq, now
		l.Hash = k.link(hash, l)
		hash = l.Hash
	}
	return position{seq: seq, hash: hash, mac: k.head(c.organization, seq, hash, now), at: now}
}

// Append writes links and the resulting head. It returns [ErrConcurrentAppend] if the
// chain was extended meanwhile.
func (c *chain) Append(ctx context.Context, tx bun.IDB, one, many *database.Statement, head position, links []SealRow) error {
	if len(links) == 0 {
		return nil
	}
	n, err := database.RowsAffected(tx.NewRaw(`INSERT INTO audit_heads (organization_id, seq, hash, mac, at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (organization_id) DO UPDATE SET seq = EXCLUDED.seq, hash = EXCLUDED.hash, mac = EXCLUDED.mac, at = EXCLUDED.at
		WHERE audit_heads.seq = ? AND audit_heads.hash = ?`,
		c.organization, head.seq, head.hash, head.mac, head.at, c.head.seq, c.head.hash).Exec(ctx))
	if err != nil {
		return fmt.Errorf("updating the head of the audit log: %w", err)
	}
	if n == 0 {
		return ErrConcurrentAppend
	}
	err = insertLinks(ctx, tx, one, many, links)
	if database.IsUniqueViolation(err) {
		return ErrConcurrentAppend
	}
	if err != nil {
		return fmt.Errorf("writing links of the audit log: %w", err)
	}
	return nil
}

// insertLinks writes consecutive links. With prepared statements it writes many per
// statement and the rest one by one, because parsing one long text takes longer than
// writing the rows.
func insertLinks(ctx context.Context, tx bun.IDB, one, many *database.Statement, links []SealRow) error {
	if one.Prepared == nil {
		_, err := tx.NewInsert().Model(&links).Exec(ctx)
		return err
	}
	args := make([]any, 0, 3+4*linksPerStatement)
	for ; len(links) >= linksPerStatement; links = links[linksPerStatement:] {
		args = append(args[:0], links[0].Organization, links[0].Seq, links[0].At)
		for _, l := range links[:linksPerStatement] {
			args = append(args, l.Kind, l.Row, l.Digest, l.Hash)
		}
		if _, err := many.Exec(ctx, tx, args...); err != nil {
			return err
		}
	}
	for i := range links {
		l := &links[i]
		if _, err := one.Exec(ctx, tx, l.Organization, l.Seq, l.Kind, l.Row, l.Digest, l.Hash, l.At); err != nil {
			return err
		}
	}
	return nil
}

// linksPerStatement is the number of links that [InsertLinksSQL] writes.
const linksPerStatement = 20

// InsertLinksSQL writes linksPerStatement consecutive links.
var InsertLinksSQL = func() string {
	text := `INSERT INTO audit_seals (organization_id, seq, sealed_at, kind, row_id, digest, hash) VALUES `
	for i := range linksPerStatement {
		text += fmt.Sprintf(`(?1, ?2 + %d, ?3, ?%d, ?%d, ?%d, ?%d), `, i, 4*i+4, 4*i+5, 4*i+6, 4*i+7)
	}
	return strings.TrimSuffix(text, ", ")
}()

// InsertLinkSQL writes one link.
const InsertLinkSQL = `INSERT INTO audit_seals (organization_id, seq, kind, row_id, digest, hash, sealed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)`

// dequeue takes the rows of one table out of the queue.
func (e table) dequeue(ctx context.Context, tx bun.IDB, organization string, rows []QueuedRow) error {
	var ids []string
	for _, w := range rows {
		if w.Kind == e.Kind {
			ids = append(ids, w.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := e.DeleteQueued(tx, organization, ids).Exec(ctx)
	return err
}

// DeleteQueued deletes rows of the table from its queue.
func (e table) DeleteQueued(db bun.IDB, organization string, ids []string) *bun.DeleteQuery {
	q := db.NewDelete().Table(e.Queue).Where("organization_id = ?", organization)
	if e.Queue == sealQueue {
		q = q.Where("kind = ?", e.Kind)
	}
	return q.Where("row_id IN (?)", bun.List(ids))
}
