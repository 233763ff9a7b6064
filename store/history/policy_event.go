package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/internal/redact"
	"sallyport/store/database"
)

// PolicyEventRow is a row of the table policy_events.
type PolicyEventRow struct {
	bun.BaseModel `bun:"table:policy_events"`

	ID           string             `bun:"id,pk"`
	Organization string             `bun:"organization_id"`
	Kind         string             `bun:"kind"`
	Subject      string             `bun:"subject"`
	By           string             `bun:"by"`
	At           database.Timestamp `bun:"at"`
	Before       string             `bun:"before"`
	After        string             `bun:"after"`
}

// Event converts the row.
func (r *PolicyEventRow) Event() action.PolicyEvent {
	return action.PolicyEvent{
		ID: r.ID, Organization: r.Organization, Kind: r.Kind, Subject: r.Subject, By: r.By, At: r.At.Time,
		Before: json.RawMessage(r.Before), After: json.RawMessage(r.After),
	}
}

// RecordPolicyChange records a change and increments the policy version.
func (st *Store) RecordPolicyChange(ctx context.Context, tx bun.Tx, e action.PolicyEvent, before, after any) error {
	if err := st.RecordChange(ctx, tx, e, before, after); err != nil {
		return err
	}
	_, err := BumpPolicyVersion(ctx, tx, e.Organization)
	return err
}

// RecordChange records who changed a setting, with its state before and after, in
// the transaction of the change. before is nil for a new setting, and after for a
// removed one. What looks like a credential is redacted.
func (st *Store) RecordChange(ctx context.Context, tx bun.IDB, e action.PolicyEvent, before, after any) (err error) {
	if e.ID, err = database.NewID(); err != nil {
		return err
	}
	oldState, err := redactedJSON(before)
	if err != nil {
		return fmt.Errorf("recording a change of policy: %w", err)
	}
	newState, err := redactedJSON(after)
	if err != nil {
		return fmt.Errorf("recording a change of policy: %w", err)
	}
	_, err = tx.NewInsert().Model(&PolicyEventRow{
		ID: e.ID, Organization: e.Organization, Kind: e.Kind, Subject: e.Subject, By: e.By, At: database.NewTimestamp(st.db.Now()),
		Before: oldState, After: newState,
	}).Exec(ctx)
	if err != nil {
		return fmt.Errorf("recording a change of policy: %w", err)
	}
	return nil
}

// redactedJSON returns v as JSON with misplaced credentials redacted: history is
// never deleted, and every member reads it. Only string values are examined, and not
// their keys: the member secret of a connector holds the name of a secret.
func redactedJSON(v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	var clean []byte
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	for copied := 0; ; {
		start := int(d.InputOffset())
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return string(append(clean, raw[copied:]...)), nil
		}
		if err != nil {
			return "", err
		}
		text, _ := token.(string)
		shown := redact.JSON{}.RedactText(text, nil)
		if shown == text {
			continue
		}
		quoted, err := json.Marshal(shown)
		if err != nil {
			return "", err
		}
		start += bytes.IndexByte(raw[start:], '"')
		clean = append(append(clean, raw[copied:start]...), quoted...)
		copied = int(d.InputOffset())
	}
}

// PolicyEvents returns a page of recorded changes, newest first.
func (st *Store) PolicyEvents(ctx context.Context, f action.PolicyEventFilter) (action.Page[action.PolicyEvent], error) {
	return database.ListQuery[PolicyEventRow, action.PolicyEvent]{
		Cursor: f.Cursor, Limit: f.Limit, All: FilterPolicyEvents(f, st.db.Read.NewSelect().Table("policy_events")),
		Rows: func(after database.Cursor, limit int) *bun.SelectQuery {
			return PolicyEventsQuery(f, st.db.Read, after, limit)
		},
		Value: (*PolicyEventRow).Event, Position: func(r *PolicyEventRow) database.Cursor { return database.Cursor{Time: r.At, ID: r.ID} },
	}.Page(ctx)
}

// PolicyEventsQuery selects a page, and one row more to detect whether another page
// follows.
func PolicyEventsQuery(f action.PolicyEventFilter, db bun.IDB, after database.Cursor, limit int) *bun.SelectQuery {
	q := FilterPolicyEvents(f, db.NewSelect().Model((*PolicyEventRow)(nil)))
	if after.ID != "" {
		q = q.Where("(at, id) < (?, ?)", after.Time, after.ID)
	}
	return q.OrderExpr("at DESC, id DESC").Limit(int64(limit) + 1)
}

// FilterPolicyEvents applies a filter to a query.
func FilterPolicyEvents(f action.PolicyEventFilter, q *bun.SelectQuery) *bun.SelectQuery {
	q = q.Where("organization_id = ?", f.Organization)
	if f.Kind != "" {
		q = q.Where("kind = ?", f.Kind)
	}
	if f.Subject != "" {
		q = q.Where("subject = ?", f.Subject)
	}
	if f.By != "" {
		q = q.Where("by = ?", f.By)
	}
	if !f.From.IsZero() {
		q = q.Where("at >= ?", database.NewTimestamp(f.From))
	}
	if !f.To.IsZero() {
		q = q.Where("at < ?", database.NewTimestamp(f.To))
	}
	return q
}
