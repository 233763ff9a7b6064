package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"sallyport/store/database"
)

// bench is a database with a table of its own for the writer's tests.
type bench struct {
	*DB
	t   testing.TB
	log *bytes.Buffer
}

func newBench(t testing.TB, after time.Duration) *bench {
	t.Helper()
	b := &bench{t: t, log: &bytes.Buffer{}}
	path := filepath.Join(t.TempDir(), "w.db")
	migrated(t, path)
	var err error
	b.DB, err = Open(t.Context(), Config{Path: path, FlushAfter: after, Log: slog.New(slog.NewTextHandler(b.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	b.ok(b.do(t.Context(), exec("CREATE TABLE n (n INTEGER NOT NULL PRIMARY KEY)")))
	return b
}

// do runs one write of several statements.
func (b *bench) do(ctx context.Context, f func(context.Context, bun.IDB) error) error {
	return b.db.Write.Do(ctx, &database.Job{Run: f})
}

func (b *bench) ok(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func exec(sql string, args ...any) func(context.Context, bun.IDB) error {
	return func(ctx context.Context, tx bun.IDB) error {
		_, err := tx.ExecContext(ctx, sql, args...)
		return err
	}
}

func put(n int) *database.Job {
	return &database.Job{SingleStatement: true, Row: fmt.Sprint(n), Run: exec("INSERT INTO n VALUES (?)", n)}
}

// numbers are those that are committed.
func (b *bench) numbers() (list []int) {
	b.t.Helper()
	b.ok(b.db.Read.NewSelect().Table("n").Column("n").Order("n").Scan(b.t.Context(), &list))
	return list
}

func (b *bench) want(want ...int) {
	b.t.Helper()
	if got := b.numbers(); fmt.Sprint(got) != fmt.Sprint(want) {
		b.t.Fatalf("committed: %v, want %v", got, want)
	}
}

// busy occupies the lead until the returned func is called, so that what comes
// meanwhile is one batch.
func (b *bench) busy() (free func()) {
	b.t.Helper()
	begun, end, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- b.do(context.Background(), func(context.Context, bun.IDB) error {
			close(begun)
			<-end
			return nil
		})
	}()
	<-begun
	return sync.OnceFunc(func() {
		close(end)
		b.ok(<-done)
	})
}

// waitQueue returns when n jobs are queued.
func (b *bench) waitQueue(n int) {
	for {
		b.db.Write.Mu.Lock()
		queued := len(b.db.Write.Queue)
		b.db.Write.Mu.Unlock()
		if queued >= n {
			return
		}
		runtime.Gosched()
	}
}

// queue sends jobs one after the other while the writer is busy, and returns
// their errors.
func (b *bench) queue(jobs ...*database.Job) []error {
	b.t.Helper()
	free := b.busy()
	defer free()
	errs := make([]error, len(jobs))
	var wg sync.WaitGroup
	for i, j := range jobs {
		wg.Go(func() { errs[i] = b.db.Write.Do(context.Background(), j) })
		b.waitQueue(i + 1)
	}
	free()
	wg.Wait()
	return errs
}

func TestFailedJobIsRolledBackAlone(t *testing.T) {
	b := newBench(t, time.Hour)
	boom := errors.New("boom")
	errs := b.queue(
		put(1),
		&database.Job{Run: func(ctx context.Context, tx bun.IDB) error {
			return errors.Join(exec("INSERT INTO n VALUES (2)")(ctx, tx), boom)
		}},
		put(1), // taken
		&database.Job{Run: func(context.Context, bun.IDB) error { panic("oh") }},
		&database.Job{Run: exec("INSERT INTO nowhere VALUES (3)")},
		put(4),
	)
	b.want(1, 4)
	for i, want := range []string{"", "boom", "UNIQUE", "panic in a write: oh", "no such table", ""} {
		if err := errs[i]; (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("job %d: %v, want %q", i, err, want)
		}
	}
	// The same alone, without a savepoint.
	if err := b.do(t.Context(), func(ctx context.Context, tx bun.IDB) error {
		return errors.Join(exec("INSERT INTO n VALUES (2)")(ctx, tx), boom)
	}); !errors.Is(err, boom) {
		t.Error(err)
	}
	b.want(1, 4)
}

// unsound makes the commit itself fail.
func unsound() *database.Job {
	return &database.Job{Run: func(ctx context.Context, tx bun.IDB) error {
		return errors.Join(exec("PRAGMA defer_foreign_keys = 1")(ctx, tx),
			exec("INSERT INTO sessions (id, organization_id, kind, type, created_by, created_at) VALUES ('s', 'no organization', 'interactive', 'coding', '', '2026-11-21T00:00:00.000000Z')")(ctx, tx))
	}}
}

func TestFailedCommitFailsAllJobs(t *testing.T) {
	b := newBench(t, time.Hour)
	b.ok(b.db.Write.Enqueue(t.Context(), put(1)))
	for i, err := range b.queue(put(2), unsound(), put(3)) {
		if err == nil || !strings.Contains(err.Error(), "committing") {
			t.Errorf("job %d: %v, want a failed commit", i, err)
		}
	}
	b.want(1) // which was committed with the job before
	b.ok(b.db.Write.Enqueue(t.Context(), put(4)))
	if err := b.db.Write.Do(t.Context(), unsound()); err == nil {
		t.Error("no error")
	}
	b.ok(b.db.Write.Do(t.Context(), put(5)))
	b.want(1, 5)
	if log := b.log.String(); !strings.Contains(log, "row=4") || strings.Contains(log, "row=1") {
		t.Errorf("the log should tell of the queued job that was lost:\n%s", log)
	}
	if b.db.Write.Queued([]string{"4"}) {
		t.Error("the lost job is still said to be queued")
	}
}

func TestQueueOrder(t *testing.T) {
	b := newBench(t, time.Hour)
	for n := range 300 { // more than one batch
		b.ok(b.db.Write.Enqueue(t.Context(), put(n)))
	}
	b.want()
	var seen int
	b.ok(b.do(t.Context(), func(ctx context.Context, tx bun.IDB) error {
		return tx.NewSelect().Table("n").ColumnExpr("count(*)").Scan(ctx, &seen)
	}))
	if seen != 300 {
		t.Errorf("a later job sees %d of 300 queued ones", seen)
	}
	if got := len(b.numbers()); got != 300 {
		t.Errorf("%d of 300 are durable with the later job", got)
	}
}

func TestFlushWithoutQueuedRows(t *testing.T) {
	b := newBench(t, time.Hour)
	b.ok(b.db.Write.Enqueue(t.Context(), put(1)))
	b.ok(b.db.Write.Flush(t.Context(), "2", "3"))
	b.want()
	b.ok(b.db.Write.Flush(t.Context(), "2", "1"))
	b.want(1)
	if b.db.Write.Queued([]string{"1"}) {
		t.Error("the row is still said to be queued")
	}
}

func TestTimerFlushesQueue(t *testing.T) {
	b := newBench(t, time.Millisecond)
	for n := range 3 { // the timer is set again each time
		b.ok(b.db.Write.Enqueue(t.Context(), put(n)))
		for len(b.numbers()) <= n {
			runtime.Gosched()
		}
	}
}

func TestTimerFlushesQueueBehindLeader(t *testing.T) {
	b := newBench(t, time.Millisecond)
	free := b.busy()
	b.ok(b.db.Write.Enqueue(t.Context(), put(1)))
	free()
	for len(b.numbers()) < 1 {
		runtime.Gosched()
	}
}

func TestBatchSharesTransaction(t *testing.T) {
	b := newBench(t, time.Hour)
	var jobs []*database.Job
	txs := map[any]int{}
	for n := range database.MaxBatch + 10 {
		jobs = append(jobs, &database.Job{Run: func(ctx context.Context, tx bun.IDB) error {
			txs[tx.(bun.Tx).Tx]++
			return put(n).Run(ctx, tx)
		}})
	}
	for _, err := range b.queue(jobs...) {
		b.ok(err)
	}
	if len(txs) != 2 {
		t.Errorf("%d transactions for %d jobs, want 2", len(txs), len(jobs))
	}
}

// Slow jobs come one at a time and by themselves, each after what is queued.
func TestSlowJobsAlternate(t *testing.T) {
	b := newBench(t, time.Hour)
	var wg sync.WaitGroup
	var order []string // written by the one that leads
	txs := map[any]string{}
	send := func(name string, slow bool, meanwhile func()) {
		wg.Go(func() {
			err := b.db.Write.Do(context.Background(), &database.Job{Slow: slow, Run: func(_ context.Context, tx bun.IDB) error {
				order = append(order, name)
				txs[tx.(bun.Tx).Tx] += name
				if meanwhile != nil {
					meanwhile()
				}
				return nil
			}})
			if err != nil {
				t.Error(err)
			}
		})
	}
	waitSlow := func(n int) {
		for {
			b.db.Write.Mu.Lock()
			waiting := len(b.db.Write.Slow)
			b.db.Write.Mu.Unlock()
			if waiting == n {
				return
			}
			runtime.Gosched()
		}
	}
	free := b.busy()
	defer free()
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() { gone <- b.db.Write.Do(ctx, &database.Job{Slow: true, Run: exec("INSERT INTO n VALUES (1)")}) }()
	waitSlow(1)
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for i, name := range []string{"A", "B", "C"} {
		var meanwhile func()
		if name == "A" {
			meanwhile = func() {
				send("3", false, nil)
				b.waitQueue(1)
			}
		}
		send(name, true, meanwhile)
		waitSlow(i + 1)
	}
	for i, name := range []string{"1", "2"} {
		send(name, false, nil)
		b.waitQueue(i + 1)
	}
	free()
	wg.Wait()
	if got := strings.Join(order, ""); got != "12A3BC" {
		t.Errorf("done in the order %s, want 12A3BC", got)
	}
	if got := slices.Sorted(maps.Values(txs)); !slices.Equal(got, []string{"12", "3", "A", "B", "C"}) {
		t.Errorf("transactions of %q", got)
	}
	b.want()
}

func TestCancelQueuedJob(t *testing.T) {
	b := newBench(t, time.Hour)
	free := b.busy()
	ctx, cancel := context.WithCancel(t.Context())
	gone, stays := make(chan error, 1), make(chan error, 1)
	go func() { gone <- b.db.Write.Do(ctx, put(1)) }()
	b.waitQueue(1)
	go func() { stays <- b.db.Write.Do(t.Context(), put(2)) }()
	b.waitQueue(2)
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	free()
	b.ok(<-stays)
	b.want(2)
	if err := b.db.Write.Do(ctx, put(3)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	b.want(2)
}

func TestCancelWaitsForStartedJob(t *testing.T) {
	b := newBench(t, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	b.ok(b.do(ctx, func(ctx context.Context, tx bun.IDB) error {
		cancel()
		return put(1).Run(ctx, tx)
	}))
	b.want(1)
}

func TestCloseFlushesQueue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.db")
	db, err := Open(t.Context(), Config{Path: path, FlushAfter: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{DB: db, t: t}
	b.ok(b.do(t.Context(), exec("CREATE TABLE n (n INTEGER NOT NULL PRIMARY KEY)")))
	for n := range 3 {
		b.ok(b.db.Write.Enqueue(t.Context(), put(n)))
	}
	var wg sync.WaitGroup
	for n := range 64 { // those that come with the close are done or refused
		wg.Go(func() {
			if err := db.db.Write.Do(context.Background(), put(n+100)); err != nil && !errors.Is(err, database.ErrClosed) {
				t.Error(err)
			}
		})
	}
	b.ok(db.db.Close())
	wg.Wait()
	b.ok(db.db.Close())
	if err := db.db.Write.Enqueue(t.Context(), put(9)); !errors.Is(err, database.ErrClosed) {
		t.Error(err)
	}
	if b.DB, err = Open(t.Context(), Config{Path: path}); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if got := b.numbers(); len(got) < 3 || got[0] != 0 || got[2] != 2 {
		t.Errorf("committed: %v", got)
	}
}

func TestQueueLimit(t *testing.T) {
	b := newBench(t, time.Hour)
	for n := range database.MaxQueue + 1 { // the last one waits, and takes the others along
		b.ok(b.db.Write.Enqueue(t.Context(), put(n)))
	}
	if got := len(b.numbers()); got != database.MaxQueue+1 {
		t.Errorf("%d committed, want %d", got, database.MaxQueue+1)
	}
}

// BenchmarkWriter commits one small insert an operation, durable when it
// returns. Ungrouped is the same writer with one job in a transaction.
func BenchmarkWriter(b *testing.B) {
	for _, grouped := range []bool{true, false} {
		for _, n := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("grouped=%t/%d", grouped, n), func(b *testing.B) {
				w := newBench(b, time.Hour)
				if !grouped {
					w.db.Write.Batch = 1
				}
				var wg sync.WaitGroup
				next := make(chan int, b.N)
				for i := range b.N {
					next <- i
				}
				close(next)
				b.ResetTimer()
				for range n {
					wg.Go(func() {
						for i := range next {
							if err := w.db.Write.Do(context.Background(), put(i)); err != nil {
								b.Error(err)
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}
