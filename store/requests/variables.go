package requests

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/policy"
	"sallyport/store/sessions"
)

const (
	// MaxEnvRequests bounds the pending requests of a session.
	MaxEnvRequests = 5
	// EnvRequestLifetime bounds how long a request waits for a decision, and its
	// values, after an answer, for the sandbox.
	EnvRequestLifetime = 24 * time.Hour
	// EnvRepeatWindow is how long taken values are returned again to the same key,
	// because the response may have been lost.
	EnvRepeatWindow = 5 * time.Minute
)

// envRow is a request for environment variables. Keys is JSON text.
type envRow struct {
	bun.BaseModel `bun:"table:env_requests"`

	ID           string              `bun:"id,pk"`
	Organization string              `bun:"organization_id"`
	Session      string              `bun:"session_id"`
	Status       string              `bun:"status"`
	Keys         string              `bun:"keys"`
	CreatedAt    database.Timestamp  `bun:"created_at"`
	ExpiresAt    database.Timestamp  `bun:"expires_at"`
	DecidedBy    database.NullString `bun:"decided_by"`
	DecidedAt    database.Timestamp  `bun:"decided_at"`
	Note         database.NullString `bun:"note"`
	TakenAt      database.Timestamp  `bun:"taken_at"`
}

func (r *envRow) request() (action.EnvRequest, error) {
	req := action.EnvRequest{
		ID: r.ID, Organization: r.Organization, Session: r.Session, Status: action.EnvStatus(r.Status), CreatedAt: r.CreatedAt.Time, ExpiresAt: r.ExpiresAt.Time,
		DecidedBy: string(r.DecidedBy), DecidedAt: r.DecidedAt.Ptr(), Note: string(r.Note), TakenAt: r.TakenAt.Ptr(),
	}
	if err := json.Unmarshal([]byte(r.Keys), &req.Keys); err != nil {
		return req, fmt.Errorf("reading the keys of request %s: %w", r.ID, err)
	}
	return req, nil
}

// RequestEnv stores a session's request for variables. A repeat returns the pending
// request; created reports whether a new one was stored. Errors: ErrInvalid with the
// field; those of a session that is unknown or has ended; ErrTooMany (code
// "too_many_requests").
func (st *Store) RequestEnv(ctx context.Context, organization, session string, keys []action.EnvKey) (req action.EnvRequest, created bool, err error) {
	if err := action.CheckEnvKeys(keys); err != nil {
		return req, false, err
	}
	now := st.db.Now()
	r, err := newEnvRow(organization, session, keys, now)
	if err != nil {
		return req, false, err
	}
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		created = false
		earlier, err := insertEnvRequest(ctx, tx, r, now)
		if created = err == nil && earlier == nil; earlier != nil {
			r = earlier
		}
		return err
	})
	if err != nil {
		return req, false, err
	}
	req, err = r.request()
	return req, created, err
}

func newEnvRow(organization, session string, keys []action.EnvKey, now time.Time) (*envRow, error) {
	id, err := database.NewID()
	if err != nil {
		return nil, err
	}
	text, err := policy.MarshalUnescaped(keys)
	if err != nil {
		return nil, fmt.Errorf("encoding requested variables: %w", err)
	}
	return &envRow{
		ID: id, Organization: organization, Session: session, Status: string(action.EnvPending), Keys: text, CreatedAt: database.NewTimestamp(now), ExpiresAt: database.NewTimestamp(now.Add(EnvRequestLifetime)),
	}, nil
}

func insertEnvRequest(ctx context.Context, tx bun.IDB, r *envRow, now time.Time) (earlier *envRow, err error) {
	s, err := sessions.ReadSession(ctx, tx, r.Organization, r.Session)
	if err != nil {
		return nil, err
	}
	if err := s.Working(now); err != nil {
		return nil, err
	}
	var pending []envRow
	if err := tx.NewSelect().Model(&pending).Where("session_id = ?", r.Session).Where("status = 'pending'").Where("expires_at > ?", database.NewTimestamp(now)).Scan(ctx); err != nil {
		return nil, fmt.Errorf("reading the requests of session %s: %w", r.Session, err)
	}
	for i := range pending {
		if pending[i].Keys == r.Keys {
			return &pending[i], nil
		}
	}
	if len(pending) >= MaxEnvRequests {
		return nil, action.Errorf(action.ErrTooMany, "too_many_requests", "%d requests of this session already wait for a person; wait until one is answered, then ask again.", len(pending))
	}
	if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
		return nil, fmt.Errorf("writing a request for variables: %w", err)
	}
	return nil, nil
}

// EnvRequest returns a request; ErrNotFound.
func (st *Store) EnvRequest(ctx context.Context, organization, id string) (action.EnvRequest, error) {
	r, err := readEnvRow(ctx, st.db.Read, organization, id)
	if err != nil {
		return action.EnvRequest{}, err
	}
	return r.request()
}

func readEnvRow(ctx context.Context, db bun.IDB, organization, id string) (*envRow, error) {
	var r envRow
	err := db.NewSelect().Model(&r).Where("organization_id = ?", organization).Where("id = ?", id).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, action.NewError("env_request_not_found")
	}
	if err != nil {
		return nil, fmt.Errorf("reading request %s: %w", id, err)
	}
	return &r, nil
}

// ListEnvRequests returns a page of requests, newest first.
func (st *Store) ListEnvRequests(ctx context.Context, f action.EnvFilter) (action.Page[action.EnvRequest], error) {
	var page action.Page[action.EnvRequest]
	after, err := database.ParseCursor(f.Cursor)
	if err != nil {
		return page, err
	}
	if f.Status != "" && !f.Status.Valid() {
		return page, database.Invalid("/status", fmt.Sprintf("There is no status %q; a request is pending, answered, taken, refused or expired.", f.Status))
	}
	match := func(q *bun.SelectQuery) *bun.SelectQuery {
		q = q.Where("organization_id = ?", f.Organization)
		if f.Session != "" {
			q = q.Where("session_id = ?", f.Session)
		}
		if f.Status != "" {
			q = q.Where("status = ?", string(f.Status))
		}
		return q
	}
	var rows []envRow
	if err := database.NewestFirst(match(st.db.Read.NewSelect().Model(&rows)), after, database.PageSize(f.Limit)).Scan(ctx); err != nil {
		return page, fmt.Errorf("listing requests for variables: %w", err)
	}
	total, capped, err := database.CountUpTo(ctx, match(st.db.Read.NewSelect().Table("env_requests")))
	if err != nil {
		return page, fmt.Errorf("counting requests for variables: %w", err)
	}
	list := make([]action.EnvRequest, 0, len(rows))
	for i := range rows {
		req, err := rows[i].request()
		if err != nil {
			return page, err
		}
		list = append(list, req)
	}
	return database.NewPage(list, database.PageSize(f.Limit), total, capped, func(r action.EnvRequest) database.Cursor {
		return database.Cursor{Time: database.NewTimestamp(r.CreatedAt), ID: r.ID}
	}), nil
}
