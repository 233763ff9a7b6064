package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/uptrace/bun"
)

// plan is what one transaction of retention does.
type plan struct {
	chain  *chain
	cut    checkpoint
	gone   []string // invocations
	events int      // of them, which go too
	stay   []sealRow
}

// remains is what retention looks at.
type remains struct {
	links  []sealRow
	ended  map[string]stamp    // of invocations
	events map[string][]string // of invocations
	owner  map[string]string   // of events
}

// read finds when invocations ended, and which events are whose.
func (r *remains) read(ctx context.Context, db *DB, organization string) error {
	r.ended, r.events, r.owner = map[string]stamp{}, map[string][]string{}, map[string]string{}
	var ids []string
	for _, l := range r.links {
		if l.Kind == sealedInvocation {
			ids = append(ids, l.Row)
		}
	}
	err := db.each(ctx, endsOf(db.read, organization, ids), func(rows *sql.Rows) error {
		var id string
		var ended stamp
		err := rows.Scan(&id, &ended)
		r.ended[id] = ended
		return err
	})
	if err == nil {
		err = db.each(ctx, eventsOf(db.read, organization, ids), func(rows *sql.Rows) error {
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

func endsOf(db bun.IDB, organization string, ids []string) *bun.SelectQuery {
	return db.NewSelect().Table("invocations").Column("id", "completed_at").Where(withIDs, bun.List(ids), organization)
}

func eventsOf(db bun.IDB, organization string, ids []string) *bun.SelectQuery {
	return db.NewSelect().Table("invocation_events").Column("id", "invocation_id").
		Where("organization_id = ?", organization).Where("invocation_id IN (?)", bun.List(ids))
}

// plan decides what goes and what stays.
func (r *remains) plan(k auditKey, c *chain, before stamp, limit int, now stamp) *plan {
	r.links = r.links[:r.due(before, limit)]
	here := map[rowKey]bool{}
	for _, l := range r.links {
		here[rowKey{l.Kind, l.Row}] = true
	}
	whole := func(invocation string) bool {
		late := func(event string) bool { return !here[rowKey{sealedEvent, event}] }
		return here[rowKey{sealedInvocation, invocation}] && !slices.ContainsFunc(r.events[invocation], late)
	}
	p := &plan{chain: c}
	for _, l := range r.links {
		switch {
		case l.Kind == sealedInvocation && whole(l.Row):
			p.gone, p.events = append(p.gone, l.Row), p.events+len(r.events[l.Row])
		case l.Kind == sealedEvent && whole(r.owner[l.Row]):
		default:
			p.stay = append(p.stay, sealRow{Organization: l.Organization, Kind: l.Kind, Row: l.Row, Digest: l.Digest})
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
func (r *remains) due(before stamp, limit int) (n int) {
	for i, l := range r.links {
		switch {
		case l.Kind == sealedPolicy:
		case l.Kind == sealedEvent && r.owner[l.Row] == "":
		case l.Kind == sealedEvent:
			n = i + 1
		case limit == 0 || !r.ended[l.Row].t.Before(before.t):
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
