package database

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// MaxSignal is how many bytes of data a signal may carry.
const MaxSignal = 64 << 10

// Signal is what one instance tells the others about an MCP session. It is
// kept for minutes, until a sweep.
type Signal struct {
	ID           string
	Organization string
	Session      string          // a hash of the MCP session's id, which is itself a credential
	Kind         string          // opaque here
	Data         json.RawMessage // empty: {}
	CreatedAt    time.Time
}

type signalRow struct {
	bun.BaseModel `bun:"table:signals"`

	ID           string    `bun:"id,pk"`
	Organization string    `bun:"organization_id"`
	Session      string    `bun:"session"`
	Kind         string    `bun:"kind"`
	CreatedAt    Timestamp `bun:"created_at"`
	Data         string    `bun:"data"`
}

func (r *signalRow) signal() Signal {
	return Signal{
		ID: r.ID, Organization: r.Organization, Session: r.Session, Kind: r.Kind,
		Data: json.RawMessage(r.Data), CreatedAt: r.CreatedAt.Time,
	}
}

// PostSignal writes a signal and returns it with its id and time, which are
// always the store's own.
func (db *DB) PostSignal(ctx context.Context, s Signal) (Signal, error) {
	if err := checkSignal(&s); err != nil {
		return Signal{}, err
	}
	id, err := NewID()
	if err != nil {
		return Signal{}, err
	}
	r := &signalRow{ID: id, Organization: s.Organization, Session: s.Session, Kind: s.Kind, Data: string(s.Data)}
	err = db.Write.Do(ctx, &Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
		// Taken here and not before the wait for the writer: a reader's window
		// must outlast what lies between this time and the commit. A conflict
		// is with this very signal, committed by an attempt nobody heard of.
		r.CreatedAt = NewTimestamp(db.Now())
		_, err := tx.NewInsert().Model(r).On("CONFLICT (id) DO UPDATE").Set("created_at = EXCLUDED.created_at").Exec(ctx)
		return err
	}})
	if err != nil {
		return Signal{}, fmt.Errorf("posting a signal: %w", err)
	}
	return r.signal(), nil
}

func checkSignal(s *Signal) error {
	if len(s.Data) == 0 {
		s.Data = json.RawMessage("{}")
	}
	switch {
	case s.Session == "":
		return Invalid("/session", "A signal needs the session that it is about.")
	case s.Kind == "":
		return Invalid("/kind", "A signal needs a kind.")
	case len(s.Data) > MaxSignal:
		return action.NewError("signal_too_large", MaxSignal)
	case !json.Valid(s.Data) || !utf8.Valid(s.Data):
		return Invalid("/data", "The data of a signal must be JSON in UTF-8.")
	}
	return nil
}

// Signals returns the signals of all organizations that were made at since or
// later, oldest first.
//
// A signal becomes visible when its transaction commits, and so possibly after
// one that is a little newer. Hence readers let their windows overlap by some
// seconds, and drop the ids that they saw. When a full page comes back, the
// next one starts at the time of its last signal. A limit of zero is 100; it
// must be larger than what one overlap can hold.
func (db *DB) Signals(ctx context.Context, since time.Time, limit int) ([]Signal, error) {
	var rows []signalRow
	if err := Signals(db.Read, since, LimitOrDefault(limit)).Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("reading signals: %w", err)
	}
	list := make([]Signal, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].signal())
	}
	return list, nil
}

func Signals(db bun.IDB, since time.Time, limit int) *bun.SelectQuery {
	return db.NewSelect().Model((*signalRow)(nil)).Where("created_at >= ?", NewTimestamp(since).Or(Epoch)).
		Order("created_at", "id").Limit(int64(limit))
}

// SweepSignals forgets at most limit (zero: 100) of the signals made before the
// time, and returns how many.
func (db *DB) SweepSignals(ctx context.Context, before time.Time, limit int) (int, error) {
	return db.DeleteExpired(ctx, ExpiredSignals(before), limit)
}

func ExpiredSignals(before time.Time) Expired {
	return Expired{Table: "signals", Key: "id", Time: "created_at", Before: NewTimestamp(before).Or(Epoch)}
}
