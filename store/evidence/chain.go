package evidence

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/history"
)

// SealRow is one link of an organization's chain.
type SealRow struct {
	bun.BaseModel `bun:"table:audit_seals"`

	Organization string             `bun:"organization_id,pk"`
	Seq          int64              `bun:"seq,pk"`
	Kind         string             `bun:"kind"`
	Row          string             `bun:"row_id"`
	Digest       []byte             `bun:"digest"`
	Hash         []byte             `bun:"hash"`
	At           database.Timestamp `bun:"sealed_at"`
}

// AuditKey is the key of the chain's MACs. It is never stored in the database.
type AuditKey []byte

func newAuditKey(key []byte) (AuditKey, error) {
	if len(key) < 32 {
		return nil, fmt.Errorf("the audit key has %d bytes; 32 are required", len(key))
	}
	return key, nil
}

// mac returns the HMAC of the fields for one purpose. Each field is prefixed with its
// length, so that different lists of fields never have the same encoding.
func (k AuditKey) mac(purpose string, fields ...string) []byte {
	text := appendField(appendField(make([]byte, 0, 512), "sallyport audit 1"), purpose)
	for _, f := range fields {
		text = appendField(text, f)
	}
	h := hmac.New(sha256.New, k)
	h.Write(text)
	return h.Sum(nil)
}

// appendField appends a field prefixed with its length.
func appendField(b []byte, field string) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(field))), field...)
}

// link returns the hash of a link that follows the one with the hash prev, which is nil
// for the first link.
func (k AuditKey) link(prev []byte, s *SealRow) []byte {
	return k.mac("link", s.Organization, string(prev), formatInt(s.Seq), s.Kind, s.Row, string(s.Digest), s.At.Time.Format(database.Layout))
}

func (k AuditKey) head(organization string, seq int64, hash []byte, at database.Timestamp) []byte {
	return k.mac("head", organization, formatInt(seq), string(hash), at.Time.Format(database.Layout))
}

func (k AuditKey) checkpoint(organization string, c *checkpoint) []byte {
	return k.mac("checkpoint", organization, formatInt(c.seq), string(c.hash), c.until.Time.Format(database.Layout), c.at.Time.Format(database.Layout), formatInt(c.removed))
}

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }

// chain is the state of an organization's chain without its links. Missing parts are zero.
type chain struct {
	organization string
	started      bool // there was a head once
	head         position
	checkpoint   checkpoint
	last         position // the last link, without mac and time
}

// position is a position in a chain.
type position struct {
	seq       int64
	hash, mac []byte
	at        database.Timestamp
}

// checkpoint is the last link that retention removed.
type checkpoint struct {
	position
	until   database.Timestamp // what ended before it was removed
	removed int64              // invocations, since the chain began
}

// ChainSQL reads head, checkpoint and last link in one statement, because they change
// together.
const ChainSQL = `SELECT o.chained, h.seq, h.hash, h.mac, h.at, c.seq, c.hash, c.mac, c.until, c.at, c.removed, s.seq, s.hash
FROM organizations o
LEFT JOIN audit_heads h ON h.organization_id = o.id
LEFT JOIN audit_checkpoints c ON c.organization_id = o.id
LEFT JOIN audit_seals s ON s.organization_id = o.id AND s.seq = (SELECT max(seq) FROM audit_seals WHERE organization_id = o.id)
WHERE o.id = ?`

// LoadChain reads the state of an organization's chain. It returns ErrNotFound for an
// unknown organization.
func (st *Store) LoadChain(ctx context.Context, organization string) (*chain, error) {
	c := &chain{organization: organization}
	err := st.db.ForEachRow(ctx, st.db.Read.NewRaw(ChainSQL, organization), func(rows *sql.Rows) error {
		var head, cut, removed, last sql.NullInt64
		err := rows.Scan(&c.started, &head, &c.head.hash, &c.head.mac, &c.head.at,
			&cut, &c.checkpoint.hash, &c.checkpoint.mac, &c.checkpoint.until, &c.checkpoint.at, &removed, &last, &c.last.hash)
		c.head.seq, c.checkpoint.seq, c.checkpoint.removed, c.last.seq = head.Int64, cut.Int64, removed.Int64, last.Int64
		return err
	})
	if err == nil && c.last.seq < c.checkpoint.seq { // retention removed all links
		c.last = position{seq: c.checkpoint.seq, hash: c.checkpoint.hash}
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil, history.OrganizationNotFound()
	}
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	return c, nil
}

// faults returns the faults of the chain's head and checkpoint. There must be none before
// the chain is extended or pruned: a new head would hide them.
func (c *chain) faults(k AuditKey) (list []action.AuditFault) {
	fault := func(kind string, seq int64, message string, args ...any) {
		list = append(list, action.AuditFault{Kind: kind, Seq: seq, Message: fmt.Sprintf(message, args...)})
	}
	if c.checkpoint.seq > 0 && !hmac.Equal(c.checkpoint.mac, k.checkpoint(c.organization, &c.checkpoint)) {
		fault("checkpoint", c.checkpoint.seq, "The checkpoint of retention was not written with this key.")
	}
	switch {
	case c.head.seq == 0 && c.last.seq == 0 && !c.started:
	case c.head.seq == 0 && c.last.seq == 0:
		fault("head", 0, "The chain began once, and there is nothing of it: all evidence was removed.")
	case c.head.seq == 0:
		fault("head", c.last.seq, "The head is missing, though the chain has links up to %d.", c.last.seq)
	case !hmac.Equal(c.head.mac, k.head(c.organization, c.head.seq, c.head.hash, c.head.at)):
		fault("head", c.head.seq, "The head was not written with this key.")
	case c.head.seq > c.last.seq:
		fault("cut_off", c.last.seq+1, "The links from %d to %d, where the head is, are missing.", c.last.seq+1, c.head.seq)
	case c.head.seq < c.last.seq:
		fault("head", c.head.seq, "The head is link %d, and the chain goes on to %d: an earlier head was put back, or links were added.", c.head.seq, c.last.seq)
	case !hmac.Equal(c.head.hash, c.last.hash):
		fault("head", c.head.seq, "The head is not of the last link.")
	}
	return list
}

// brokenError returns the error for an operation that a broken chain prevents.
func (c *chain) brokenError(f action.AuditFault, operation string) error {
	return action.NewError("audit_broken", c.organization, f.Seq, f.Message, operation)
}

// AuditHeads returns the heads of one organization's chain or, if organization is empty,
// of all. It does not check their hashes and MACs; [Store.VerifyAudit] does.
func (st *Store) AuditHeads(ctx context.Context, organization string) (heads []action.AuditHead, err error) {
	q := st.db.Read.NewSelect().TableExpr("organizations AS o").Join("LEFT JOIN audit_heads AS h ON h.organization_id = o.id").
		ColumnExpr("o.id, h.seq, h.hash, h.mac, h.at").OrderExpr("o.id")
	if organization != "" {
		q = q.Where("o.id = ?", organization)
	}
	err = st.db.ForEachRow(ctx, q, func(rows *sql.Rows) error {
		var id string
		var seq sql.NullInt64
		var m position
		err := rows.Scan(&id, &seq, &m.hash, &m.mac, &m.at)
		m.seq = seq.Int64
		heads = append(heads, m.head(id))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, history.OrganizationNotFound()
	}
	if err != nil {
		return nil, fmt.Errorf("reading the heads of the audit log: %w", err)
	}
	return heads, nil
}

func (m position) head(organization string) action.AuditHead {
	return action.AuditHead{Organization: organization, Seq: m.seq, Hash: hex.EncodeToString(m.hash), MAC: hex.EncodeToString(m.mac), At: m.at.Time}
}

type keyCheckRow struct {
	bun.BaseModel `bun:"table:key_checks"`

	Name        string             `bun:"name,pk"`
	Fingerprint string             `bun:"fingerprint"`
	CreatedAt   database.Timestamp `bun:"created_at"`
}

// CheckKeys ensures that all instances use the same keys. It receives fingerprints by key
// name ("master", "token"), which must not reveal anything about the keys. The first call
// records all of them atomically; a later call with a different key gets ErrConflict.
func (st *Store) CheckKeys(ctx context.Context, fingerprints map[string]string) error {
	names := slices.Sorted(maps.Keys(fingerprints))
	if len(names) == 0 {
		return nil
	}
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		var rows []keyCheckRow
		if err := tx.NewSelect().Model(&rows).Where("name IN (?)", bun.List(names)).Order("name").Scan(ctx); err != nil {
			return fmt.Errorf("checking the keys: %w", err)
		}
		known := map[string]bool{}
		for _, r := range rows {
			known[r.Name] = true
			if r.Fingerprint != fingerprints[r.Name] {
				return keyDiffers(r.Name)
			}
		}
		for _, name := range names {
			if known[name] {
				continue
			}
			r := &keyCheckRow{Name: name, Fingerprint: fingerprints[name], CreatedAt: database.NewTimestamp(st.db.Now())}
			if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
				return fmt.Errorf("recording the %s key: %w", name, err)
			}
		}
		return nil
	})
}

// CheckedKey returns the fingerprint that [Store.CheckKeys] recorded for a key, or "".
func (st *Store) CheckedKey(ctx context.Context, name string) (fingerprint string, err error) {
	err = st.db.Read.NewSelect().Table("key_checks").Column("fingerprint").Where("name = ?", name).Scan(ctx, &fingerprint)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("reading the fingerprint of the %s key: %w", name, err)
	}
	return fingerprint, nil
}

// ReplaceKey replaces one of the previous fingerprints of a key. It returns ErrConflict if
// the recorded fingerprint is neither a previous one nor the new one.
func (st *Store) ReplaceKey(ctx context.Context, name, fingerprint string, previous ...string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := database.RowsAffected(tx.NewUpdate().Table("key_checks").Set("fingerprint = ?", fingerprint).
			Where("name = ?", name).Where("fingerprint IN (?)", bun.List(append(previous, fingerprint))).Exec(ctx))
		switch {
		case err != nil:
			return fmt.Errorf("recording the new %s key: %w", name, err)
		case n == 0:
			return keyDiffers(name)
		}
		return nil
	})
}

func keyDiffers(name string) error {
	return action.NewError("key_differs", name, strings.ToUpper(name))
}

// vaultKeyRow is a key encrypted with the master key, which survives a rotation of the
// master key.
type vaultKeyRow struct {
	bun.BaseModel `bun:"table:vault_keys"`

	Name      string             `bun:"name,pk"`
	Sealed    []byte             `bun:"sealed"`
	CreatedAt database.Timestamp `bun:"created_at"`
}

// VaultKey returns a sealed key of the deployment, or ErrNotFound.
func (st *Store) VaultKey(ctx context.Context, name string) ([]byte, error) {
	r := &vaultKeyRow{Name: name}
	err := st.db.Read.NewSelect().Model(r).WherePK().Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, action.NewError("vault_key_not_found", name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading key %s: %w", name, err)
	}
	return r.Sealed, nil
}

// PutVaultKey creates or replaces a sealed key.
func (st *Store) PutVaultKey(ctx context.Context, name string, sealed []byte) error {
	r := &vaultKeyRow{Name: name, Sealed: sealed, CreatedAt: database.NewTimestamp(st.db.Now())}
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewInsert().Model(r).On("CONFLICT (name) DO UPDATE").Set("sealed = EXCLUDED.sealed").Exec(ctx)
		if err != nil {
			return fmt.Errorf("writing key %s: %w", name, err)
		}
		return nil
	})
}
