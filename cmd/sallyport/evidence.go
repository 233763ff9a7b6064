package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"sallyport/action"
	"sallyport/store"
	"sallyport/store/evidence"
)

// How many rows one transaction seals or removes: few enough that calls get
// between two of them.
const (
	sealBatch   = 200
	retainBatch = 100
)

// setAside is how long a chain that does not hold is left alone before it is
// looked at again: somebody has to mend it.
const setAside = time.Minute

// sealer chains what ended. It says what fails when that changes, and not every
// round.
type sealer struct {
	db  *store.DB
	key []byte
	log *slog.Logger
	now func() time.Time

	aside map[string]time.Time // organizations whose chains do not hold, and until when
	said  map[string]string    // what was said of organizations; of "": of all
}

func newSealer(db *store.DB, key []byte, log *slog.Logger) *sealer {
	return &sealer{db: db, key: key, log: log, now: time.Now, aside: map[string]time.Time{}, said: map[string]string{}}
}

// seal chains what ended since the last round. An organization that fails keeps
// no other waiting.
func (s *sealer) seal(ctx context.Context) {
	failed := map[string]bool{}
	s.lookAgain(ctx)
	for n := sealBatch; n == sealBatch; {
		var err error
		n, err = s.db.Seal(ctx, s.key, sealBatch, slices.Collect(maps.Keys(s.aside))...)
		if ctx.Err() != nil {
			return
		}
		s.note(err, failed)
	}
	for organization := range s.said {
		if _, aside := s.aside[organization]; !aside && !failed[organization] {
			delete(s.said, organization)
			s.log.Info("sealing goes on", "organization", organization)
		}
	}
}

// lookAgain takes those back whose time has come and whose chains hold.
func (s *sealer) lookAgain(ctx context.Context) {
	for organization, until := range s.aside {
		if s.now().Before(until) {
			continue
		}
		err := s.db.Sealable(ctx, organization, s.key)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			delete(s.aside, organization)
			continue
		}
		s.aside[organization] = s.now().Add(setAside)
		s.say(organization, err)
	}
}

// note takes down who failed.
func (s *sealer) note(err error, failed map[string]bool) {
	var unsealed evidence.Unsealed
	errors.As(err, &unsealed)
	for organization, why := range unsealed {
		failed[organization] = true
		if e := (*action.Error)(nil); errors.As(why, &e) && e.Code == "audit_broken" {
			s.aside[organization] = s.now().Add(setAside)
		}
		s.say(organization, why)
	}
}

// say warns of what is new.
func (s *sealer) say(organization string, err error) {
	if text := err.Error(); s.said[organization] != text {
		s.said[organization] = text
		s.log.Warn("sealing what ended", "organization", organization, "error", err)
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

// verifyAudit looks through a chain of evidence with its key, which nobody else needs.
func (g *gateway) verifyAudit(ctx context.Context, organization string, last *action.AuditHead) (action.AuditReport, error) {
	return g.db.VerifyAudit(ctx, organization, g.auditKey, last)
}
