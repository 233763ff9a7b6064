package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// TakeRound implements [action.Ledger].
func (db *DB) TakeRound(ctx context.Context, organization, invocation string, can action.ClientFeatures, lost, now time.Time) (taken *action.AskedRound, err error) {
	some, err := exists(ctx, takeable(db.read, organization, invocation, can, at(lost).or(epoch), at(now)))
	if err != nil || !some {
		return nil, err
	}
	err = db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		taken = nil
		r := &roundRow{}
		err := tx.NewUpdate().Model(r).Set("taken_at = ?", at(now)).
			Where("id = (?)", takeable(tx, organization, invocation, can, at(lost).or(epoch), at(now))).Returning("*").Scan(ctx)
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

// takeable finds the newest round that a caller may be given: an older one is
// of a source that could not close it. coalesce keeps PostgreSQL from the index
// of all rounds' ends.
func takeable(db bun.IDB, organization, invocation string, can action.ClientFeatures, lost, now stamp) *bun.SelectQuery {
	return db.NewSelect().TableExpr("rounds AS r").ColumnExpr("r.id").Join("JOIN invocations AS i ON i.id = r.invocation_id").
		Where("r.invocation_id = ?", invocation).Where("r.organization_id = ?", organization).
		Where("(r.taken_at IS NULL OR r.taken_at < ?)", lost).Where("r.answered_at IS NULL").Where("r.closed_at IS NULL").Where("coalesce(r.until, ?0) > ?0", now).
		Where("(r.needs & ?) = r.needs", int(can)).Where("i.status = 'executing'").
		OrderExpr("r.asked_at DESC, r.id DESC").Limit(1)
}

// ReplyRound implements [action.Ledger]. A reader looks first: ids come from
// clients, and what nobody asked is no reason to write.
func (db *DB) ReplyRound(ctx context.Context, organization, session, id string, replies map[string][]byte, final bool, now time.Time) (round action.AskedRound, err error) {
	asked, err := db.readRound(ctx, organization, id)
	if err == nil {
		err = asked.takes(session, replies)
	}
	if err != nil {
		return action.AskedRound{}, err
	}
	err = db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := roundOf(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		if err := r.takes(session, replies); err != nil {
			return err
		}
		if r.AnsweredAt.t.IsZero() {
			if err := r.reply(ctx, tx, replies, final, at(now)); err != nil {
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

// takes refuses replies of whoever was not asked, and to what was not asked.
func (r *roundRow) takes(session string, replies map[string][]byte) error {
	if r.Session != session || r.TakenAt.t.IsZero() {
		return noRound()
	}
	for key := range replies {
		if !slices.Contains(r.Keys, key) {
			return noRound()
		}
	}
	return nil
}

// reply writes what is new of the replies, and notes when nothing is missing.
func (r *roundRow) reply(ctx context.Context, tx bun.Tx, replies map[string][]byte, final bool, now stamp) error {
	if !r.ClosedAt.t.IsZero() || now.t.After(r.Until.t) {
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
