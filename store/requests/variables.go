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
	// MaxEnvRequests is how many requests of a session may wait for a person.
	MaxEnvRequests = 5
	// EnvWaits is how long a request waits for a person, and then its values for
	// the sandbox.
	EnvWaits = 24 * time.Hour
	// EnvAgain is how long values that were taken are handed out again to the
	// same key, as the answer may have been lost.
	EnvAgain = 5 * time.Minute
)

// envRow is a request for environment variables. What is asked for is JSON text.
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

// RequestEnv writes down what variables a session wants. The same wish is the
// request that waits already; made tells that a new one was written. Errors:
// ErrInvalid with the field; those of a session that is unknown or not live;
// ErrTooMany (code "too_many_requests").
func (st *Store) RequestEnv(ctx context.Context, organization, session string, keys []action.EnvKey) (req action.EnvRequest, made bool, err error) {
	if err := action.CheckEnvKeys(keys); err != nil {
		return req, false, err
	}
	now := st.db.Now()
	r, err := newEnvRow(organization, session, keys, now)
	if err != nil {
		return req, false, err
	}
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		made = false
		earlier, err := putEnvRequest(ctx, tx, r, now)
		if made = err == nil && earlier == nil; earlier != nil {
			r = earlier
		}
		return err
	})
	if err != nil {
		return req, false, err
	}
	req, err = r.request()
	return req, made, err
}

func newEnvRow(organization, session string, keys []action.EnvKey, now time.Time) (*envRow, error) {
	id, err := database.NewID()
	if err != nil {
		return nil, err
	}
	text, err := policy.Verbatim(keys)
	if err != nil {
		return nil, fmt.Errorf("writing what variables are asked for: %w", err)
	}
	return &envRow{
		ID: id, Organization: organization, Session: session, Status: string(action.EnvPending), Keys: text, CreatedAt: database.NewTimestamp(now), ExpiresAt: database.NewTimestamp(now.Add(EnvWaits)),
	}, nil
}

func putEnvRequest(ctx context.Context, tx bun.IDB, r *envRow, now time.Time) (earlier *envRow, err error) {
	s, err := sessions.SessionIn(ctx, tx, r.Organization, r.Session)
	if err != nil {
		return nil, err
	}
	if err := s.Working(now); err != nil {
		return nil, err
	}
	var waiting []envRow
	if err := tx.NewSelect().Model(&waiting).Where("session_id = ?", r.Session).Where("status = 'pending'").Where("expires_at > ?", database.NewTimestamp(now)).Scan(ctx); err != nil {
		return nil, fmt.Errorf("looking for requests of session %s: %w", r.Session, err)
	}
	for i := range waiting {
		if waiting[i].Keys == r.Keys {
			return &waiting[i], nil
		}
	}
	if len(waiting) >= MaxEnvRequests {
		return nil, action.Errorf(action.ErrTooMany, "too_many_requests", "%d requests of this session already wait for a person; wait until one is answered, then ask again.", len(waiting))
	}
	if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
		return nil, fmt.Errorf("writing a request for variables: %w", err)
	}
	return nil, nil
}

// EnvRequest returns one request; ErrNotFound when the organization has no such.
func (st *Store) EnvRequest(ctx context.Context, organization, id string) (action.EnvRequest, error) {
	r, err := readEnv(ctx, st.db.Read, organization, id)
	if err != nil {
		return action.EnvRequest{}, err
	}
	return r.request()
}

func readEnv(ctx context.Context, db bun.IDB, organization, id string) (*envRow, error) {
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
