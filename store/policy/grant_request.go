package policy

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/history"
	"sallyport/store/sessions"
)

const (
	// maxRequests bounds the pending requests of a session.
	maxRequests = 10
	// denialRepeatWindow is how long a denied request answers a repeat, and
	// denialCountWindow how long it counts towards the denial limit.
	denialRepeatWindow = 15 * time.Minute
	denialCountWindow  = 24 * time.Hour
)

// RequestRow is a row of the table grant_requests. Its terms are JSON text, because
// no query reads a part of them.
type RequestRow struct {
	bun.BaseModel `bun:"table:grant_requests"`

	ID           string                          `bun:"id,pk"`
	Organization string                          `bun:"organization_id"`
	Session      string                          `bun:"session_id"`
	Status       string                          `bun:"status"`
	Terms        database.JSONText[action.Terms] `bun:"terms"`
	ToolHash     database.NullString             `bun:"tool_hash"`
	Reason       database.NullString             `bun:"reason"`
	CreatedAt    database.Timestamp              `bun:"created_at"`
	ExpiresAt    database.Timestamp              `bun:"expires_at"`
	Grant        database.NullString             `bun:"grant_id"`
	DecidedBy    database.NullString             `bun:"decided_by"`
	DecidedAt    database.Timestamp              `bun:"decided_at"`
	DecidedNote  database.NullString             `bun:"decided_note"`
}

func newRequestRow(r *action.GrantRequest) (*RequestRow, error) {
	terms := r.Terms
	terms.ExpiresAt = database.TimestampFromPtr(terms.ExpiresAt).Ptr() // equal terms have equal text
	text, err := database.NewJSONText(terms)
	if err != nil {
		return nil, fmt.Errorf("writing the terms of a request: %w", err)
	}
	expiry := r.ExpiresAt
	if terms.ExpiresAt != nil && terms.ExpiresAt.Before(expiry) {
		expiry = *terms.ExpiresAt // expired terms cannot be granted
	}
	return &RequestRow{
		ID: r.ID, Organization: r.Organization, Session: r.Session, Status: string(action.RequestPending), Terms: text,
		ToolHash: database.NullString(r.ToolHash), Reason: database.NullString(r.Reason), CreatedAt: database.NewTimestamp(r.CreatedAt), ExpiresAt: database.NewTimestamp(expiry),
	}, nil
}

func (r *RequestRow) request() action.GrantRequest {
	return action.GrantRequest{
		ID: r.ID, Organization: r.Organization, Session: r.Session, Status: action.RequestStatus(r.Status), Terms: r.Terms.V,
		ToolHash: string(r.ToolHash), Reason: string(r.Reason), Grant: string(r.Grant),
		DecidedBy: string(r.DecidedBy), DecidedAt: r.DecidedAt.Ptr(), DecidedNote: string(r.DecidedNote),
		CreatedAt: r.CreatedAt.Time, ExpiresAt: r.ExpiresAt.Time,
	}
}

// sameTerms reports whether two requests have the same terms. It ignores the expiry:
// an agent that repeats a request for one hour computes a new expiry each time.
func (r *RequestRow) sameTerms(other *RequestRow) bool {
	mine, theirs := database.JSON[action.Terms]{V: r.Terms.V}, database.JSON[action.Terms]{V: other.Terms.V}
	mine.V.ExpiresAt, theirs.V.ExpiresAt = nil, nil
	return r.ToolHash == other.ToolHash && mine.Text() == theirs.Text()
}

// sameAction reports whether two requests are for the same action, or both for any,
// whatever their other terms.
func (r *RequestRow) sameAction(other *RequestRow) bool {
	mine, theirs := &r.Terms.V, &other.Terms.V
	return mine.Any && theirs.Any || mine.Source == theirs.Source && mine.Action == theirs.Action
}

// RequestGrant stores a request of an agent, and returns it with its id. The request
// expires with its terms at the latest. A repeat returns the earlier request that is
// pending or was denied recently; created reports whether a new one was stored.
// Errors: ErrInvalid with the field; those of a session that is unknown or has ended;
// ErrTooMany (code "too_many_requests"); ErrForbidden (code "denied_often") if similar
// requests were denied as often as the organization's denial limit.
func (st *Store) RequestGrant(ctx context.Context, req action.GrantRequest) (_ action.GrantRequest, created bool, err error) {
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
	// Read before the write transaction: an agent that repeats its request must not
	// block writers.
	earlier, err := earlierRequest(ctx, st.db.Read, r)
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
	return r.request(), earlier == nil, nil
}

// putRequest inserts the row, or returns the earlier request that answers it.
func putRequest(ctx context.Context, tx bun.IDB, r *RequestRow) (*RequestRow, error) {
	s, err := sessions.ReadSession(ctx, tx, r.Organization, r.Session)
	if err != nil {
		return nil, err
	}
	if err := s.Accepts(r.CreatedAt.Time); err != nil {
		return nil, err
	}
	if earlier, err := earlierRequest(ctx, tx, r); earlier != nil || err != nil {
		return earlier, err
	}
	if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
		return nil, fmt.Errorf("writing a grant request: %w", err)
	}
	return nil, nil
}

// earlierRequest returns the request that already answers r, and refuses r if it
// exceeds the limit of pending requests or of denials.
func earlierRequest(ctx context.Context, db bun.IDB, r *RequestRow) (*RequestRow, error) {
	var rows []RequestRow
	if err := RecentRequestsQuery(db.NewSelect().Model(&rows), r).Scan(ctx); err != nil {
		return nil, fmt.Errorf("reading the requests of session %s: %w", r.Session, err)
	}
	pending, denied := 0, 0
	for i := range rows {
		other := &rows[i]
		isPending := other.Status == string(action.RequestPending)
		switch {
		case other.sameTerms(r) && (isPending || other.DecidedAt.Time.After(r.CreatedAt.Time.Add(-denialRepeatWindow))):
			return other, nil
		case isPending:
			pending++
		case other.sameAction(r):
			denied++
		}
	}
	if pending >= maxRequests {
		return nil, action.Errorf(action.ErrTooMany, "too_many_requests",
			"This session already has %d pending requests. Wait until one of them is decided, then try again.", pending)
	}
	if denied == 0 {
		return nil, nil
	}
	settings, err := history.ReadSettings(ctx, db, r.Organization)
	if err == nil && settings.DenialLimit > 0 && denied >= settings.DenialLimit {
		err = action.NewError("denied_often", denied)
	}
	return nil, err
}

// RecentRequestsQuery selects the requests of the session of r that are pending or were
// denied recently.
func RecentRequestsQuery(q *bun.SelectQuery, r *RequestRow) *bun.SelectQuery {
	return q.Where("organization_id = ?", r.Organization).Where("session_id = ?", r.Session).
		Where("status = 'pending' AND expires_at > ? OR status = 'denied' AND decided_at > ?", r.CreatedAt, database.NewTimestamp(r.CreatedAt.Time.Add(-denialCountWindow))).
		Order("created_at DESC", "id DESC").Limit(1000)
}

// GrantRequest returns a request; ErrNotFound.
func (st *Store) GrantRequest(ctx context.Context, organization, id string) (action.GrantRequest, error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	r, err := readRequest(ctx, st.db.Read, organization, id)
	return r.request(), err
}

func readRequest(ctx context.Context, db bun.IDB, organization, id string) (*RequestRow, error) {
	r, err := database.One[RequestRow](ctx, database.RowsOf[RequestRow](db, organization).Where("id = ?", id), action.NewError("grant_request_not_found"))
	return &r, err
}

// ListGrantRequests returns a page of requests, newest first.
func (st *Store) ListGrantRequests(ctx context.Context, f action.RequestFilter) (action.Page[action.GrantRequest], error) {
	if f.Status != "" && !f.Status.Valid() {
		return action.Page[action.GrantRequest]{}, database.Invalid("/status", fmt.Sprintf("There is no status %q. Use pending, approved, denied or expired.", f.Status))
	}
	return database.ListQuery[RequestRow, action.GrantRequest]{
		Cursor: f.Cursor, Limit: f.Limit, All: FilterRequests(f, st.db.Read.NewSelect().Table("grant_requests")),
		Rows: func(after database.Cursor, limit int) *bun.SelectQuery {
			return database.NewestFirst(FilterRequests(f, st.db.Read.NewSelect().Model((*RequestRow)(nil))), after, limit)
		},
		Value: (*RequestRow).request, Position: func(r *RequestRow) database.Cursor { return database.Cursor{Time: r.CreatedAt, ID: r.ID} },
	}.Page(ctx)
}

// FilterRequests applies a filter to a query.
func FilterRequests(f action.RequestFilter, q *bun.SelectQuery) *bun.SelectQuery {
	q = q.Where("organization_id = ?", f.Organization)
	if f.Session != "" {
		q = q.Where("session_id = ?", f.Session)
	}
	if f.Status != "" {
		q = q.Where("status = ?", string(f.Status))
	}
	return q
}
