package evidence

import (
	"bytes"
	"context"
	"crypto/hmac"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

const (
	verifyLinks = 1000 // links whose rows are compared at once
	verifyRows  = 1000 // rows that are looked up in the chain at once
	MaxFaults   = 100  // after which faults are only counted as more
)

// VerifyAudit verifies the organization's chain with its key, compares every row with its
// sealed digest and searches for rows without a seal. known, if not nil, is a head that was
// saved elsewhere: the chain must still contain it, unless retention removed it, which the
// report notes. A head of another organization or key is ErrInvalid.
//
// It reads in batches and can run while rows are written, sealed and removed by retention.
// It does not check what is added meanwhile.
func (st *Store) VerifyAudit(ctx context.Context, organization string, key []byte, known *action.AuditHead) (action.AuditReport, error) {
	v := &Verification{Store: st, Organization: organization}
	var err error
	if v.Key, err = newAuditKey(key); err != nil {
		return v.Report, err
	}
	if err := v.setKnownHead(known); err != nil {
		return v.Report, err
	}
	c, err := st.LoadChain(ctx, organization)
	if err != nil {
		return v.Report, err
	}
	v.Report = action.AuditReport{Organization: organization, Head: c.head.head(organization), Faults: []action.AuditFault{}, CheckedAt: st.db.Now()}
	v.add(c.faults(v.Key)...)
	if err := errors.Join(v.Links(ctx, c), v.unchained(ctx), v.unsealed(ctx)); err != nil {
		return v.Report, fmt.Errorf("verifying the audit log: %w", err)
	}
	v.Report.OK = len(v.Report.Faults) == 0
	return v.Report, nil
}

// Verification is the state of one verification of a chain.
type Verification struct {
	Store         *Store
	Key           AuditKey
	Organization  string
	known         position // zero: none
	knownCompared bool     // the link of known was compared
	Report        action.AuditReport
}

func (v *Verification) add(faults ...action.AuditFault) {
	for _, f := range faults {
		if len(v.Report.Faults) == MaxFaults {
			v.Report.More = true
			return
		}
		v.Report.Faults = append(v.Report.Faults, f)
	}
}

// setKnownHead takes the head that the caller kept.
func (v *Verification) setKnownHead(known *action.AuditHead) error {
	if known == nil || known.Seq == 0 {
		return nil
	}
	hash, err := hex.DecodeString(known.Hash)
	mac, bad := hex.DecodeString(known.MAC)
	if err != nil || bad != nil {
		return database.Invalid("/head", "The hash and the mac of a head must be hexadecimal. Pass a line of \"audit heads\" unchanged.")
	}
	if known.Organization != v.Organization {
		return database.Invalid("/head", fmt.Sprintf("This head belongs to organization %q. Pass one of organization %q.", known.Organization, v.Organization))
	}
	if !hmac.Equal(mac, v.Key.head(v.Organization, known.Seq, hash, database.NewTimestamp(known.At))) {
		return database.Invalid("/head", "This head was not signed with this gateway's key, or was changed. Pass a line of \"audit heads\" unchanged.")
	}
	v.known = position{seq: known.Seq, hash: hash}
	return nil
}

// Links verifies the chain from the checkpoint to the last link at the time of the call.
func (v *Verification) Links(ctx context.Context, c *chain) error {
	from := c.checkpoint.position
	v.startAfter(from)
	for from.seq < c.last.seq {
		p, err := v.checkSegment(ctx, from, c.last.seq)
		if err != nil {
			return err
		}
		if len(p.faults) > 0 {
			// Retention may have removed these links meanwhile.
			now, err := v.Store.LoadChain(ctx, v.Organization)
			if err != nil {
				return err
			}
			if now.checkpoint.seq > from.seq && hmac.Equal(now.checkpoint.mac, v.Key.checkpoint(v.Organization, &now.checkpoint)) {
				from = now.checkpoint.position
				v.startAfter(from)
				continue
			}
		}
		v.add(p.faults...)
		v.Report.Checked += p.compared
		from = p.end
	}
	v.noteRemovedHead()
	if v.known.seq > c.last.seq && v.known.seq > from.seq {
		v.add(action.AuditFault{Kind: "cut_off", Seq: c.last.seq + 1, Message: fmt.Sprintf(
			"The chain ends at link %d, and once had link %d: the end of history was removed.", c.last.seq, v.known.seq)})
	}
	return nil
}

// startAfter starts behind a checkpoint.
func (v *Verification) startAfter(checkpoint position) {
	v.Report.From = checkpoint.seq + 1
	if v.differsFromKnown(checkpoint) {
		v.add(action.AuditFault{Kind: "checkpoint", Seq: checkpoint.seq, Message: "The checkpoint is not of the link that the given head was of."})
	}
}

// differsFromKnown reports whether a link is not the one that was kept.
func (v *Verification) differsFromKnown(m position) bool {
	if m.seq == 0 || m.seq != v.known.seq {
		return false
	}
	v.knownCompared = true
	return !hmac.Equal(m.hash, v.known.hash)
}

// noteRemovedHead tells of a head that retention left nothing to compare with.
func (v *Verification) noteRemovedHead() {
	if v.known.seq > 0 && !v.knownCompared && v.known.seq < v.Report.From {
		v.Report.Note = fmt.Sprintf("The given head is of link %d, which retention removed with all before link %d: "+
			"it was not compared. Give a later head, and keep a new one.", v.known.seq, v.Report.From)
	}
}

// segment is some links, checked.
type segment struct {
	links    []SealRow
	end      position // the last of them
	compared int64
	faults   []action.AuditFault
}

func (p *segment) fault(kind string, l *SealRow, message string) {
	f := action.AuditFault{Kind: kind, Seq: l.Seq, Message: message}
	if l.Row != "" {
		f.Row = l.Kind + " " + l.Row
	}
	p.faults = append(p.faults, f)
}

// LinksAfter selects the links after one up to another, in order.
func LinksAfter(db bun.IDB, organization string, after, last int64, limit int) *bun.SelectQuery {
	return db.NewSelect().Model((*SealRow)(nil)).Where("organization_id = ?", organization).
		Where("seq > ?", after).Where("seq <= ?", last).Order("seq").Limit(int64(limit))
}

// checkSegment checks the links after from, up to last.
func (v *Verification) checkSegment(ctx context.Context, from position, last int64) (*segment, error) {
	var links []SealRow
	if err := LinksAfter(v.Store.db.Read, v.Organization, from.seq, last, verifyLinks).Scan(ctx, &links); err != nil {
		return nil, err
	}
	keys := make([]RowKey, len(links))
	for i, l := range links {
		keys[i] = RowKey{l.Kind, l.Row}
	}
	digests, err := v.Store.Digests(ctx, v.Organization, keys)
	if err != nil {
		return nil, err
	}
	p := &segment{links: links, end: from}
	for i := range links {
		v.checkLink(p, &links[i], digests[keys[i]])
	}
	if len(links) == 0 {
		p.missing(last + 1)
		p.end = position{seq: last}
	}
	return p, nil
}

// missing notes that there are no links between the end and next.
func (p *segment) missing(next int64) {
	p.fault("removed", &SealRow{Seq: p.end.seq + 1}, fmt.Sprintf("The links from %d to %d are missing.", p.end.seq+1, next-1))
}

// checkLink checks the next link, and its row by the digest, which is nil when the
// row is not there.
func (v *Verification) checkLink(p *segment, l *SealRow, digest []byte) {
	if l.Seq != p.end.seq+1 {
		p.missing(l.Seq)
	} else if !hmac.Equal(l.Hash, v.Key.link(p.end.hash, l)) {
		p.fault("link", l, "The link was changed, or does not follow its predecessor.")
	}
	switch {
	case digest == nil && bytes.Equal(l.Digest, MissingDigest):
		p.fault("removed", l, "The row was removed before it was sealed.")
	case digest == nil:
		p.fault("removed", l, "The row was removed.")
	case !bytes.Equal(digest, l.Digest):
		p.fault("altered", l, "The row differs from the sealed one.")
	}
	p.compared++
	p.end = position{seq: l.Seq, hash: l.Hash}
	if v.differsFromKnown(p.end) {
		p.fault("link", l, "This link does not match the given head: the history was replaced.")
	}
}

// unsealedSQL counts what waits to be sealed, and since when.
const unsealedSQL = `SELECT count(*), min(ended) FROM (
  SELECT coalesce(i.completed_at, e.at, p.at) AS ended FROM seal_queue q
  LEFT JOIN invocations i ON q.kind = 'invocation' AND i.id = q.row_id
  LEFT JOIN invocation_events e ON q.kind = 'event' AND e.id = q.row_id
  LEFT JOIN policy_events p ON q.kind = 'policy' AND p.id = q.row_id
  WHERE q.organization_id = ?
  UNION ALL
  SELECT r.last_at FROM refusal_queue q LEFT JOIN refusal_counts r ON r.id = q.row_id WHERE q.organization_id = ?
) AS unsealed`

func (v *Verification) unsealed(ctx context.Context) error {
	return v.Store.db.ForEachRow(ctx, v.Store.db.Read.NewRaw(unsealedSQL, v.Organization, v.Organization), func(rows *sql.Rows) error {
		var oldest database.Timestamp
		err := rows.Scan(&v.Report.Unsealed, &oldest)
		if err == nil && !oldest.Time.IsZero() {
			v.Report.UnsealedAge = max(0, v.Report.CheckedAt.Sub(oldest.Time).Seconds())
		}
		return err
	})
}

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
	unchained := `(SELECT s.seq FROM audit_seals AS s WHERE s.row_id = r.id AND s.kind = ?0 AND s.organization_id = r.organization_id) IS NULL
		AND (SELECT q.row_id FROM ?1 AS q WHERE q.row_id = r.id AND q.organization_id = r.organization_id`
	if e.Queue == sealQueue {
		unchained += " AND q.kind = ?0"
	}
	unchained += ") IS NULL"
	if e.Kind == SealedInvocation {
		unchained = "r.completed_at IS NOT NULL AND " + unchained
	}
	order := "r." + strings.Join(e.orderColumns, ", r.")
	q := db.NewSelect().TableExpr("? AS r", bun.Ident(e.Name)).ColumnExpr(order).ColumnExpr(unchained, e.Kind, bun.Ident(e.Queue)).
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
