package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// roundRow is a round of questions. Its writes are exclusive jobs: there are
// few of them, and none may be done twice or be lost unheard.
type roundRow struct {
	bun.BaseModel `bun:"table:rounds"`

	ID           string `bun:"id,pk"`
	Organization string `bun:"organization_id"`
	Invocation   string `bun:"invocation_id"`
	Session      string `bun:"session_id"`
	Needs        int    `bun:"needs"`
	Keys         texts  `bun:"keys"`
	Sealed       []byte `bun:"sealed"`
	AskedAt      stamp  `bun:"asked_at"`
	Until        stamp  `bun:"until"`
	TakenAt      stamp  `bun:"taken_at"`
	AnsweredAt   stamp  `bun:"answered_at"`
	ClosedAt     stamp  `bun:"closed_at"`
}

func (r *roundRow) round() action.AskedRound {
	return action.AskedRound{
		ID: r.ID, Organization: r.Organization, Invocation: r.Invocation, Session: r.Session,
		Needs: action.ClientFeatures(r.Needs), Keys: r.Keys, Sealed: r.Sealed, AskedAt: r.AskedAt.t, Until: r.Until.t,
		TakenAt: r.TakenAt.ptr(), AnsweredAt: r.AnsweredAt.ptr(), ClosedAt: r.ClosedAt.ptr(),
	}
}

// replyRow is what a client answered to one question of a round.
type replyRow struct {
	bun.BaseModel `bun:"table:round_replies"`

	Round  string `bun:"round_id,pk"`
	Key    string `bun:"key,pk"`
	At     stamp  `bun:"at"`
	Sealed []byte `bun:"sealed"`
}

const openRoundSQL = `INSERT INTO rounds (id, organization_id, invocation_id, session_id, needs, keys, sealed, asked_at, until)
SELECT ?, i.organization_id, i.id, i.session_id, ?, ?, ?, ?, ? FROM invocations i
WHERE i.organization_id = ? AND i.id = ? AND i.session_id = ? AND i.status = 'executing'`

// OpenRound implements [action.Ledger].
func (db *DB) OpenRound(ctx context.Context, r *action.AskedRound) error {
	// The call may be a read whose row is queued.
	if err := db.write.flush(ctx, r.Invocation); err != nil {
		return err
	}
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := affected(tx.NewRaw(openRoundSQL, r.ID, int(r.Needs), texts(r.Keys), r.Sealed, at(r.AskedAt), at(r.Until),
			r.Organization, r.Invocation, r.Session).Exec(ctx))
		switch {
		case err != nil:
			return fmt.Errorf("opening a round of questions of invocation %s: %w", r.Invocation, err)
		case n == 0:
			return action.Errorf(action.ErrConflict, "not_executing", "This call is not executing any more, so nothing is asked for it.").WithInvocation(r.Invocation)
		}
		return nil
	})
}

// Asking implements [action.Ledger].
func (db *DB) Asking(ctx context.Context, invocations []string) (asking []string, err error) {
	ctx, stop := db.lookup(ctx)
	defer stop()
	for some := range slices.Chunk(invocations, chunk) {
		var found []string
		if err := asked(db.read, some).Scan(ctx, &found); err != nil {
			return nil, fmt.Errorf("looking for open rounds of questions: %w", err)
		}
		asking = append(asking, found...)
	}
	return asking, nil
}

func asked(db bun.IDB, invocations []string) *bun.SelectQuery {
	return db.NewSelect().Table("rounds").Distinct().Column("invocation_id").
		Where("invocation_id IN (?)", bun.List(invocations)).Where("taken_at IS NULL").Where("closed_at IS NULL")
}

// LoadRound implements [action.Ledger].
func (db *DB) LoadRound(ctx context.Context, organization, id string) (action.AskedRound, error) {
	ctx, stop := db.lookup(ctx)
	defer stop()
	r, err := roundOf(ctx, db.read, organization, id)
	if err != nil {
		return action.AskedRound{}, err
	}
	return r.withReplies(ctx, db.read)
}

// withReplies reads what was replied, after the round: what says that it is
// answered is never without its replies.
func (r *roundRow) withReplies(ctx context.Context, db bun.IDB) (action.AskedRound, error) {
	var rows []replyRow
	if err := db.NewSelect().Model(&rows).Where("round_id = ?", r.ID).Scan(ctx); err != nil {
		return action.AskedRound{}, fmt.Errorf("reading the replies to round %s: %w", r.ID, err)
	}
	round := r.round()
	round.Replies = make(map[string][]byte, len(rows))
	for i := range rows {
		round.Replies[rows[i].Key] = rows[i].Sealed
	}
	return round, nil
}

// CloseRound implements [action.Ledger].
func (db *DB) CloseRound(ctx context.Context, organization, id string, data json.RawMessage, now time.Time) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := roundOf(ctx, tx, organization, id)
		if err != nil || !r.ClosedAt.t.IsZero() {
			return err
		}
		r.ClosedAt, r.Sealed = at(now), nil
		if _, err := tx.NewUpdate().Model(r).Column("closed_at", "sealed").WherePK().Exec(ctx); err != nil {
			return fmt.Errorf("closing round %s: %w", id, err)
		}
		if _, err := tx.NewDelete().Model((*replyRow)(nil)).Where("round_id = ?", id).Exec(ctx); err != nil {
			return fmt.Errorf("wiping the replies to round %s: %w", id, err)
		}
		return appendEvent(ctx, tx, &action.Event{Organization: r.Organization, Invocation: r.Invocation, Kind: action.SourceAsked, At: now, Data: data})
	})
}

// roundAge is how long a round stays after the last moment in which it could be
// answered, so that a client that repeats its reply is told what became of it.
const roundAge = time.Hour

// oldRounds are those that nobody comes back for, also those that nobody
// closed.
func oldRounds(now time.Time) stale {
	return stale{table: "rounds", key: "id", time: "until", before: at(now.Add(-roundAge)).or(epoch)}
}

// sweepRounds forgets old rounds. Whoever asked one that is open died, so that
// this is where history learns of it.
func (db *DB) sweepRounds(ctx context.Context, now time.Time, limit int) error {
	old := oldRounds(now)
	some, err := exists(ctx, old.find(db.read.NewSelect(), 1))
	if err == nil && some {
		err = db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
			var rows []roundRow
			if err := old.remove(tx, limit).Returning("id, organization_id, invocation_id, closed_at").Scan(ctx, &rows); err != nil {
				return err
			}
			for _, r := range rows {
				if err := r.abandon(ctx, tx, now); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("sweeping rounds: %w", err)
	}
	return nil
}

// abandon tells of a round that nobody closed.
func (r *roundRow) abandon(ctx context.Context, tx bun.Tx, now time.Time) error {
	if !r.ClosedAt.t.IsZero() {
		return nil
	}
	data, err := json.Marshal(struct {
		Round   string `json:"round"`
		Outcome string `json:"outcome"`
	}{r.ID, "the gateway that asked stopped"})
	if err != nil {
		return err
	}
	return appendEvent(ctx, tx, &action.Event{Organization: r.Organization, Invocation: r.Invocation, Kind: action.SourceAsked, At: now, Data: data})
}

// readRound reads a round by itself.
func (db *DB) readRound(ctx context.Context, organization, id string) (*roundRow, error) {
	ctx, stop := db.lookup(ctx)
	defer stop()
	return roundOf(ctx, db.read, organization, id)
}

func roundOf(ctx context.Context, db bun.IDB, organization, id string) (*roundRow, error) {
	r := &roundRow{ID: id}
	err := db.NewSelect().Model(r).WherePK().Where("organization_id = ?", organization).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, noRound()
	}
	if err != nil {
		return nil, fmt.Errorf("reading round %s: %w", id, err)
	}
	return r, nil
}

func noRound() error {
	return action.NewError("round_not_found")
}
