package notify

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/inbound"
)

// subject is a kind of row that notifications are about, other than calls. The column
// invocation_id of a notification has its name: a prefix and an ID; that of a call is
// its ID alone.
type subject struct {
	prefix string
	table  string // with an alias
	name   string // SQL of the name
	open   string // SQL of whether it needs a person
	asks   bool   // it is a request of an agent, which expires
	// join joins the row of a notification n. The expression is on the side of n, so
	// that an index of the table is used.
	join string
	// load reads the row of a notification. It reports whether the row exists and, for
	// a notification that it needs a person, still does.
	load func(st *Store, ctx context.Context, w *action.DueNotification, name string) (bool, error)
	set  func(n *action.Notification, id string) // sets the ID of the row
}

func subjects() []subject {
	return []subject{
		{
			prefix: "env:", table: "env_requests AS v", name: "'env:' || v.id", open: "v.status = 'pending'", asks: true, load: (*Store).loadEnvRequest,
			join: "LEFT JOIN env_requests AS v ON v.id = substr(n.invocation_id, 5) AND n.invocation_id LIKE 'env:%'",
			set:  func(n *action.Notification, id string) { n.EnvRequest = id },
		},
		{
			prefix: "grant:", table: "grant_requests AS g", name: "'grant:' || g.id", open: "g.status = 'pending'", asks: true, load: (*Store).loadGrantRequest,
			join: "LEFT JOIN grant_requests AS g ON g.id = substr(n.invocation_id, 7) AND n.invocation_id LIKE 'grant:%'",
			set:  func(n *action.Notification, id string) { n.GrantRequest = id },
		},
		{ // The name has the ID of its need for attention, which has 36 characters, and its own.
			prefix: "run:", table: "runs AS u", name: "'run:' || u.attention_id || ':' || u.id", open: "u.attention_id IS NOT NULL", load: (*Store).loadRun,
			join: "LEFT JOIN runs AS u ON u.attention_id = substr(n.invocation_id, 5, 36) AND u.attention_id IS NOT NULL AND n.invocation_id LIKE 'run:%'",
			set:  func(n *action.Notification, id string) { _, n.Run, _ = strings.Cut(id, ":") },
		},
	}
}

// split moves the ID of a notification's subject to its own field.
func split(n action.Notification) action.Notification {
	for _, s := range subjects() {
		if id, ok := strings.CutPrefix(n.Invocation, s.prefix); ok {
			n.Invocation = ""
			s.set(&n, id)
		}
	}
	return n
}

// unnotified returns the names of the subjects that need a person and that the channel
// has not notified; requests only if they were created before a time. A channel for
// dangerous calls only gets none, and one for unattended sessions gets their requests
// and all runs.
func (s *subject) unnotified(ctx context.Context, db bun.IDB, c *action.NotifyChannel, now, created database.Timestamp) (names []string, err error) {
	if c.Wants == action.WantsDanger {
		return nil, nil
	}
	alias := bun.Ident(s.table[strings.LastIndex(s.table, " ")+1:])
	q := db.NewSelect().TableExpr(s.table).ColumnExpr(s.name).Where("?.organization_id = ?", alias, c.Organization).Where(s.open).
		Where("NOT EXISTS (SELECT 1 FROM notifications AS n WHERE n.invocation_id = "+s.name+" AND n.kind = ? AND n.event = 'held')", string(c.Kind))
	if s.asks {
		q = q.Where("?.expires_at > ?", alias, now).Where("?.created_at <= ?", alias, created)
		if c.Wants == action.WantsUnattended {
			q = q.Where("EXISTS (SELECT 1 FROM sessions AS s WHERE s.id = ?.session_id AND s.kind = 'unattended')", alias)
		}
	}
	if err := q.OrderExpr("?.created_at DESC", alias).Limit(ScanOthers).Scan(ctx, &names); err != nil {
		return nil, fmt.Errorf("reading what to notify people of in %s: %w", s.table, err)
	}
	return names, nil
}

func (st *Store) loadEnvRequest(ctx context.Context, w *action.DueNotification, _ string) (bool, error) {
	r, err := st.requests.EnvRequest(ctx, w.Organization, w.EnvRequest)
	if err != nil {
		return false, unlessGone(err)
	}
	w.Variables = &r
	return w.Event == action.NotifySettled || r.Status == action.EnvPending && r.ExpiresAt.After(st.db.Now()), nil
}

func (st *Store) loadGrantRequest(ctx context.Context, w *action.DueNotification, _ string) (bool, error) {
	r, err := st.policy.GrantRequest(ctx, w.Organization, w.GrantRequest)
	if err != nil {
		return false, unlessGone(err)
	}
	w.Grant, w.GrantSource = &r, r.Terms.Source
	if id, ok := strings.CutPrefix(r.Terms.Source, "connector:"); ok {
		switch c, err := st.connect.Connector(ctx, w.Organization, id); {
		case err == nil:
			w.GrantSource = c.Name
		case unlessGone(err) != nil:
			return false, err
		}
	}
	return w.Event == action.NotifySettled || r.Status == action.RequestPending && r.ExpiresAt.After(st.db.Now()), nil
}

func (st *Store) loadRun(ctx context.Context, w *action.DueNotification, name string) (bool, error) {
	r, err := inbound.ReadRun(ctx, st.db.Read, w.Organization, w.Run)
	if err != nil {
		return false, unlessGone(err)
	}
	w.Ended = &action.EndedRun{
		ID: r.ID, Title: r.Title, Session: string(r.Session), Automation: r.Automation, Status: r.Status, Code: string(r.Code), Message: string(r.Message),
		NeedsAttention: r.Attention != "", CreatedAt: r.CreatedAt.Time, EndedAt: r.CompletedAt.Ptr(),
	}
	return w.Event == action.NotifySettled || name == "run:"+string(r.Attention)+":"+r.ID, nil
}

// unlessGone returns nil if the error is that a row does not exist.
func unlessGone(err error) error {
	if errors.Is(err, action.ErrNotFound) {
		return nil
	}
	return err
}
