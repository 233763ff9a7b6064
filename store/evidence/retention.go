package evidence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"sallyport/store/calls"
	"sallyport/store/database"
)

// plan is what one transaction of retention does.
type plan struct {
	chain  *chain
	cut    checkpoint
	gone   []string // invocations
	events int      // of them, which go too
	stay   []SealRow
}

// remains is what retention looks at.
type remains struct {
	links  []SealRow
	ended  map[string]database.Stamp // of invocations
	events map[string][]string       // of invocations
	owner  map[string]string         // of events
}

// read finds when invocations ended, and which events are whose.
func (r *remains) read(ctx context.Context, db *Store, organization string) error {
	r.ended, r.events, r.owner = map[string]database.Stamp{}, map[string][]string{}, map[string]string{}
	var ids []string
	for _, l := range r.links {
		if l.Kind == SealedInvocation {
			ids = append(ids, l.Row)
		}
	}
	err := db.db.Each(ctx, EndsOf(db.db.Read, organization, ids), func(rows *sql.Rows) error {
		var id string
		var ended database.Stamp
		err := rows.Scan(&id, &ended)
		r.ended[id] = ended
		return err
	})
	if err == nil {
		err = db.db.Each(ctx, EventsOf(db.db.Read, organization, ids), func(rows *sql.Rows) error {
			var event, owner string
			err := rows.Scan(&event, &owner)
			r.owner[event], r.events[owner] = owner, append(r.events[owner], event)
			return err
		})
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("reading old invocations: %w", err)
	}
	return nil
}

func EndsOf(db bun.IDB, organization string, ids []string) *bun.SelectQuery {
	return db.NewSelect().Table("invocations").Column("id", "completed_at").Where(database.WithIDs, bun.List(ids), organization)
}

func EventsOf(db bun.IDB, organization string, ids []string) *bun.SelectQuery {
	return db.NewSelect().Table("invocation_events").Column("id", "invocation_id").
		Where("organization_id = ?", organization).Where("invocation_id IN (?)", bun.List(ids))
}

// plan decides what goes and what stays.
func (r *remains) plan(k AuditKey, c *chain, before database.Stamp, limit int, now database.Stamp) *plan {
	r.links = r.links[:r.due(before, limit)]
	here := map[RowKey]bool{}
	for _, l := range r.links {
		here[RowKey{l.Kind, l.Row}] = true
	}
	whole := func(invocation string) bool {
		late := func(event string) bool { return !here[RowKey{SealedEvent, event}] }
		return here[RowKey{SealedInvocation, invocation}] && !slices.ContainsFunc(r.events[invocation], late)
	}
	p := &plan{chain: c}
	for _, l := range r.links {
		switch {
		case l.Kind == SealedInvocation && whole(l.Row):
			p.gone, p.events = append(p.gone, l.Row), p.events+len(r.events[l.Row])
		case l.Kind == SealedEvent && whole(r.owner[l.Row]):
		default:
			p.stay = append(p.stay, SealRow{Organization: l.Organization, Kind: l.Kind, Row: l.Row, Digest: l.Digest})
		}
	}
	last := r.links[len(r.links)-1]
	p.cut = checkpoint{mark: mark{seq: last.Seq, hash: last.Hash, at: now}, until: before, removed: c.cut.removed + int64(len(p.gone))}
	p.cut.mac = k.checkpoint(c.organization, &p.cut)
	return p
}

// due is the number of links before the first invocation that must stay for
// its age, or would be one more than the limit. What follows the last
// invocation of them and is none of its events is left where it is.
func (r *remains) due(before database.Stamp, limit int) (n int) {
	for i, l := range r.links {
		switch {
		case l.Kind == SealedPolicy:
		case l.Kind == SealedEvent && r.owner[l.Row] == "":
		case l.Kind == SealedEvent:
			n = i + 1
		case limit == 0 || !r.ended[l.Row].T.Before(before.T):
			return n
		default:
			n, limit = i+1, limit-1
		}
	}
	if n == 0 {
		return len(r.links) // the first invocation comes later
	}
	return n
}

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
func (st *Store) Retain(ctx context.Context, organization string, before time.Time, key []byte, limit int) (n int, err error) {
	k, err := newAuditKey(key)
	if err != nil {
		return 0, err
	}
	limit = database.OrHundred(limit)
	c, err := st.Chain(ctx, organization)
	if err != nil {
		return 0, err
	}
	for lost := 0; n < limit && lost < calls.LostRaces; {
		p, err := st.planCut(ctx, k, organization, database.At(before), limit-n)
		if err == nil && (p == nil || p.cut.seq > c.last.seq) { // once round is enough
			return n, nil
		}
		if err == nil {
			err = st.cut(ctx, k, p)
		}
		switch {
		case err == nil:
			n += len(p.gone)
		case errors.Is(err, ErrOvertaken):
			lost++
		default:
			return n, fmt.Errorf("removing old invocations: %w", err)
		}
	}
	return n, nil
}

// planCut looks what can be removed of the chain's first links; nil when there
// is nothing.
func (st *Store) planCut(ctx context.Context, k AuditKey, organization string, before database.Stamp, limit int) (*plan, error) {
	c, err := st.Chain(ctx, organization)
	if err != nil {
		return nil, err
	}
	if f := c.faults(k); len(f) > 0 {
		return nil, c.broken(f[0], "removed")
	}
	// The first invocation decides whether there is anything to do: changes of
	// policy before it are sealed again only for its sake.
	first, err := st.firstSealed(ctx, organization, c.cut.seq)
	if err != nil || first.T.IsZero() || !first.T.Before(before.T) {
		return nil, err
	}
	links, err := st.sound(ctx, k, c)
	if err != nil {
		return nil, err
	}
	r := &remains{links: links}
	if err := r.read(ctx, st, organization); err != nil {
		return nil, err
	}
	return r.plan(k, c, before, limit, database.At(st.db.Now())), nil
}

// FirstSQL finds when the invocation of the first link ended that has one.
const FirstSQL = `SELECT i.completed_at FROM audit_seals s JOIN invocations i ON i.id = s.row_id
WHERE s.organization_id = ? AND s.seq > ? AND s.kind = 'invocation' ORDER BY s.seq LIMIT 1`

func (st *Store) firstSealed(ctx context.Context, organization string, after int64) (ended database.Stamp, err error) {
	err = st.db.Each(ctx, st.db.Read.NewRaw(FirstSQL, organization, after), func(rows *sql.Rows) error { return rows.Scan(&ended) })
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return database.Stamp{}, fmt.Errorf("reading the beginning of the evidence: %w", err)
	}
	return ended, nil
}

// sound returns the first links, up to one that does not hold.
func (st *Store) sound(ctx context.Context, k AuditKey, c *chain) ([]SealRow, error) {
	v := &Verification{DB: st, Key: k, Organization: c.organization}
	p, err := v.part(ctx, c.cut.mark, min(c.last.seq, c.cut.seq+SealBatch))
	if err != nil {
		return nil, fmt.Errorf("checking the beginning of the evidence: %w", err)
	}
	if len(p.faults) == 0 {
		return p.links, nil
	}
	f := p.faults[0]
	good := slices.IndexFunc(p.links, func(l SealRow) bool { return l.Seq >= f.Seq })
	if good > 0 {
		return p.links[:good], nil
	}
	now, err := st.Chain(ctx, c.organization)
	switch {
	case err != nil:
		return nil, err
	case now.cut.seq != c.cut.seq:
		return nil, ErrOvertaken
	}
	return nil, c.broken(f, "removed")
}

// cut removes what is planned, unless something changed meanwhile.
func (st *Store) cut(ctx context.Context, k AuditKey, p *plan) error {
	c := p.chain
	head := k.Extend(c, p.stay, p.cut.at)
	return st.db.Write.Do(ctx, &database.Job{Whole: true, Run: func(ctx context.Context, tx bun.IDB) error {
		if err := p.check(ctx, tx); err != nil {
			return err
		}
		n, err := database.Affected(tx.NewRaw(`INSERT INTO audit_checkpoints (organization_id, seq, hash, mac, until, at, removed) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (organization_id) DO UPDATE SET seq = EXCLUDED.seq, hash = EXCLUDED.hash, mac = EXCLUDED.mac,
			until = EXCLUDED.until, at = EXCLUDED.at, removed = EXCLUDED.removed WHERE audit_checkpoints.seq = ?`,
			c.organization, p.cut.seq, p.cut.hash, p.cut.mac, p.cut.until, p.cut.at, p.cut.removed, c.cut.seq).Exec(ctx))
		if err != nil {
			return err
		}
		if n == 0 {
			return ErrOvertaken
		}
		if len(p.gone) > 0 {
			if _, err := RemoveRows(tx, c.organization, p.gone).Exec(ctx); err != nil {
				return err
			}
		}
		_, err = tx.NewDelete().Table("audit_seals").Where("organization_id = ?", c.organization).Where("seq <= ?", p.cut.seq).Exec(ctx)
		if err != nil {
			return err
		}
		return c.Append(ctx, tx, st.stmts.link, st.stmts.links, head, p.stay)
	}})
}

func RemoveRows(db bun.IDB, organization string, ids []string) *bun.DeleteQuery {
	return db.NewDelete().Table("invocations").Where(database.WithIDs, bun.List(ids), organization)
}

// check sees to it that nobody appends an event to what goes, and that nobody
// did: it would be lost without a trace.
func (p *plan) check(ctx context.Context, tx bun.IDB) error {
	if len(p.gone) == 0 {
		return nil
	}
	if database.Shared(tx) {
		lock := tx.NewSelect().Table("invocations").Column("id").Where(database.WithIDs, bun.List(p.gone), p.chain.organization).Order("id").For("UPDATE")
		if _, err := lock.Exec(ctx); err != nil {
			return err
		}
	}
	n, err := EventsOf(tx, p.chain.organization, p.gone).Count(ctx)
	if err == nil && n != int64(p.events) {
		err = ErrOvertaken
	}
	return err
}
