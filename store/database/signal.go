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

// MaxSignal bounds the data of a signal, in bytes.
const MaxSignal = 64 << 10

// Signal is a message about an MCP session from one instance to the others. It is
// kept for some minutes, until a sweep deletes it.
type Signal struct {
	ID           string
	Organization string
	Session      string          // hash of the MCP session ID, which is itself a credential
	Kind         string          // opaque to the store
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

// PostSignal stores a signal and returns it with the ID and time that the store
// assigned.
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
		// Set the time here and not before waiting for the writer: the overlap of
		// readers' windows must cover the time until the commit. A conflict means
		// that an earlier attempt committed this signal without confirmation.
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

// Signals returns the signals of all organizations that were created at or after
// since, oldest first.
//
// A signal becomes visible when its transaction commits, possibly after a
// slightly newer one. Readers therefore let their windows overlap by some seconds
// and skip the IDs they have already processed. After a full page, the next one
// starts at the time of the last signal. The limit (default 100) must exceed the
// number of signals in one overlap.
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

// Signals selects the signals created at or after since, oldest first.
func Signals(db bun.IDB, since time.Time, limit int) *bun.SelectQuery {
	return db.NewSelect().Model((*signalRow)(nil)).Where("created_at >= ?", NewTimestamp(since).Or(Epoch)).
		Order("created_at", "id").Limit(int64(limit))
}

// SweepSignals deletes up to limit (default 100) signals created before the time
// and returns their number.
func (db *DB) SweepSignals(ctx context.Context, before time.Time, limit int) (int, error) {
	return db.DeleteExpired(ctx, ExpiredSignals(before), limit)
}

// ExpiredSignals describes the signals created before the time.
func ExpiredSignals(before time.Time) Expired {
	return Expired{Table: "signals", Key: "id", Time: "created_at", Before: NewTimestamp(before).Or(Epoch)}
}
