package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/uptrace/bun"
)

// begins is put as the beginning of a row, whose end writes n + 100.
func begins(n int) *job {
	j := put(n)
	j.begins = &begunRow{}
	return j
}

func ends(n int) func(*begunRow) *job {
	return func(*begunRow) *job { return put(n + 100) }
}

func TestEndIsWrittenInThePlaceOfTheBeginning(t *testing.T) {
	b := newBench(t, time.Hour)
	b.ok(b.write.enqueue(t.Context(), begins(1)))
	done, err := b.write.instead(t.Context(), "1", ends(1))
	if !done || err != nil {
		t.Fatal(done, err)
	}
	b.want(101)
	if b.write.queued([]string{"1"}) {
		t.Error("the row still counts as queued")
	}
}

func TestEndOfAWrittenBeginningIsItsOwn(t *testing.T) {
	b := newBench(t, time.Hour)
	b.ok(b.write.enqueue(t.Context(), begins(1)))
	b.ok(b.write.flush(t.Context(), "1"))
	if done, err := b.write.instead(t.Context(), "1", ends(1)); done || err != nil {
		t.Fatal(done, err)
	}
	b.ok(b.write.enqueue(t.Context(), begins(2)))
	b.ok(b.write.enqueue(t.Context(), put(2))) // more than its beginning
	if done, err := b.write.instead(t.Context(), "2", ends(2)); done || err != nil {
		t.Fatal(done, err)
	}
	b.want(1)
}

func TestReadersWaitForTheEndThatIsQueued(t *testing.T) {
	b := newBench(t, time.Hour)
	free := b.busy()
	b.ok(b.write.enqueue(t.Context(), begins(1)))
	ended := make(chan error, 1)
	go func() {
		_, err := b.write.instead(context.Background(), "1", ends(1))
		ended <- err
	}()
	for !b.replaced() {
		time.Sleep(time.Millisecond)
	}
	flushed := make(chan error, 1)
	go func() { flushed <- b.write.flush(context.Background(), "1") }()
	b.waitQueue(2)
	free()
	b.ok(<-flushed)
	b.want(101)
	b.ok(<-ended)
}

func TestBeginningComesBackWhenItsEndIsTakenBack(t *testing.T) {
	b := newBench(t, time.Millisecond)
	free := b.busy()
	b.ok(b.write.enqueue(t.Context(), begins(1)))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := b.write.instead(ctx, "1", ends(1))
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
	b.ok(b.write.flush(t.Context(), "1"))
	b.want(1)
}

func TestFailedEndTellsItsCaller(t *testing.T) {
	b := newBench(t, time.Hour)
	b.ok(b.write.enqueue(t.Context(), begins(1)))
	done, err := b.write.instead(t.Context(), "1", func(*begunRow) *job { return &job{single: true, run: exec("INSERT INTO none VALUES (1)")} })
	if !done || err == nil {
		t.Fatal(done, err)
	}
	b.want()
}

// replaced reports whether an end took the place of a beginning.
func (b *bench) replaced() bool {
	b.write.mu.Lock()
	defer b.write.mu.Unlock()
	for _, q := range b.write.queue {
		if q.instead != nil {
			return true
		}
	}
	return false
}

// overtakes is put as a job that may be done before rows that began.
func overtakes(n int) *job {
	j := put(n)
	j.row, j.passes = "", true
	return j
}

func TestBeginningsWaitForTheirEndsWhileOthersAreCommitted(t *testing.T) {
	b := newBench(t, time.Hour)
	b.write.settles = time.Hour
	b.ok(b.write.enqueue(t.Context(), begins(1)))
	b.ok(b.write.do(t.Context(), overtakes(2)))
	b.want(2)
	if done, err := b.write.instead(t.Context(), "1", ends(1)); !done || err != nil {
		t.Fatal(done, err)
	}
	b.want(2, 101)
}

func TestBeginningsComeBeforeWhatDoesNotPassThem(t *testing.T) {
	for name, then := range map[string]func(*bench) error{
		"another write":     func(b *bench) error { return b.write.do(t.Context(), &job{run: put(2).run}) },
		"a look at the row": func(b *bench) error { return b.write.flush(t.Context(), "1") },
		"more of the same row": func(b *bench) error {
			j := put(1)
			j.run, j.passes = put(2).run, true
			return b.write.do(t.Context(), j)
		},
		"what passes, later on": func(b *bench) error { time.Sleep(2 * settleFor); return b.write.do(t.Context(), overtakes(2)) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, time.Hour)
			b.ok(b.write.enqueue(t.Context(), begins(1)))
			b.ok(then(b))
			if b.write.queued([]string{"1"}) {
				t.Error("the beginning is still queued")
			}
		})
	}
}

func TestBeginningsStayWhenTheTimerRings(t *testing.T) {
	b := newBench(t, time.Millisecond)
	b.write.settles = time.Hour
	b.ok(b.write.enqueue(t.Context(), begins(1)))
	other := put(2)
	other.passes = true
	b.ok(b.write.enqueue(t.Context(), other))
	for len(b.numbers()) == 0 {
		time.Sleep(time.Millisecond)
	}
	b.want(2)
}

func TestBeginningIsWrittenWithoutItsEndAtLast(t *testing.T) {
	b := newBench(t, time.Millisecond)
	b.write.settles = 5 * time.Millisecond
	b.ok(b.write.enqueue(t.Context(), begins(1)))
	for len(b.numbers()) == 0 {
		time.Sleep(time.Millisecond)
	}
	b.want(1)
}

// An end whose beginning is just being written leaves other beginnings where they are.
func TestEndOfWhatIsBeingWrittenPasses(t *testing.T) {
	b := newBench(t, time.Hour)
	b.write.settles = time.Hour
	begun, free := make(chan struct{}), make(chan struct{})
	first := begins(1)
	write := first.run
	first.run = func(ctx context.Context, tx bun.IDB) error {
		close(begun)
		<-free
		return write(ctx, tx)
	}
	b.ok(b.write.enqueue(t.Context(), first))
	errs := make(chan error, 2)
	go func() { errs <- b.write.flush(context.Background(), "1") }()
	<-begun
	b.ok(b.write.enqueue(t.Context(), begins(2)))
	end := overtakes(101)
	end.row = "1"
	go func() { errs <- b.write.do(context.Background(), end) }()
	b.waitQueue(2)
	close(free)
	b.ok(<-errs)
	b.ok(<-errs)
	b.want(1, 101)
}

func TestBeginningsStayWhenTheEvidenceIsSealed(t *testing.T) {
	b := newBench(t, time.Hour)
	b.write.settles = time.Hour
	seed(t, b.write.db.DB)
	b.ok(b.write.enqueue(t.Context(), begins(1)))
	if n, err := b.Seal(t.Context(), testAuditKey, 100); n == 0 || err != nil {
		t.Fatal(n, err)
	}
	b.want()
}

// Many beginnings are not in the way of who commits.
func TestMoreBeginningsThanABatch(t *testing.T) {
	b := newBench(t, time.Hour)
	b.write.batch, b.write.settles = 2, time.Hour
	for n := range 5 {
		b.ok(b.write.enqueue(t.Context(), begins(n)))
	}
	b.ok(b.write.do(t.Context(), overtakes(9)))
	b.want(9)
	b.ok(b.write.flush(t.Context(), "4"))
	b.want(0, 1, 2, 3, 4, 9)
}
