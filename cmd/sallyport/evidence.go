package main

import "context"

// How many rows one transaction seals or removes: few enough that calls get
// between two of them.
const (
	sealBatch   = 200
	retainBatch = 100
)

// seal chains what ended since the last round.
func (g *gateway) seal(ctx context.Context) {
	for n := sealBatch; n == sealBatch && ctx.Err() == nil; {
		var err error
		if n, err = g.db.Seal(ctx, g.auditKey, sealBatch); err != nil {
			if ctx.Err() == nil {
				g.log.Warn("sealing what ended", "error", err)
			}
			return
		}
	}
}

// retain removes calls that ended longer ago than they are kept.
func (g *gateway) retain(ctx context.Context) {
	organizations, err := g.db.Versions(ctx)
	if err != nil {
		g.log.Warn("removing old calls", "error", err)
		return
	}
	before := g.db.Now().Add(-g.options.Retention)
	for _, o := range organizations {
		for n := retainBatch; n == retainBatch && ctx.Err() == nil; {
			if n, err = g.db.Retain(ctx, o.Organization, before, g.auditKey, retainBatch); err != nil {
				g.log.Warn("removing old calls", "organization", o.Organization, "error", err)
				break
			}
		}
	}
}
