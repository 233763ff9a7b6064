package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/robfig/cron/v3"

	"sallyport/action"
	"sallyport/cmd/sallyport/command"
	"sallyport/store"
	"sallyport/store/evidence"
	"sallyport/store/files"
)

// job is a periodic task.
type job struct {
	name  string
	every time.Duration
	// once: only one of the instances that share rows runs it at a time.
	once bool
	do   func(context.Context)
}

// locks are leases between instances. After a crash, two instances may briefly hold
// the same lock, so work under a lock must be correct without it.
type locks interface {
	Hold(ctx context.Context, name string, ttl time.Duration) bool
	Release(ctx context.Context, name string)
}

// lockFor is the duration of a job's lease. Each round renews it, so another instance
// takes over a few seconds after a crash.
func (c job) lockFor() time.Duration { return max(3*c.every, 5*time.Second) }

// runJobs runs the jobs until ctx ends. A job that is still running when it is due
// again skips that round.
func runJobs(ctx context.Context, locks locks, log *slog.Logger, jobs []job) error {
	quiet := cron.DiscardLogger
	clock := cron.New(cron.WithLogger(quiet), cron.WithChain(cron.SkipIfStillRunning(quiet)))
	for _, c := range jobs {
		clock.Schedule(every(c.every), cron.FuncJob(func() { c.round(ctx, locks, log) }))
	}
	clock.Start()
	<-ctx.Done()
	<-clock.Stop().Done()
	released, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	for _, c := range jobs {
		if c.once {
			locks.Release(released, c.name) // so that another instance takes over at once
		}
	}
	return ctx.Err()
}

// round runs the job once. After a panic, the next round runs as usual.
func (c job) round(ctx context.Context, locks locks, log *slog.Logger) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("a job panicked", "chore", c.name, "panic", p)
		}
	}()
	if ctx.Err() != nil || c.once && !locks.Hold(ctx, c.name, c.lockFor()) {
		return
	}
	if !c.once {
		c.do(ctx)
		return
	}
	ctx, stop := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() { c.keep(ctx, locks, stop) })
	defer keeping.Wait()
	defer stop()
	c.do(ctx)
}

// keep renews the lock while the job runs, and stops the job when another instance
// holds the lock.
func (c job) keep(ctx context.Context, locks locks, stop func()) {
	renew := time.NewTicker(c.lockFor() / 3)
	defer renew.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-renew.C:
			if !locks.Hold(ctx, c.name, c.lockFor()) && ctx.Err() == nil {
				stop()
				return
			}
		}
	}
}

// every is a cron schedule with intervals that may be shorter than a second.
type every time.Duration

// Next implements cron.Schedule.
func (e every) Next(t time.Time) time.Time { return t.Add(time.Duration(e)) }

// The number of rows that one transaction seals or deletes, small enough that calls are
// written in between.
const (
	sealBatch   = 200
	retainBatch = 100
)

// suspendFor is the interval between checks of an audit log that does not verify, which
// an operator must repair.
const suspendFor = time.Minute

// sealer appends ended calls to the audit log of their organization. It logs a repeated
// error once.
type sealer struct {
	db  *store.DB
	key []byte
	log *slog.Logger
	now func() time.Time

	suspended map[string]time.Time // organizations whose audit log does not verify, and when to check again
	logged    map[string]string    // last logged error by organization; "" is for all of them
}

func newSealer(db *store.DB, key []byte, log *slog.Logger) *sealer {
	return &sealer{db: db, key: key, log: log, now: time.Now, suspended: map[string]time.Time{}, logged: map[string]string{}}
}

// seal appends the calls that ended since the last round. A failing organization does not delay
// the others.
func (s *sealer) seal(ctx context.Context) {
	failed := map[string]bool{}
	s.recheck(ctx)
	for n := sealBatch; n == sealBatch; {
		var err error
		n, err = s.db.Seal(ctx, s.key, sealBatch, slices.Collect(maps.Keys(s.suspended))...)
		if ctx.Err() != nil {
			return
		}
		s.record(err, failed)
	}
	for organization := range s.logged {
		if _, suspended := s.suspended[organization]; !suspended && !failed[organization] {
			delete(s.logged, organization)
			s.log.Info("sealing resumed", "organization", organization)
		}
	}
}

// recheck checks the organizations that are due, and resumes those that verify.
func (s *sealer) recheck(ctx context.Context) {
	for organization, until := range s.suspended {
		if s.now().Before(until) {
			continue
		}
		err := s.db.Sealable(ctx, organization, s.key)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			delete(s.suspended, organization)
			continue
		}
		s.suspended[organization] = s.now().Add(suspendFor)
		s.logChange(organization, err)
	}
}

// note records the organizations that failed.
func (s *sealer) record(err error, failed map[string]bool) {
	var unsealed evidence.SealErrors
	errors.As(err, &unsealed)
	for organization, why := range unsealed {
		failed[organization] = true
		if e := (*action.Error)(nil); errors.As(why, &e) && e.Code == "audit_broken" {
			s.suspended[organization] = s.now().Add(suspendFor)
		}
		s.logChange(organization, why)
	}
}

// say logs an error that differs from the last one of the organization.
func (s *sealer) logChange(organization string, err error) {
	if text := err.Error(); s.logged[organization] != text {
		s.logged[organization] = text
		s.log.Warn("could not seal ended calls", "organization", organization, "error", err)
	}
}

// retain deletes calls that ended before the retention period.
func (g *Gateway) retain(ctx context.Context) {
	organizations, err := g.DB.Versions(ctx)
	if err != nil {
		g.log.Warn("could not delete old calls", "error", err)
		return
	}
	before := g.DB.Now().Add(-g.Options.Retention)
	for _, o := range organizations {
		deleted := 0
		for n := retainBatch; n == retainBatch && ctx.Err() == nil; {
			n, err = g.DB.Retain(ctx, o.Organization, before, g.AuditKey, retainBatch)
			if deleted += n; err != nil {
				g.log.Warn("could not delete old calls", "organization", o.Organization, "error", err)
				break
			}
		}
		if deleted > 0 {
			g.log.Info("old calls deleted", "organization", o.Organization, "count", deleted)
		}
	}
}

// verifyAudit verifies the audit log with its key.
func (g *Gateway) verifyAudit(ctx context.Context, organization string, last *action.AuditHead) (action.AuditReport, error) {
	return g.DB.VerifyAudit(ctx, organization, g.AuditKey, last)
}

// openFiles opens the store of evidence files.
func (g *Gateway) openFiles(ctx context.Context) (err error) {
	at := g.Options.Evidence
	if at == "" {
		if at, err = command.EvidenceURL(g.Options.Data); err != nil {
			return err
		}
		if g.DB.Shared() {
			g.log.Warn("evidence files are stored on this machine only; instances that share a database should also share these files: set --evidence", "folder", filepath.Join(g.Options.Data, command.EvidenceFolder))
		}
	}
	if g.files, err = files.Open(ctx, at); err != nil {
		return fmt.Errorf("%w (--evidence)", err)
	}
	return nil
}

// sweepEvidence deletes unused files and then their rows. If it is interrupted, the next
// round continues.
func (g *Gateway) sweepEvidence(ctx context.Context, now time.Time, limit int) (n int, err error) {
	if g.files == nil {
		return 0, nil
	}
	refs, err := g.DB.GoneUploads(ctx, now.Add(-g.Options.Intervals.EvidenceKept), limit)
	for _, ref := range refs { // a failure does not stop the others
		one := g.files.RemoveAll(ctx, action.UploadPrefix(ref.Organization, ref.Session, ref.ID))
		if one == nil {
			one = g.DB.ForgetUpload(ctx, ref)
		}
		if one != nil {
			err = errors.Join(err, one)
			continue
		}
		n++
	}
	return n, err
}
