package calls

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
	"sallyport/store/database"
)

// roundRow is a round of questions. Its writes are exclusive jobs: they are
// few, and must be neither repeated nor lost.
type roundRow struct {
	bun.BaseModel `bun:"table:rounds"`

	ID           string              `bun:"id,pk"`
	Organization string              `bun:"organization_id"`
	Invocation   string              `bun:"invocation_id"`
	Session      string              `bun:"session_id"`
	Needs        int                 `bun:"needs"`
	Keys         database.StringList `bun:"keys"`
	Sealed       []byte              `bun:"sealed"`
	AskedAt      database.Timestamp  `bun:"asked_at"`
	Until        database.Timestamp  `bun:"until"`
	TakenAt      database.Timestamp  `bun:"taken_at"`
	AnsweredAt   database.Timestamp  `bun:"answered_at"`
	ClosedAt     database.Timestamp  `bun:"closed_at"`
}

func (r *roundRow) round() action.AskedRound {
	return action.AskedRound{
		ID: r.ID, Organization: r.Organization, Invocation: r.Invocation, Session: r.Session,
		Needs: action.ClientFeatures(r.Needs), Keys: r.Keys, Sealed: r.Sealed, AskedAt: r.AskedAt.Time, Until: r.Until.Time,
		TakenAt: r.TakenAt.Ptr(), AnsweredAt: r.AnsweredAt.Ptr(), ClosedAt: r.ClosedAt.Ptr(),
	}
}

// replyRow is a client's reply to one question of a round.
type replyRow struct {
	bun.BaseModel `bun:"table:round_replies"`

	Round  string             `bun:"round_id,pk"`
	Key    string             `bun:"key,pk"`
	At     database.Timestamp `bun:"at"`
	Sealed []byte             `bun:"sealed"`
}

const openRoundSQL = `INSERT INTO rounds (id, organization_id, invocation_id, session_id, needs, keys, sealed, asked_at, until)
SELECT ?, i.organization_id, i.id, i.session_id, ?, ?, ?, ?, ? FROM open_calls i
WHERE i.organization_id = ? AND i.id = ? AND i.session_id = ? AND i.status = 'executing'`

// OpenRound implements [action.Ledger].
func (st *Store) OpenRound(ctx context.Context, r *action.AskedRound) error {
	// The call may be a read whose row is queued.
	if err := st.db.Write.Flush(ctx, r.Invocation); err != nil {
		return err
	}
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := database.RowsAffected(tx.NewRaw(openRoundSQL, r.ID, int(r.Needs), database.StringList(r.Keys), r.Sealed, database.NewTimestamp(r.AskedAt), database.NewTimestamp(r.Until),
			r.Organization, r.Invocation, r.Session).Exec(ctx))
		switch {
		case err != nil:
			return fmt.Errorf("opening a round of questions of invocation %s: %w", r.Invocation, err)
		case n == 0:
			return action.Errorf(action.ErrConflict, "not_executing", "This call is no longer executing, so its source cannot ask questions.").WithInvocation(r.Invocation)
		}
		return nil
	})
}

// OpenRounds implements [action.Ledger].
func (st *Store) OpenRounds(ctx context.Context, invocations []string) (asking []string, err error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	for batch := range slices.Chunk(invocations, database.MaxIDsPerStatement) {
		var found []string
		if err := OpenRounds(st.db.Read, batch).Scan(ctx, &found); err != nil {
			return nil, fmt.Errorf("reading open rounds of questions: %w", err)
		}
		asking = append(asking, found...)
	}
	return asking, nil
}

// OpenRounds selects those of the invocations that have a round nobody has taken yet.
func OpenRounds(db bun.IDB, invocations []string) *bun.SelectQuery {
	return db.NewSelect().Table("rounds").Distinct().Column("invocation_id").
		Where("invocation_id IN (?)", bun.List(invocations)).Where("taken_at IS NULL").Where("closed_at IS NULL")
}

// LoadRound implements [action.Ledger].
func (st *Store) LoadRound(ctx context.Context, organization, id string) (action.AskedRound, error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	r, err := loadRound(ctx, st.db.Read, organization, id)
	if err != nil {
		return action.AskedRound{}, err
	}
	return r.withReplies(ctx, st.db.Read)
}

// withReplies reads the replies after the round, so that an answered round
// always has them.
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
func (st *Store) CloseRound(ctx context.Context, organization, id string, data json.RawMessage, now time.Time) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := loadRound(ctx, tx, organization, id)
		if err != nil || !r.ClosedAt.Time.IsZero() {
			return err
		}
		r.ClosedAt, r.Sealed = database.NewTimestamp(now), nil
		if _, err := tx.NewUpdate().Model(r).Column("closed_at", "sealed").WherePK().Exec(ctx); err != nil {
			return fmt.Errorf("closing round %s: %w", id, err)
		}
		if _, err := tx.NewDelete().Model((*replyRow)(nil)).Where("round_id = ?", id).Exec(ctx); err != nil {
			return fmt.Errorf("deleting the replies to round %s: %w", id, err)
		}
		return appendEvent(ctx, tx, &action.Event{Organization: r.Organization, Invocation: r.Invocation, Kind: action.SourceAsked, At: now, Data: data})
	})
}

// roundRetention keeps a round after its deadline, so that a client that
// repeats its reply gets the same response.
const roundRetention = time.Hour

// ExpiredRounds selects the rounds past their retention, also those that were
// never closed.
func ExpiredRounds(now time.Time) database.Expired {
	return database.Expired{Table: "rounds", Key: "id", Time: "until", Before: database.NewTimestamp(now.Add(-roundRetention)).Or(database.Epoch)}
}

// sweepRounds deletes expired rounds. If one is still open, the instance that
// opened it died, so the sweep records its outcome.
func (st *Store) sweepRounds(ctx context.Context, now time.Time, limit int) (n int, err error) {
	expired := ExpiredRounds(now)
	found, err := database.Exists(ctx, expired.Find(st.db.Read.NewSelect(), 1))
	if err == nil && found {
		err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
			var rows []roundRow
			if err := expired.Remove(tx, limit).Returning("id, organization_id, invocation_id, closed_at").Scan(ctx, &rows); err != nil {
				return err
			}
			for _, r := range rows {
				if err := r.recordAbandoned(ctx, tx, now); err != nil {
					return err
				}
			}
			n = len(rows)
			return nil
		})
	}
	if err != nil {
		return 0, fmt.Errorf("sweeping rounds: %w", err)
	}
	return n, nil
}

// recordAbandoned appends an event if the round was never closed.
func (r *roundRow) recordAbandoned(ctx context.Context, tx bun.Tx, now time.Time) error {
	if !r.ClosedAt.Time.IsZero() {
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

func loadRound(ctx context.Context, db bun.IDB, organization, id string) (*roundRow, error) {
	r, err := database.One[roundRow](ctx, database.RowsOf[roundRow](db, organization).Where("id = ?", id), action.NewError("round_not_found"))
	return &r, err
}

// TakeRound implements [action.Ledger].
func (st *Store) TakeRound(ctx context.Context, organization, invocation string, features action.ClientFeatures, lostBefore, now time.Time) (taken *action.AskedRound, err error) {
	found, err := database.Exists(ctx, TakeableRound(st.db.Read, organization, invocation, features, database.NewTimestamp(lostBefore).Or(database.Epoch), database.NewTimestamp(now)))
	if err != nil || !found {
		return nil, err
	}
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		taken = nil
		r := &roundRow{}
		err := tx.NewUpdate().Model(r).Set("taken_at = ?", database.NewTimestamp(now)).
			Where("id = (?)", TakeableRound(tx, organization, invocation, features, database.NewTimestamp(lostBefore).Or(database.Epoch), database.NewTimestamp(now))).Returning("*").Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("taking a round of questions of invocation %s: %w", invocation, err)
		}
		round := r.round()
		taken = &round
		return nil
	})
	return taken, err
}

// TakeableRound selects the newest round that a caller may get. An older one
// belongs to a source that failed to close it. coalesce prevents PostgreSQL
// from using the index on until.
func TakeableRound(db bun.IDB, organization, invocation string, features action.ClientFeatures, lostBefore, now database.Timestamp) *bun.SelectQuery {
	return db.NewSelect().TableExpr("rounds AS r").ColumnExpr("r.id").Join("JOIN open_calls AS i ON i.id = r.invocation_id").
		Where("r.invocation_id = ?", invocation).Where("r.organization_id = ?", organization).
		Where("(r.taken_at IS NULL OR r.taken_at < ?)", lostBefore).Where("r.answered_at IS NULL").Where("r.closed_at IS NULL").Where("coalesce(r.until, ?0) > ?0", now).
		Where("(r.needs & ?) = r.needs", int(features)).Where("i.status = 'executing'").
		OrderExpr("r.asked_at DESC, r.id DESC").Limit(1)
}

// ReplyRound implements [action.Ledger]. It checks with a read first, because
// clients choose the IDs and an unknown one must not cause a write.
func (st *Store) ReplyRound(ctx context.Context, organization, session, id string, replies map[string][]byte, final bool, now time.Time) (round action.AskedRound, err error) {
	readCtx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	current, err := loadRound(readCtx, st.db.Read, organization, id)
	if err == nil {
		err = current.checkReplies(session, replies)
	}
	if err != nil {
		return action.AskedRound{}, err
	}
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := loadRound(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		if err := r.checkReplies(session, replies); err != nil {
			return err
		}
		if r.AnsweredAt.Time.IsZero() {
			if err := r.addReplies(ctx, tx, replies, final, database.NewTimestamp(now)); err != nil {
				return err
			}
		}
		round, err = r.withReplies(ctx, tx)
		return err
	})
	if err != nil {
		return action.AskedRound{}, err
	}
	return round, nil
}

// checkReplies rejects replies from another session and to unknown questions.
func (r *roundRow) checkReplies(session string, replies map[string][]byte) error {
	if r.Session != session || r.TakenAt.Time.IsZero() {
		return action.NewError("round_not_found")
	}
	for key := range replies {
		if !slices.Contains(r.Keys, key) {
			return action.NewError("round_not_found")
		}
	}
	return nil
}

// addReplies inserts the new replies and marks the round as answered when it is
// complete.
func (r *roundRow) addReplies(ctx context.Context, tx bun.Tx, replies map[string][]byte, final bool, now database.Timestamp) error {
	if !r.ClosedAt.Time.IsZero() || now.Time.After(r.Until.Time) {
		return action.NewError("round_over")
	}
	for key, sealed := range replies {
		_, err := tx.NewInsert().Model(&replyRow{Round: r.ID, Key: key, At: now, Sealed: sealed}).
			On("CONFLICT (round_id, key) DO NOTHING").Exec(ctx)
		if err != nil {
			return fmt.Errorf("writing a reply to round %s: %w", r.ID, err)
		}
	}
	n, err := tx.NewSelect().Table("round_replies").Where("round_id = ?", r.ID).Count(ctx)
	if err != nil {
		return fmt.Errorf("counting the replies to round %s: %w", r.ID, err)
	}
	if !final && int(n) < len(r.Keys) {
		return nil
	}
	r.AnsweredAt = now
	_, err = tx.NewUpdate().Model(r).Column("answered_at").WherePK().Exec(ctx)
	if err != nil {
		return fmt.Errorf("answering round %s: %w", r.ID, err)
	}
	return nil
}
