package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"
)

// Retain removes up to limit (zero: 100) of the organization's invocations that
// ended before a time, with their events, and returns how many it were. While
// that is limit, there may be more. Those whose commit was not answered are not
// counted.
//
// It removes what is at the beginning of the chain of evidence, and leaves a
// checkpoint. What there must stay is sealed again at the chain's end, with the
// digest that it had: changes of policy, which are kept for ever, and
// invocations with an event that is sealed later. It stops at the first
// invocation that ended later, and at a row or link that is not what was
// sealed: what was tampered with is not removed by this.
func (db *DB) Retain(ctx context.Context, organization string, before time.Time, key []byte, limit int) (n int, err error) {
	k, err := newAuditKey(key)
	if err != nil {
		return 0, err
	}
	limit = orHundred(limit)
	c, err := db.chain(ctx, organization)
	if err != nil {
		return 0, err
	}
	for lost := 0; n < limit && lost < lostRaces; {
		p, err := db.planCut(ctx, k, organization, at(before), limit-n)
		if err == nil && (p == nil || p.cut.seq > c.last.seq) { // once round is enough
			return n, nil
		}
		if err == nil {
			err = db.cut(ctx, k, p)
		}
		switch {
		case err == nil:
			n += len(p.gone)
		case errors.Is(err, errOvertaken):
			lost++
		default:
			return n, fmt.Errorf("removing old invocations: %w", err)
		}
	}
	return n, nil
}

// planCut looks what can be removed of the chain's first links; nil when there
// is nothing.
func (db *DB) planCut(ctx context.Context, k auditKey, organization string, before stamp, limit int) (*plan, error) {
	c, err := db.chain(ctx, organization)
	if err != nil {
		return nil, err
	}
	if f := c.faults(k); len(f) > 0 {
		return nil, c.broken(f[0], "removed")
	}
	// The first invocation decides whether there is anything to do: changes of
	// policy before it are sealed again only for its sake.
	first, err := db.firstSealed(ctx, organization, c.cut.seq)
	if err != nil || first.t.IsZero() || !first.t.Before(before.t) {
		return nil, err
	}
	links, err := db.sound(ctx, k, c)
	if err != nil {
		return nil, err
	}
	r := &remains{links: links}
	if err := r.read(ctx, db, organization); err != nil {
		return nil, err
	}
	return r.plan(k, c, before, limit, at(db.now())), nil
}

// firstSQL finds when the invocation of the first link ended that has one.
const firstSQL = `SELECT i.completed_at FROM audit_seals s JOIN invocations i ON i.id = s.row_id
WHERE s.organization_id = ? AND s.seq > ? AND s.kind = 'invocation' ORDER BY s.seq LIMIT 1`

func (db *DB) firstSealed(ctx context.Context, organization string, after int64) (ended stamp, err error) {
	err = db.each(ctx, db.read.NewRaw(firstSQL, organization, after), func(rows *sql.Rows) error { return rows.Scan(&ended) })
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return stamp{}, fmt.Errorf("reading the beginning of the evidence: %w", err)
	}
	return ended, nil
}

// sound returns the first links, up to one that does not hold.
func (db *DB) sound(ctx context.Context, k auditKey, c *chain) ([]sealRow, error) {
	v := &verification{db: db, key: k, organization: c.organization}
	p, err := v.part(ctx, c.cut.mark, min(c.last.seq, c.cut.seq+sealBatch))
	if err != nil {
		return nil, fmt.Errorf("checking the beginning of the evidence: %w", err)
	}
	if len(p.faults) == 0 {
		return p.links, nil
	}
	f := p.faults[0]
	good := slices.IndexFunc(p.links, func(l sealRow) bool { return l.Seq >= f.Seq })
	if good > 0 {
		return p.links[:good], nil
	}
	now, err := db.chain(ctx, c.organization)
	switch {
	case err != nil:
		return nil, err
	case now.cut.seq != c.cut.seq:
		return nil, errOvertaken
	}
	return nil, c.broken(f, "removed")
}

// cut removes what is planned, unless something changed meanwhile.
func (db *DB) cut(ctx context.Context, k auditKey, p *plan) error {
	c := p.chain
	head := k.extend(c, p.stay, p.cut.at)
	return db.write.do(ctx, &job{whole: true, run: func(ctx context.Context, tx bun.IDB) error {
		if err := p.check(ctx, tx); err != nil {
			return err
		}
		n, err := affected(tx.NewRaw(`INSERT INTO audit_checkpoints (organization_id, seq, hash, mac, until, at, removed) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (organization_id) DO UPDATE SET seq = EXCLUDED.seq, hash = EXCLUDED.hash, mac = EXCLUDED.mac,
			until = EXCLUDED.until, at = EXCLUDED.at, removed = EXCLUDED.removed WHERE audit_checkpoints.seq = ?`,
			c.organization, p.cut.seq, p.cut.hash, p.cut.mac, p.cut.until, p.cut.at, p.cut.removed, c.cut.seq).Exec(ctx))
		if err != nil {
			return err
		}
		if n == 0 {
			return errOvertaken
		}
		if len(p.gone) > 0 {
			if _, err := removeRows(tx, c.organization, p.gone).Exec(ctx); err != nil {
				return err
			}
		}
		_, err = tx.NewDelete().Table("audit_seals").Where("organization_id = ?", c.organization).Where("seq <= ?", p.cut.seq).Exec(ctx)
		if err != nil {
			return err
		}
		return c.append(ctx, tx, &db.stmts.link, &db.stmts.links, head, p.stay)
	}})
}

func removeRows(db bun.IDB, organization string, ids []string) *bun.DeleteQuery {
	return db.NewDelete().Table("invocations").Where(withIDs, bun.List(ids), organization)
}

// check sees to it that nobody appends an event to what goes, and that nobody
// did: it would be lost without a trace.
func (p *plan) check(ctx context.Context, tx bun.IDB) error {
	if len(p.gone) == 0 {
		return nil
	}
	if shared(tx) {
		lock := tx.NewSelect().Table("invocations").Column("id").Where(withIDs, bun.List(p.gone), p.chain.organization).Order("id").For("UPDATE")
		if _, err := lock.Exec(ctx); err != nil {
			return err
		}
	}
	n, err := eventsOf(tx, p.chain.organization, p.gone).Count(ctx)
	if err == nil && n != int64(p.events) {
		err = errOvertaken
	}
	return err
}
