package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// preparesKey marks a connection on which statements may be prepared, one that
// leads to the server itself, with when its plans were last thrown away.
const preparesKey = "sallyport prepares"

// plansFor is how long plans are kept. They are for the tables as large as they
// were then: one of a table of a few rows reads all of it.
const plansFor = 5 * time.Second

// prepares reports whether the statement may be prepared on the connection.
func (s *statement) prepares(conn *pgx.Conn) bool {
	_, yes := conn.PgConn().CustomData()[preparesKey]
	return yes && !s.forgets.Load()
}

// ready prepares the statement on the connection, if it is not.
func (s *statement) ready(ctx context.Context, conn *pgx.Conn) (*pgconn.StatementDescription, error) {
	data := conn.PgConn().CustomData()
	if since, _ := data[preparesKey].(time.Time); time.Since(since) > plansFor {
		if _, err := conn.Exec(ctx, "DISCARD PLANS"); err != nil {
			return nil, err
		}
		data[preparesKey] = time.Now()
	}
	return conn.Prepare(ctx, s.dollars, s.dollars)
}

// hot is a statement on its way to PostgreSQL: prepared where the connection
// allows it, since reading and planning cost more there than doing it, and
// otherwise as a text that holds its values.
type hot struct{ *statement }

// hot are the values behind what decides, once the connection is known, how
// they are sent.
func (s *statement) hot(args []any) []any { return append([]any{hot{s}}, args...) }

// RewriteQuery implements pgx.QueryRewriter: it sees the connection.
func (h hot) RewriteQuery(ctx context.Context, conn *pgx.Conn, _ string, args []any) (text string, values []any, err error) {
	if !h.prepares(conn) {
		return h.with(args), nil, nil
	}
	if values, err = driven(args); err != nil {
		return "", nil, err
	}
	// pgx runs a text under which something is prepared as that.
	_, err = h.ready(ctx, conn)
	return h.dollars, values, err
}

// queue appends the statement to a batch of prepared ones.
func (s *statement) queue(ctx context.Context, conn *pgx.Conn, batch *pgconn.Batch, args []any) error {
	values, err := driven(args)
	if err != nil {
		return err
	}
	prepared, err := s.ready(ctx, conn)
	if err != nil {
		return err
	}
	var q pgx.ExtendedQueryBuilder
	if err := q.Build(conn.TypeMap(), prepared, values); err != nil {
		return err
	}
	batch.ExecStatement(prepared, q.ParamValues, q.ParamFormats, q.ResultFormats)
	return nil
}

// driven are the values as the driver takes them, and text as [postgres] would
// write it.
func driven(args []any) ([]any, error) {
	values := make([]any, len(args))
	for i, arg := range args {
		if v, ok := arg.(driver.Valuer); ok {
			var err error
			if arg, err = v.Value(); err != nil {
				return nil, fmt.Errorf("value %d: %w", i+1, err)
			}
		}
		if text, ok := arg.(string); ok {
			arg = storable(text)
		}
		values[i] = arg
	}
	return values, nil
}

// forgotten reports whether what was prepared is of no use: a pooler that looked
// like the server handed the connection to another process of it, or a newer
// gateway changed the type of a column.
func forgotten(err error) bool {
	var p *pgconn.PgError
	return errors.As(err, &p) && (p.Code == "26000" || p.Code == "42P05" || p.Code == "0A000" && strings.Contains(p.Message, "cached plan"))
}
