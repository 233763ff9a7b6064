package models

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// requestRow is a row of the table model_requests.
type requestRow struct {
	bun.BaseModel `bun:"table:model_requests"`
	action.ModelRequest
	Estimated int `bun:"estimated"`
	Priced    int `bun:"priced"`
}

func newRequestRow(r *action.ModelRequest) *requestRow {
	return &requestRow{ModelRequest: *r, Estimated: database.BoolToInt(r.Estimated), Priced: database.BoolToInt(r.Priced)}
}

func (r *requestRow) request() action.ModelRequest {
	m := r.ModelRequest
	m.Estimated, m.Priced = r.Estimated == 1, r.Priced == 1
	return m
}

// BeginModelRequest implements llm.Ledger. The row is queued, like that of an allowed
// read: the first byte of an answer does not wait for the disk. Its end waits for it.
func (st *Store) BeginModelRequest(ctx context.Context, r *action.ModelRequest) error {
	row := newRequestRow(r)
	err := st.db.Write.Enqueue(ctx, &database.Job{Row: row.ID, SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
		_, err := tx.NewInsert().Model(row).On("CONFLICT DO NOTHING").Exec(ctx)
		return err
	}})
	if err != nil {
		return fmt.Errorf("writing a request to a model: %w", err)
	}
	return nil
}

// EndModelRequest implements llm.Ledger. A request that ended already is not counted
// again.
func (st *Store) EndModelRequest(ctx context.Context, r *action.ModelRequest) error {
	row := newRequestRow(r)
	err := st.db.Write.Do(ctx, &database.Job{Row: row.ID, InTransaction: true, Run: func(ctx context.Context, tx bun.IDB) error {
		n, err := database.RowsAffected(tx.NewUpdate().Model(row).WherePK().Where("ended_at IS NULL").Exec(ctx))
		if err != nil {
			return err
		}
		if n == 0 {
			if n, err = database.RowsAffected(tx.NewInsert().Model(row).On("CONFLICT DO NOTHING").Exec(ctx)); err != nil || n == 0 {
				return err
			}
		}
		return addUsage(ctx, tx, r)
	}})
	if err != nil {
		return fmt.Errorf("writing the end of a request to a model: %w", err)
	}
	return nil
}

// usageRow is a row of the table model_usage.
type usageRow struct {
	bun.BaseModel `bun:"table:model_usage"`

	Organization string              `bun:"organization_id,pk"`
	Day          string              `bun:"day,pk"`
	Session      string              `bun:"session_id,pk"`
	Provider     string              `bun:"provider,pk"`
	Model        string              `bun:"model,pk"`
	Automation   database.NullString `bun:"automation_id"`
	Group        database.NullString `bun:"group_id"`
	Requests     int64               `bun:"requests"`
	Refused      int64               `bun:"refused"`
	action.ModelTokens
	Cost     int64 `bun:"cost_micros"`
	Unpriced int64 `bun:"unpriced"`
}

// sums are the columns of usageRow that add up.
func sums() []string {
	return []string{"requests", "refused", "input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "cost_micros", "unpriced"}
}

// addUsage adds a request to the sums of its day.
func addUsage(ctx context.Context, tx bun.IDB, r *action.ModelRequest) error {
	row := &usageRow{
		Organization: r.Organization, Day: r.CreatedAt.UTC().Format(time.DateOnly), Session: r.Session, Provider: r.Provider, Model: r.Model,
		Automation: database.NullString(r.Automation), Group: database.NullString(r.Group), ModelTokens: r.ModelTokens, Cost: r.Cost,
	}
	if r.Refused() {
		row.Refused = 1
	} else {
		row.Requests = 1
		row.Unpriced = int64(database.BoolToInt(!r.Priced && r.Sum() > 0))
	}
	q := tx.NewInsert().Model(row).On("CONFLICT (organization_id, day, session_id, provider, model) DO UPDATE")
	for _, c := range sums() {
		q = q.Set("? = usage_row.? + EXCLUDED.?", bun.Ident(c), bun.Ident(c), bun.Ident(c))
	}
	_, err := q.Exec(ctx)
	return err
}

// ModelSpent implements llm.Ledger.
func (st *Store) ModelSpent(ctx context.Context, s *action.Session, l *action.ModelLimit, now time.Time) (tokens, cost int64, err error) {
	q := st.db.Read.NewSelect().Table("model_usage").
		ColumnExpr("CAST(coalesce(sum(input_tokens + cached_tokens + cache_write_tokens + output_tokens), 0) AS BIGINT)").ColumnExpr("CAST(coalesce(sum(cost_micros), 0) AS BIGINT)").
		Where("organization_id = ?", s.Organization)
	switch {
	case l.Per == action.EachSession:
		q = q.Where("session_id = ?", s.ID)
	default:
		q = q.Where("day >= ?", l.Per.Since(now).Format(time.DateOnly))
		if group, ok := l.Group(); ok {
			q = q.Where("group_id = ?", group)
		}
		if automation, ok := l.Automation(); ok {
			q = q.Where("automation_id = ?", automation)
		}
	}
	if err := q.Scan(ctx, &tokens, &cost); err != nil {
		return 0, 0, fmt.Errorf("reading the use of models: %w", err)
	}
	return tokens, cost, nil
}

// ModelUsage returns the use of models by what the filter says, the newest day or the
// most expensive first.
func (st *Store) ModelUsage(ctx context.Context, f action.ModelUsageFilter) ([]action.ModelUsage, error) {
	key := map[string]string{
		"session": "session_id", "automation": "coalesce(automation_id, '')", "group": "coalesce(group_id, '')",
		"provider": "provider", "model": "provider || '/' || model", "day": "day",
	}[f.By]
	if key == "" {
		return nil, database.Invalid("/by", "Group usage by session, automation, group, provider, model or day.")
	}
	q := st.db.Read.NewSelect().Table("model_usage").ColumnExpr(key+" AS key").Where("organization_id = ?", f.Organization).GroupExpr("1").Limit(500)
	for _, c := range sums() {
		q = q.ColumnExpr("CAST(sum(?) AS BIGINT) AS ?", bun.Ident(c), bun.Ident(c))
	}
	if f.Session != "" {
		q = q.Where("session_id = ?", f.Session)
	}
	if f.Automation != "" {
		q = q.Where("automation_id = ?", f.Automation)
	}
	if !f.Since.IsZero() {
		q = q.Where("day >= ?", f.Since.UTC().Format(time.DateOnly))
	}
	if !f.Until.IsZero() {
		q = q.Where("day <= ?", f.Until.UTC().Format(time.DateOnly))
	}
	if f.By == "day" {
		q = q.OrderExpr("1 DESC")
	} else {
		q = q.OrderExpr("sum(cost_micros) DESC, sum(input_tokens + output_tokens) DESC, 1")
	}
	list := []action.ModelUsage{}
	if err := q.Scan(ctx, &list); err != nil {
		return nil, fmt.Errorf("reading the use of models: %w", err)
	}
	return list, nil
}

// ListModelRequests returns a page of requests, newest first.
func (st *Store) ListModelRequests(ctx context.Context, f action.ModelRequestFilter) (action.Page[action.ModelRequest], error) {
	match := func(q *bun.SelectQuery) *bun.SelectQuery {
		q = q.Where("organization_id = ?", f.Organization)
		if f.Session != "" {
			q = q.Where("session_id = ?", f.Session)
		}
		return q
	}
	return database.ListQuery[requestRow, action.ModelRequest]{
		Cursor: f.Cursor, Limit: f.Limit, All: match(st.db.Read.NewSelect().Table("model_requests")),
		Rows: func(after database.Cursor, limit int) *bun.SelectQuery {
			return database.NewestFirst(match(st.db.Read.NewSelect().Model((*requestRow)(nil))), after, limit)
		},
		Value: (*requestRow).request,
		Position: func(r *requestRow) database.Cursor {
			return database.Cursor{Time: database.NewTimestamp(r.CreatedAt), ID: r.ID}
		},
	}.Page(ctx)
}

// EndLostModelRequests ends requests that began before a time and whose instance did
// not end them. What they used is not known. It ends at most limit and returns how many.
func (st *Store) EndLostModelRequests(ctx context.Context, before time.Time, limit int) (n int, err error) {
	now := database.NewTimestamp(st.db.Now())
	err = st.db.Write.Do(ctx, &database.Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
		n, err = database.RowsAffected(tx.NewUpdate().Table("model_requests").Set("ended_at = ?", now).Set("code = 'model_interrupted'").
			Where("(organization_id, id) IN (?)", tx.NewSelect().Table("model_requests").Column("organization_id", "id").
				Where("ended_at IS NULL").Where("created_at < ?", database.NewTimestamp(before)).Limit(int64(limit))).
			Where("ended_at IS NULL").Exec(ctx))
		return err
	}})
	if err != nil {
		return 0, fmt.Errorf("ending lost requests to models: %w", err)
	}
	return n, nil
}

// SweepModelRequests deletes at most limit requests from before a time, and returns how
// many. Their sums stay.
func (st *Store) SweepModelRequests(ctx context.Context, before time.Time, limit int) (int, error) {
	return st.db.DeleteExpired(ctx, database.Expired{Table: "model_requests", Key: "organization_id, id", Time: "created_at", Before: database.NewTimestamp(before)}, limit)
}
