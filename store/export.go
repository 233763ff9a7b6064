package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

const (
	// exportRows is how many rows an export holds at most.
	exportRows = 100

	// exportStep is at how many it looks in one statement.
	exportStep = 1000
)

// Export gives yield every invocation that the filter matches, oldest first,
// and stops at yield's error, which it returns. The filter's limit and cursor
// are not asked. It reads in parts and holds nothing open meanwhile, so that
// yield may take its time. A read that is still queued may be missing.
func (db *DB) Export(ctx context.Context, f action.InvocationFilter, yield func(action.Invocation) error) error {
	s, err := db.search(ctx, f)
	if err != nil {
		return err
	}
	within := s.f.span()
	s.oldest = true
	for n := exportRows; ; n = exportStep { // who reads sees the first ones soon
		places, err := db.step(ctx, s, &within, n)
		if err != nil {
			return fmt.Errorf("exporting invocations: %w", err)
		}
		last := len(places) < n
		if places, err = db.fulfilling(ctx, s, places); err != nil {
			return fmt.Errorf("exporting invocations: %w", err)
		}
		if err := db.exportAt(ctx, s, places, yield); err != nil || last {
			return err
		}
	}
}

// exportAt hands over the invocations at the places.
func (db *DB) exportAt(ctx context.Context, s *search, places []cursor, yield func(action.Invocation) error) error {
	for some := range slices.Chunk(places, exportRows) {
		list, err := db.at(ctx, s, some)
		if err != nil {
			return fmt.Errorf("exporting invocations: %w", err)
		}
		for _, inv := range list {
			if err := yield(inv); err != nil {
				return err
			}
		}
	}
	return nil
}

// policyPart selects changes of policy, oldest first.
func policyPart(db bun.IDB, organization string, after cursor, from, to time.Time) *bun.SelectQuery {
	q := db.NewSelect().Model((*policyEventRow)(nil)).Where("organization_id = ?", organization).OrderExpr("at, id").Limit(exportRows)
	if !to.IsZero() {
		q = q.Where("at < ?", at(to))
	}
	if after.id != "" {
		return q.Where("(at, id) > (?, ?)", after.at, after.id)
	}
	return q.Where("at >= ?", at(from).or(epoch))
}

// ExportPolicy gives yield every change of the organization's policy from one
// time, which is part of it, to another, which is not, in the same way as
// [DB.Export]. A zero time is no bound.
func (db *DB) ExportPolicy(ctx context.Context, organization string, from, to time.Time, yield func(action.PolicyEvent) error) error {
	for after, n := (cursor{}), exportRows; n == exportRows; {
		var rows []policyEventRow
		if err := policyPart(db.read, organization, after, from, to).Scan(ctx, &rows); err != nil {
			return fmt.Errorf("exporting changes of policy: %w", err)
		}
		for _, r := range rows {
			after = cursor{r.At, r.ID}
			if err := yield(r.event()); err != nil {
				return err
			}
		}
		n = len(rows)
	}
	return nil
}
