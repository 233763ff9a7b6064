package dispatch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/ingest/dispatch"
	"sallyport/ingest/event"
)

// sweepRows is what is to be swept.
type sweepRows struct {
	runs, payloads int // that are left
	fail           int // the batch that fails, counted from 1; zero: none
	batches        int
	before         time.Time
	log            bytes.Buffer
}

func (l *sweepRows) SweepRuns(_ context.Context, _ time.Time, limit int) ([]event.Run, []action.Invocation, error) {
	n := min(limit, l.runs)
	l.runs -= n
	if l.batches++; l.batches == l.fail {
		return make([]event.Run, n/2), make([]action.Invocation, 1), errors.New("no")
	}
	return make([]event.Run, n), make([]action.Invocation, n/10), nil
}

func (l *sweepRows) PurgeInbound(_ context.Context, before time.Time, limit int) (int, error) {
	n := min(limit, l.payloads)
	l.payloads -= n
	l.before = before
	if l.batches++; l.batches == l.fail {
		return 0, errors.New("no")
	}
	return n, nil
}

func sweeper(t *testing.T, l *sweepRows, runs, calls *int) *dispatch.Sweeper {
	t.Helper()
	s, err := dispatch.NewSweeper(dispatch.SweeperConfig{
		Sweep: l.SweepRuns, Forget: l.PurgeInbound, Log: slog.New(slog.NewTextHandler(&l.log, nil)), Now: func() time.Time { return time.Unix(1e9, 0) },
		Changed: func(changed []event.Run, withdrew []action.Invocation) {
			*runs += len(changed)
			*calls += len(withdrew)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSweep(t *testing.T) {
	for _, test := range []*struct {
		name               string
		litter             sweepRows
		runs, calls, after int // told of, and left
	}{
		{"nothing", sweepRows{}, 0, 0, 0},
		{"a few", sweepRows{runs: 30}, 30, 3, 0},
		{"many", sweepRows{runs: 250}, 250, 25, 0},
		{"until it fails", sweepRows{runs: 250, fail: 2}, 150, 11, 50},
	} {
		runs, calls := 0, 0
		sweeper(t, &test.litter, &runs, &calls).Sweep(t.Context())
		if runs != test.runs || calls != test.calls || test.litter.runs != test.after {
			t.Errorf("%s: told of %d runs and %d calls, %d left", test.name, runs, calls, test.litter.runs)
		}
		line := fmt.Sprintf(`msg="overdue runs swept" runs=%d withdrawn_calls=%d`, test.runs, test.calls)
		if log := test.litter.log.String(); strings.Contains(log, line) != (test.runs > 0) || strings.Count(log, "runs swept") > 1 {
			t.Errorf("%s: the log has not %s once, or has it of nothing:\n%s", test.name, line, log)
		}
	}
}

func TestForget(t *testing.T) {
	runs, calls := 0, 0
	l := sweepRows{payloads: 1700}
	sweeper(t, &l, &runs, &calls).Forget(t.Context())
	if want := time.Unix(1e9, 0).AddDate(0, 0, -30); l.payloads != 0 || !l.before.Equal(want) {
		t.Errorf("%d payloads left from before %s", l.payloads, l.before)
	}
	if !strings.Contains(l.log.String(), "deleted\" count=1700") {
		t.Errorf("the log has no count: %s", l.log.String())
	}
	l = sweepRows{payloads: 1700, fail: 2}
	sweeper(t, &l, &runs, &calls).Forget(t.Context())
	if l.batches != 2 {
		t.Errorf("%d batches though the second failed", l.batches)
	}
	l = sweepRows{payloads: 1700}
	over, stop := context.WithCancel(t.Context())
	stop()
	sweeper(t, &l, &runs, &calls).Forget(over)
	sweeper(t, &l, &runs, &calls).Sweep(over)
	if l.batches != 0 {
		t.Errorf("%d batches after the end", l.batches)
	}
}
