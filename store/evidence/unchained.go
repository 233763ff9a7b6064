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

// unchained looks for rows that ended and are neither sealed nor waiting: no code
// writes such a row, and no trigger lets one pass.
func (v *Verification) unchained(ctx context.Context) error {
	for _, e := range Tables {
		if err := v.unchainedIn(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (v *Verification) unchainedIn(ctx context.Context, e table) error {
	var after []any
	for {
		n := 0
		err := v.Store.db.ForEachRow(ctx, e.UnchainedRows(v.Store.db.Read, v.Organization, after), func(rows *sql.Rows) error {
			n++
			targets := e.scanTargets()
			var unchained bool
			if err := rows.Scan(append(targets, &unchained)...); err != nil {
				return err
			}
			after = scannedValues(targets)
			if unchained {
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

// UnchainedRows selects the next rows of an organization and whether each is unchained. A
// single statement is needed to see a row together with its seal or queue entry.
func (e table) UnchainedRows(db bun.IDB, organization string, after []any) *bun.SelectQuery {
	// As values: PostgreSQL may answer an EXISTS by reading the whole table.
	unchained := `(SELECT s.seq FROM audit_seals AS s WHERE s.row_id = r.id AND s.kind = ? AND s.organization_id = r.organization_id) IS NULL
		AND (SELECT q.kind FROM audit_queue AS q WHERE q.row_id = r.id AND q.kind = ? AND q.organization_id = r.organization_id) IS NULL`
	if e.Kind == SealedInvocation {
		unchained = "r.completed_at IS NOT NULL AND " + unchained
	}
	order := "r." + strings.Join(e.orderColumns, ", r.")
	q := db.NewSelect().TableExpr("? AS r", bun.Ident(e.Name)).ColumnExpr(order).ColumnExpr(unchained, e.Kind, e.Kind).
		Where("r.organization_id = ?", organization).OrderExpr(order).Limit(verifyRows)
	if len(after) > 0 {
		q = q.Where("("+order+") > (?"+strings.Repeat(", ?", len(after)-1)+")", after...)
	}
	return q
}

// scanTargets returns the scan destinations of the order columns.
func (e table) scanTargets() (targets []any) {
	for _, column := range e.orderColumns {
		if strings.HasSuffix(column, "at") {
			targets = append(targets, new(database.Timestamp))
		} else {
			targets = append(targets, new(string))
		}
	}
	return targets
}

// scannedValues are what was scanned.
func scannedValues(targets []any) (list []any) {
	for _, p := range targets {
		switch p := p.(type) {
		case *database.Timestamp:
			list = append(list, *p)
		case *string:
			list = append(list, *p)
		}
	}
	return list
}
