package store

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"sallyport/store/database"
)

// What many commits wrote into the journal is copied though none of them does it,
// and the journal does not grow without end while one follows the other.
func TestCheckpointsRunConcurrently(t *testing.T) {
	path := newPath(t)
	db := openAt(t, path)
	fill := func(statement string, args ...any) {
		t.Helper()
		if err := db.db.Write.Do(t.Context(), &database.Job{Run: func(ctx context.Context, tx bun.IDB) error {
			_, err := tx.ExecContext(ctx, statement, args...)
			return err
		}}); err != nil {
			t.Fatal(err)
		}
	}
	const pages = 100 // of a commit
	fill("CREATE TABLE filler (content BLOB)")
	commits := func(n int) {
		for range n {
			fill("INSERT INTO filler VALUES (zeroblob(?))", pages*4096)
		}
	}
	commits((database.CheckpointAfter + database.CheckpointAfter/4) / pages)
	look := &database.Checkpointer{DB: db.db.Checkpointer.DB}
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		length, waits, err := look.Checkpoint("NOOP")
		if err != nil {
			t.Fatal(err)
		}
		if waits < database.CheckpointAfter {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("of %d pages %d still wait", length, waits)
		}
	}
	commits(3 * database.WALPages / pages)
	info, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if most := int64(database.WALPages+database.CheckpointAfter) * 4200; info.Size() > most {
		t.Errorf("the journal has %d bytes, wanted at most %d", info.Size(), most)
	}
	if err := db.db.Close(); err != nil {
		t.Fatal(err)
	}
	if db.db.Checkpointer.Checkpoints == 0 {
		t.Error("all was copied within commits")
	}
}
