package policy

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
	"sallyport/store/history"
	"sallyport/store/sessions"
)

const (
	// maxRequests is how many requests of a session may wait for a person.
	maxRequests = 10
	// refusalHolds is how long a denied request is the answer to the same one,
	// and refusalCounts how long it counts against others like it.
	refusalHolds  = 15 * time.Minute
	refusalCounts = 24 * time.Hour
)

// RequestRow is a request for a grant as it is kept. What the agent wants is
// JSON text: nobody looks for parts of it.
type RequestRow struct {
	bun.BaseModel `bun:"table:grant_requests"`

	ID           string              `bun:"id,pk"`
	Organization string              `bun:"organization_id"`
	Session      string              `bun:"session_id"`
	Status       string              `bun:"status"`
	Terms        string              `bun:"terms"`
	ToolHash     database.NullString `bun:"tool_hash"`
	Reason       database.NullString `bun:"reason"`
	CreatedAt    database.Timestamp  `bun:"created_at"`
	ExpiresAt    database.Timestamp  `bun:"expires_at"`
	Grant        database.NullString `bun:"grant_id"`
	DecidedBy    database.NullString `bun:"decided_by"`
	DecidedAt    database.Timestamp  `bun:"decided_at"`
	DecidedNote  database.NullString `bun:"decided_note"`
}

func newRequestRow(r *action.GrantRequest) (*RequestRow, error) {
	terms := r.Terms
	terms.ExpiresAt = database.TimestampFromPtr(terms.ExpiresAt).Ptr() // the same terms are the same text
	text, err := Verbatim(terms)
	if err != nil {
		return nil, fmt.Errorf("writing the terms of a request: %w", err)
	}
	ends := r.ExpiresAt
	if terms.ExpiresAt != nil && terms.ExpiresAt.Before(ends) {
		ends = *terms.ExpiresAt // nobody can grant what is over
	}
	return &RequestRow{
		ID: r.ID, Organization: r.Organization, Session: r.Session, Status: string(action.RequestPending), Terms: text,
		ToolHash: database.NullString(r.ToolHash), Reason: database.NullString(r.Reason), CreatedAt: database.NewTimestamp(r.CreatedAt), ExpiresAt: database.NewTimestamp(ends),
	}, nil
}

func (r *RequestRow) request() (action.GrantRequest, error) {
	req := action.GrantRequest{
		ID: r.ID, Organization: r.Organization, Session: r.Session, Status: action.RequestStatus(r.Status),
		ToolHash: string(r.ToolHash), Reason: string(r.Reason), Grant: string(r.Grant),
		DecidedBy: string(r.DecidedBy), DecidedAt: r.DecidedAt.Ptr(), DecidedNote: string(r.DecidedNote),
		CreatedAt: r.CreatedAt.Time, ExpiresAt: r.ExpiresAt.Time,
	}
	if err := json.Unmarshal([]byte(r.Terms), &req.Terms); err != nil {
		return req, fmt.Errorf("reading the terms of request %s: %w", r.ID, err)
	}
	return req, nil
}

// same reports whether other asks for what r asks for. Until when is left out:
// who asks for an hour, and again, means another hour each time.
func (r *RequestRow) same(other *RequestRow) bool {
	return r.ToolHash == other.ToolHash && r.lasting() == other.lasting()
}

// like reports whether other asks about the same action, however much of it.
// Wishes for any action are all alike.
func (r *RequestRow) like(other *RequestRow) bool {
	var mine, theirs action.Terms
	if json.Unmarshal([]byte(r.Terms), &mine) != nil || json.Unmarshal([]byte(other.Terms), &theirs) != nil {
		return false
	}
	return mine.Any && theirs.Any || mine.Source == theirs.Source && mine.Action == theirs.Action
}

// lasting is the text of the terms without their end.
func (r *RequestRow) lasting() string {
	var t action.Terms
	if json.Unmarshal([]byte(r.Terms), &t) != nil {
		return r.Terms
	}
	t.ExpiresAt = nil
	text, err := json.Marshal(t)
	if err != nil {
		return r.Terms
	}
	return string(text)
}

// RequestGrant writes down what an agent asks for, and returns it with an id;
// it waits no longer than its terms last.
// Who asks again for the same is answered with the request that waits, or that
// was denied a short while ago; made tells that a new one was written. Errors:
// ErrInvalid with the field; those of a session that is unknown or not live;
// ErrTooMany (code "too_many_requests"); ErrForbidden (code "denied_often") when
// people said no to such requests as often as the organization's settings let
// an agent ask.
func (st *Store) RequestGrant(ctx context.Context, req action.GrantRequest) (_ action.GrantRequest, made bool, err error) {
	if req.ID, err = database.NewID(); err != nil {
		return action.GrantRequest{}, false, err
	}
	if req.CreatedAt.IsZero() {
		req.CreatedAt = st.db.Now()
	}
	if err := req.Terms.Check(req.CreatedAt); err != nil {
		return action.GrantRequest{}, false, err
	}
	r, err := newRequestRow(&req)
	if err != nil {
		return action.GrantRequest{}, false, err
	}
	// A reader looks first: an agent may ask over and over, and must not hold
	// up who writes.
	earlier, err := answered(ctx, st.db.Read, r)
	if err == nil && earlier == nil {
		err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
			earlier, err = putRequest(ctx, tx, r)
			return err
		})
	}
	if err != nil {
		return action.GrantRequest{}, false, err
	}
	if earlier != nil {
		r = earlier
	}
	req, err = r.request()
	return req, earlier == nil && err == nil, err
}

// putRequest writes the row, unless an earlier one answers it, which is
// returned.
func putRequest(ctx context.Context, tx bun.IDB, r *RequestRow) (*RequestRow, error) {
	s, err := sessions.SessionIn(ctx, tx, r.Organization, r.Session)
	if err != nil {
		return nil, err
	}
	if err := s.Accepts(r.CreatedAt.Time); err != nil {
		return nil, err
	}
	if earlier, err := answered(ctx, tx, r); earlier != nil || err != nil {
		return earlier, err
	}
	if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
		return nil, fmt.Errorf("writing a request for a grant: %w", err)
	}
	return nil, nil
}

// answered finds the request that answers r already, and refuses one more than
// may wait, or than people want to be asked.
func answered(ctx context.Context, db bun.IDB, r *RequestRow) (*RequestRow, error) {
	var rows []RequestRow
	if err := RecentRequests(db.NewSelect().Model(&rows), r).Scan(ctx); err != nil {
		return nil, fmt.Errorf("looking for requests of session %s: %w", r.Session, err)
	}
	pending, denied := 0, 0
	for i := range rows {
		other := &rows[i]
		waits := other.Status == string(action.RequestPending)
		switch {
		case other.same(r) && (waits || other.DecidedAt.Time.After(r.CreatedAt.Time.Add(-refusalHolds))):
			return other, nil
		case waits:
			pending++
		case other.like(r):
			denied++
		}
	}
	if pending >= maxRequests {
		return nil, action.Errorf(action.ErrTooMany, "too_many_requests",
			"%d requests of this session already wait for a person; wait until one of them is decided, then ask again.", pending)
	}
	return nil, mayAsk(ctx, db, r, denied)
}

// mayAsk refuses a request when so many like it were denied that people are
// not asked any more.
func mayAsk(ctx context.Context, db bun.IDB, r *RequestRow, denied int) error {
	if denied == 0 {
		return nil
	}
	chosen, err := history.SettingsRowOf(ctx, db, r.Organization)
	if err != nil {
		return err
	}
	if chosen.DenialLimit > 0 && denied >= chosen.DenialLimit {
		return action.NewError("denied_often", denied)
	}
	return nil
}

// RecentRequests are those of a session that wait, or were denied of late.
func RecentRequests(q *bun.SelectQuery, r *RequestRow) *bun.SelectQuery {
	return q.Where("organization_id = ?", r.Organization).Where("session_id = ?", r.Session).
		Where("status = 'pending' AND expires_at > ? OR status = 'denied' AND decided_at > ?", r.CreatedAt, database.NewTimestamp(r.CreatedAt.Time.Add(-refusalCounts))).
		Order("created_at DESC", "id DESC").Limit(1000)
}

// GrantRequest returns one request; ErrNotFound when the organization has no
// such.
func (st *Store) GrantRequest(ctx context.Context, organization, id string) (action.GrantRequest, error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	r, err := readRequest(ctx, st.db.Read, organization, id)
	if err != nil {
		return action.GrantRequest{}, err
	}
	return r.request()
}

func readRequest(ctx context.Context, db bun.IDB, organization, id string) (*RequestRow, error) {
	var r RequestRow
	err := db.NewSelect().Model(&r).Where("organization_id = ?", organization).Where("id = ?", id).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, action.NewError("grant_request_not_found")
	}
	if err != nil {
		return nil, fmt.Errorf("reading request %s: %w", id, err)
	}
	return &r, nil
}

// ListGrantRequests returns a page of requests, newest first.
func (st *Store) ListGrantRequests(ctx context.Context, f action.RequestFilter) (action.Page[action.GrantRequest], error) {
	var page action.Page[action.GrantRequest]
	after, err := database.ParseCursor(f.Cursor)
	if err != nil {
		return page, err
	}
	if f.Status != "" && !f.Status.Valid() {
		return page, database.Invalid("/status", fmt.Sprintf("There is no status %q; a request is pending, approved, denied or expired.", f.Status))
	}
	limit := database.PageSize(f.Limit)
	var rows []RequestRow
	if err := database.NewestFirst(MatchRequests(f, st.db.Read.NewSelect().Model(&rows)), after, limit).Scan(ctx); err != nil {
		return page, fmt.Errorf("listing requests: %w", err)
	}
	total, capped, err := database.CountUpTo(ctx, MatchRequests(f, st.db.Read.NewSelect().Table("grant_requests")))
	if err != nil {
		return page, fmt.Errorf("counting requests: %w", err)
	}
	list, errs := make([]action.GrantRequest, 0, len(rows)), error(nil)
	for i := range rows {
		req, err := rows[i].request()
		list, errs = append(list, req), errors.Join(errs, err)
	}
	if errs != nil {
		return page, errs
	}
	return database.NewPage(list, limit, total, capped, func(r action.GrantRequest) database.Cursor {
		return database.Cursor{Time: database.NewTimestamp(r.CreatedAt), ID: r.ID}
	}), nil
}

// match restricts q to what the filter wants.
func MatchRequests(f action.RequestFilter, q *bun.SelectQuery) *bun.SelectQuery {
	q = q.Where("organization_id = ?", f.Organization)
	if f.Session != "" {
		q = q.Where("session_id = ?", f.Session)
	}
	if f.Status != "" {
		q = q.Where("status = ?", string(f.Status))
	}
	return q
}
