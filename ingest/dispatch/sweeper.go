package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/defaults"
)

// SweeperConfig configures a [Sweeper]. Sweep and Forget are required.
type SweeperConfig struct {
	// Sweep ends, or queues again, up to limit runs whose worker was lost or whose time
	// is over, and renews the leases of those that wait for a person. It returns the
	// changed runs and the withdrawn invocations.
	Sweep func(ctx context.Context, now time.Time, limit int) (runs []event.Run, withdrew []action.Invocation, err error)
	// Forget wipes payloads of events and deletes ended receipts from before a time, up
	// to limit rows, and returns their number.
	Forget func(ctx context.Context, before time.Time, limit int) (int, error)

	Retention time.Duration `default:"720h"` // of payloads
	// Changed is called with runs that ended or were queued again, and with calls of
	// their sessions that were withdrawn. May be nil.
	Changed func(runs []event.Run, withdrew []action.Invocation)
	Now     func() time.Time `default:"time.Now"`
	Log     *slog.Logger     `default:"discard"`
}

func (c *SweeperConfig) setDefaults() error {
	if c.Sweep == nil || c.Forget == nil {
		return errors.New("dispatch.SweeperConfig: Sweep and Forget are required")
	}
	if c.Changed == nil {
		c.Changed = func([]event.Run, []action.Invocation) {}
	}
	defaults.Set(c)
	return nil
}

// Sweeper ends overdue runs and deletes expired payloads.
type Sweeper struct{ SweeperConfig }

// NewSweeper returns a sweeper.
func NewSweeper(c SweeperConfig) (*Sweeper, error) {
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	return &Sweeper{c}, nil
}

// Rows are changed in batches of a few milliseconds, so that other writers are not
// blocked.
const (
	sweepBatch  = 100
	forgetBatch = 500
)

// Sweep ends, or queues again, runs whose worker was lost or whose time is over. One
// of the instances should call it about every 5 seconds; several do no harm.
func (s *Sweeper) Sweep(ctx context.Context) {
	taken, withdrawn := 0, 0
	defer func() {
		if taken+withdrawn > 0 {
			s.Log.InfoContext(ctx, "overdue runs swept", "runs", taken, "withdrawn_calls", withdrawn)
		}
	}()
	for ctx.Err() == nil {
		runs, withdrew, err := s.SweeperConfig.Sweep(ctx, s.Now().UTC(), sweepBatch)
		taken, withdrawn = taken+len(runs), withdrawn+len(withdrew)
		for _, r := range runs {
			s.Log.WarnContext(ctx, "a run was taken from its worker", "organization", r.Organization, "run", r.ID, "status", string(r.Status), "code", r.Code)
		}
		if len(runs)+len(withdrew) > 0 {
			s.Changed(runs, withdrew)
		}
		if err != nil {
			s.logError(ctx, "could not sweep runs", err)
			return
		}
		if len(runs) < sweepBatch {
			return
		}
	}
}

// Forget wipes payloads of events and deletes processed deliveries that are older
// than the retention. Once a minute is enough.
func (s *Sweeper) Forget(ctx context.Context) {
	before, deleted := s.Now().UTC().Add(-s.Retention), 0
	defer func() {
		if deleted > 0 {
			s.Log.InfoContext(ctx, "old payloads and deliveries deleted", "count", deleted)
		}
	}()
	for ctx.Err() == nil {
		n, err := s.SweeperConfig.Forget(ctx, before, forgetBatch)
		deleted += n
		if err != nil {
			s.logError(ctx, "could not delete old payloads", err)
			return
		}
		if n < forgetBatch {
			return
		}
	}
}

func (s *Sweeper) logError(ctx context.Context, message string, err error) {
	if ctx.Err() == nil {
		s.Log.ErrorContext(ctx, message, "error", err)
	}
}
