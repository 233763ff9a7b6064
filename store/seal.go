package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"
)

// sealBatch is how many rows one transaction seals: so many, that few commits
// do; so few, that calls get between two of them.
const sealBatch = 200

// errOvertaken tells that another instance added to the same chain first.
var errOvertaken = errors.New("the chain went on meanwhile")

// waiting is a row that ended and is not sealed.
type waiting struct {
	rowKey
	organization string
	sealed       bool // it is, and should not wait
}

// Seal links up to limit rows that ended (zero: 100) to the chains of their
// organizations, oldest first, with a key of at least 32 bytes, and returns how
// many it were, but for those whose commit was not answered. While that is
// limit, there may be more.
//
// Any number of instances may seal at once: each link is made by one of them.
// Rows are read and hashed outside of the writer. An organization whose chain
// does not hold is an error, and the others are sealed all the same; a row that
// vanished before it was sealed gets a link that says so.
func (db *DB) Seal(ctx context.Context, key []byte, limit int) (n int, err error) {
	k, err := newAuditKey(key)
	if err != nil {
		return 0, err
	}
	limit = orHundred(limit)
	var failed []string
	var errs []error
	for lost := 0; n < limit && lost < lostRaces; {
		rows, err := db.waiting(ctx, failed, min(limit-n, sealBatch))
		if err != nil || len(rows) == 0 {
			return n, errors.Join(append(errs, err)...)
		}
		for len(rows) > 0 {
			organization := rows[0].organization
			mine, others := split(rows, func(w waiting) bool { return w.organization == organization })
			rows = others
			switch err := db.sealRows(ctx, k, organization, mine); {
			case err == nil:
				n += len(mine)
			case errors.Is(err, errOvertaken):
				lost++
			default:
				failed, errs = append(failed, organization), append(errs, err)
			}
		}
	}
	return n, errors.Join(errs...)
}

// split keeps the order of both parts.
func split[T any](list []T, in func(T) bool) (yes, no []T) {
	for _, v := range list {
		if in(v) {
			yes = append(yes, v)
		} else {
			no = append(no, v)
		}
	}
	return yes, no
}

// waitingRows selects the oldest, but for those of some organizations.
func waitingRows(db bun.IDB, but []string, limit int) *bun.SelectQuery {
	q := db.NewSelect().TableExpr("audit_queue AS q").ColumnExpr("q.kind, q.row_id, q.organization_id").
		ColumnExpr("(SELECT s.seq FROM audit_seals AS s WHERE s.row_id = q.row_id AND s.kind = q.kind) IS NOT NULL").
		OrderExpr("q.row_id, q.kind").Limit(int64(limit))
	if len(but) > 0 {
		q = q.Where("q.organization_id NOT IN (?)", bun.List(but))
	}
	return q
}

func (db *DB) waiting(ctx context.Context, but []string, limit int) (list []waiting, err error) {
	err = db.each(ctx, waitingRows(db.read, but, limit), func(rows *sql.Rows) error {
		var w waiting
		err := rows.Scan(&w.kind, &w.id, &w.organization, &w.sealed)
		list = append(list, w)
		return err
	})
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("reading what waits to be sealed: %w", err)
	}
	return list, nil
}

// sealRows adds a batch of rows to their organization's chain.
func (db *DB) sealRows(ctx context.Context, k auditKey, organization string, rows []waiting) error {
	c, err := db.chain(ctx, organization)
	if err != nil {
		return err
	}
	if f := c.faults(k); len(f) > 0 {
		return c.broken(f[0], "sealed")
	}
	links, err := db.digested(ctx, organization, rows)
	if err != nil {
		return err
	}
	head := k.extend(c, links, at(db.now()))
	return db.write.do(ctx, &job{whole: true, run: func(ctx context.Context, tx bun.IDB) error {
		if err := c.append(ctx, tx, head, links); err != nil {
			return err
		}
		for _, e := range evidenceTables {
			if err := e.unqueue(ctx, tx, rows); err != nil {
				return fmt.Errorf("sealing %s: %w", e.table, err)
			}
		}
		return nil
	}})
}

// digested returns a link, without its place, of each row that has none.
func (db *DB) digested(ctx context.Context, organization string, rows []waiting) ([]sealRow, error) {
	var keys []rowKey
	for _, w := range rows {
		if !w.sealed {
			keys = append(keys, w.rowKey)
		}
	}
	digests, err := db.digests(ctx, organization, keys)
	if err != nil {
		return nil, err
	}
	links := make([]sealRow, 0, len(keys))
	for _, key := range keys {
		digest, ok := digests[key]
		if !ok {
			digest = goneDigest
		}
		links = append(links, sealRow{Organization: organization, Kind: key.kind, Row: key.id, Digest: digest})
	}
	return links, nil
}

// extend gives the links their places behind the chain's last one, and returns
// the head that they make.
func (k auditKey) extend(c *chain, links []sealRow, now stamp) mark {
	seq, hash := c.last.seq, c.last.hash
	for i := range links {
		l := &links[i]
		seq++
		l.Seq, l.At = seq, now
		l.Hash = k.link(hash, l)
		hash = l.Hash
	}
	return mark{seq: seq, hash: hash, mac: k.head(c.organization, seq, hash, now), at: now}
}

// append writes links and the head that they make, unless the chain went on.
func (c *chain) append(ctx context.Context, tx bun.IDB, head mark, links []sealRow) error {
	if len(links) == 0 {
		return nil
	}
	n, err := affected(tx.NewRaw(`INSERT INTO audit_heads (organization_id, seq, hash, mac, at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (organization_id) DO UPDATE SET seq = EXCLUDED.seq, hash = EXCLUDED.hash, mac = EXCLUDED.mac, at = EXCLUDED.at
		WHERE audit_heads.seq = ? AND audit_heads.hash = ?`,
		c.organization, head.seq, head.hash, head.mac, head.at, c.head.seq, c.head.hash).Exec(ctx))
	if err != nil {
		return fmt.Errorf("moving the head of the evidence: %w", err)
	}
	if n == 0 {
		return errOvertaken
	}
	_, err = tx.NewInsert().Model(&links).Exec(ctx)
	if taken(err) {
		return errOvertaken
	}
	if err != nil {
		return fmt.Errorf("writing links of the evidence: %w", err)
	}
	return nil
}

// unqueue takes the rows of one table out of the queue.
func (e evidence) unqueue(ctx context.Context, tx bun.IDB, rows []waiting) error {
	var ids []string
	for _, w := range rows {
		if w.kind == e.kind {
			ids = append(ids, w.id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := dequeue(tx, e.kind, ids).Exec(ctx)
	return err
}

// dequeue deletes them from the queue.
func dequeue(db bun.IDB, kind string, ids []string) *bun.DeleteQuery {
	return db.NewDelete().Table("audit_queue").Where("kind = ?", kind).Where("row_id IN (?)", bun.List(ids))
}
