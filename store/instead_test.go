package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"sallyport/store/calls"
	"sallyport/store/database"
)

// begins is put as the beginning of a row, whose end writes n + 100.
func begins(n int) *database.Job {
	j := put(n)
	j.Inserted = &calls.QueuedBegin{}
	return j
}

func ends(n int) func(any) *database.Job {
	return func(any) *database.Job { return put(n + 100) }
}

func TestFinishReplacesQueuedInsert(t *testing.T) {
	b := newBench(t, time.Hour)
	b.ok(b.db.Write.Enqueue(t.Context(), begins(1)))
	done, err := b.db.Write.ReplaceInsert(t.Context(), "1", ends(1))
	if !done || err != nil {
		t.Fatal(done, err)
	}
	b.want(101)
	if b.db.Write.Queued([]string{"1"}) {
		t.Error("the row still counts as queued")
	}
}

func TestFinishAfterWrittenInsert(t *testing.T) {
	b := newBench(t, time.Hour)
	b.ok(b.db.Write.Enqueue(t.Context(), begins(1)))
	b.ok(b.db.Write.Flush(t.Context(), "1"))
	if done, err := b.db.Write.ReplaceInsert(t.Context(), "1", ends(1)); done || err != nil {
		t.Fatal(done, err)
	}
	b.ok(b.db.Write.Enqueue(t.Context(), begins(2)))
	b.ok(b.db.Write.Enqueue(t.Context(), put(2))) // more than its beginning
	if done, err := b.db.Write.ReplaceInsert(t.Context(), "2", ends(2)); done || err != nil {
		t.Fatal(done, err)
	}
	b.want(1)
}

func TestReadWaitsForQueuedFinish(t *testing.T) {
	b := newBench(t, time.Hour)
	free := b.busy()
	b.ok(b.db.Write.Enqueue(t.Context(), begins(1)))
	ended := make(chan error, 1)
	go func() {
		_, err := b.db.Write.ReplaceInsert(context.Background(), "1", ends(1))
		ended <- err
	}()
	for !b.replaced() {
		time.Sleep(time.Millisecond)
	}
	flushed := make(chan error, 1)
	go func() { flushed <- b.db.Write.Flush(context.Background(), "1") }()
	b.waitQueue(2)
	free()
	b.ok(<-flushed)
	b.want(101)
	b.ok(<-ended)
}

func TestCanceledFinishRestoresInsert(t *testing.T) {
	b := newBench(t, time.Millisecond)
	free := b.busy()
	b.ok(b.db.Write.Enqueue(t.Context(), begins(1)))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := b.db.Write.ReplaceInsert(ctx, "1", ends(1))
		ended <- err
	}()
	for !b.replaced() {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	free()
	b.ok(b.db.Write.Flush(t.Context(), "1"))
	b.want(1)
}

func TestFailedFinishReturnsError(t *testing.T) {
	b := newBench(t, time.Hour)
	b.ok(b.db.Write.Enqueue(t.Context(), begins(1)))
	done, err := b.db.Write.ReplaceInsert(t.Context(), "1", func(any) *database.Job {
		return &database.Job{SingleStatement: true, Run: exec("INSERT INTO none VALUES (1)")}
	})
	if !done || err == nil {
		t.Fatal(done, err)
	}
	b.want()
}

// replaced reports whether an end took the place of a beginning.
func (b *bench) replaced() bool {
	b.db.Write.Mu.Lock()
	defer b.db.Write.Mu.Unlock()
	for _, q := range b.db.Write.Queue {
		if q.Replaces != nil {
			return true
		}
	}
	return false
}

// overtakes is put as a job that may be done before rows that began.
func overtakes(n int) *database.Job {
	j := put(n)
	j.Row, j.Unordered = "", true
	return j
}

func TestInsertsWaitForFinishDuringCommits(t *testing.T) {
	b := newBench(t, time.Hour)
	b.db.Write.InsertDelay = time.Hour
	b.ok(b.db.Write.Enqueue(t.Context(), begins(1)))
	b.ok(b.db.Write.Do(t.Context(), overtakes(2)))
	b.want(2)
	if done, err := b.db.Write.ReplaceInsert(t.Context(), "1", ends(1)); !done || err != nil {
		t.Fatal(done, err)
	}
	b.want(2, 101)
}

func TestInsertsPrecedeOrderedJobs(t *testing.T) {
	for name, then := range map[string]func(*bench) error{
		"another write":     func(b *bench) error { return b.db.Write.Do(t.Context(), &database.Job{Run: put(2).Run}) },
		"a read of the row": func(b *bench) error { return b.db.Write.Flush(t.Context(), "1") },
		"more of the same row": func(b *bench) error {
			j := put(1)
			j.Run, j.Unordered = put(2).Run, true
			return b.db.Write.Do(t.Context(), j)
		},
		"what passes, later on": func(b *bench) error {
			time.Sleep(2 * database.InsertDelay)
			return b.db.Write.Do(t.Context(), overtakes(2))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, time.Hour)
			b.ok(b.db.Write.Enqueue(t.Context(), begins(1)))
			b.ok(then(b))
			if b.db.Write.Queued([]string{"1"}) {
				t.Error("the beginning is still queued")
			}
		})
	}
}

func TestTimerKeepsRecentInserts(t *testing.T) {
	b := newBench(t, time.Millisecond)
	b.db.Write.InsertDelay = time.Hour
	b.ok(b.db.Write.Enqueue(t.Context(), begins(1)))
	other := put(2)
	other.Unordered = true
	b.ok(b.db.Write.Enqueue(t.Context(), other))
	for len(b.numbers()) == 0 {
		time.Sleep(time.Millisecond)
	}
	b.want(2)
}

func TestInsertIsWrittenAfterDelay(t *testing.T) {
	b := newBench(t, time.Millisecond)
	b.db.Write.InsertDelay = 5 * time.Millisecond
	b.ok(b.db.Write.Enqueue(t.Context(), begins(1)))
	for len(b.numbers()) == 0 {
		time.Sleep(time.Millisecond)
	}
	b.want(1)
}

// An end whose beginning is just being written leaves other beginnings where they are.
func TestFinishDuringInsert(t *testing.T) {
	b := newBench(t, time.Hour)
	b.db.Write.InsertDelay = time.Hour
	begun, free := make(chan struct{}), make(chan struct{})
	first := begins(1)
	write := first.Run
	first.Run = func(ctx context.Context, tx bun.IDB) error {
		close(begun)
		<-free
		return write(ctx, tx)
	}
	b.ok(b.db.Write.Enqueue(t.Context(), first))
	errs := make(chan error, 2)
	go func() { errs <- b.db.Write.Flush(context.Background(), "1") }()
	<-begun
	b.ok(b.db.Write.Enqueue(t.Context(), begins(2)))
	end := overtakes(101)
	end.Row = "1"
	go func() { errs <- b.db.Write.Do(context.Background(), end) }()
	b.waitQueue(2)
	close(free)
	b.ok(<-errs)
	b.ok(<-errs)
	b.want(1, 101)
}

func TestSealKeepsRecentInserts(t *testing.T) {
	b := newBench(t, time.Hour)
	b.db.Write.InsertDelay = time.Hour
	seed(t, b.db.Write.DB.DB)
	b.ok(b.db.Write.Enqueue(t.Context(), begins(1)))
	if n, err := b.Seal(t.Context(), testAuditKey, 100); n == 0 || err != nil {
		t.Fatal(n, err)
	}
	b.want()
}

// Many beginnings are not in the way of who commits.
func TestMoreInsertsThanABatch(t *testing.T) {
	b := newBench(t, time.Hour)
	b.db.Write.Batch, b.db.Write.InsertDelay = 2, time.Hour
	for n := range 5 {
		b.ok(b.db.Write.Enqueue(t.Context(), begins(n)))
	}
	b.ok(b.db.Write.Do(t.Context(), overtakes(9)))
	b.want(9)
	b.ok(b.db.Write.Flush(t.Context(), "4"))
	b.want(0, 1, 2, 3, 4, 9)
}
