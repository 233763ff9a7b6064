package evidence

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// strays looks for rows that ended and are neither sealed nor waiting: no code
// writes such a row, and no trigger lets one pass.
func (v *Verification) strays(ctx context.Context) error {
	for _, e := range EvidenceTables {
		if err := v.straysOf(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (v *Verification) straysOf(ctx context.Context, e evidence) error {
	var after []any
	for {
		n := 0
		err := v.DB.db.Each(ctx, e.Unchained(v.DB.db.Read, v.Organization, after), func(rows *sql.Rows) error {
			n++
			place := e.newPlace()
			var stray bool
			if err := rows.Scan(append(place, &stray)...); err != nil {
				return err
			}
			after = values(place)
			if stray {
				id := after[len(after)-1].(string)
				v.add(action.AuditFault{Kind: "unchained", Row: e.Kind + " " + id, Message: "The row ended, and is in no chain: it was written past the gateway."})
			}
			return nil
		})
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if n < verifyRows {
			return nil
		}
	}
}

// Unchained reads the next rows of an organization, and whether each is a
// stray. One statement sees a row together with its seal or its place in the
// queue.
func (e evidence) Unchained(db bun.IDB, organization string, after []any) *bun.SelectQuery {
	// As values: PostgreSQL may answer an EXISTS by reading the whole table.
	stray := `(SELECT s.seq FROM audit_seals AS s WHERE s.row_id = r.id AND s.kind = ? AND s.organization_id = r.organization_id) IS NULL
		AND (SELECT q.kind FROM audit_queue AS q WHERE q.row_id = r.id AND q.kind = ? AND q.organization_id = r.organization_id) IS NULL`
	if e.Kind == SealedInvocation {
		stray = "r.completed_at IS NOT NULL AND " + stray
	}
	order := "r." + strings.Join(e.order, ", r.")
	q := db.NewSelect().TableExpr("? AS r", bun.Ident(e.Table)).ColumnExpr(order).ColumnExpr(stray, e.Kind, e.Kind).
		Where("r.organization_id = ?", organization).OrderExpr(order).Limit(verifyRows)
	if len(after) > 0 {
		q = q.Where("("+order+") > (?"+strings.Repeat(", ?", len(after)-1)+")", after...)
	}
	return q
}

// newPlace is where the columns of the order are scanned to.
func (e evidence) newPlace() (place []any) {
	for _, column := range e.order {
		if strings.HasSuffix(column, "at") {
			place = append(place, new(database.Stamp))
		} else {
			place = append(place, new(string))
		}
	}
	return place
}

// values are what was scanned.
func values(place []any) (list []any) {
	for _, p := range place {
		switch p := p.(type) {
		case *database.Stamp:
			list = append(list, *p)
		case *string:
			list = append(list, *p)
		}
	}
	return list
}
