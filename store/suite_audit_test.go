package store_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"sallyport/action"
	"sallyport/store"
)

// auditKey is the key of the evidence.
var auditKey = bytes.Repeat([]byte{7}, 32)

// seal seals what waits, few rows at a time.
func (h *house) seal() (n int) {
	h.Helper()
	for {
		done := must(h.db.Seal(h.ctx, auditKey, 7))(h)
		if n += done; done < 7 {
			return n
		}
	}
}

func (h *house) verify(known *action.AuditHead) action.AuditReport {
	h.Helper()
	return must(h.db.VerifyAudit(h.ctx, h.org.ID, auditKey, known))(h)
}

// sound checks that the evidence holds and that all of it is sealed, and
// returns how many links there are.
func (h *house) sound(known *action.AuditHead) int64 {
	h.Helper()
	r := h.verify(known)
	if !r.OK || len(r.Faults) > 0 || r.Unsealed != 0 {
		h.Fatalf("the report is %+v", r)
	}
	h.equal(r.Head.Seq-r.From+1, r.Checked, "links that were checked")
	return r.Checked
}

// faults checks the kinds of what is wrong.
func (h *house) faults(known *action.AuditHead, kinds ...string) []action.AuditFault {
	h.Helper()
	r := h.verify(known)
	var got []string
	for _, f := range r.Faults {
		got = append(got, f.Kind)
	}
	h.equal(got, kinds, "faults")
	h.equal(r.OK, len(kinds) == 0, "whether the evidence holds")
	return r.Faults
}

func (h *house) head() *action.AuditHead {
	h.Helper()
	heads := must(h.db.AuditHeads(h.ctx, h.org.ID))(h)
	if len(heads) != 1 {
		h.Fatalf("heads: %+v", heads)
	}
	return &heads[0]
}

// ended writes a call that is over.
func (h *house) ended(params string) string {
	h.Helper()
	d := h.allowed(params)
	h.began(d)
	h.finish(h.done(d.ID))
	return d.ID
}

func (h *house) event(invocation string) {
	h.Helper()
	h.ok(h.db.AppendEvent(h.ctx, action.Event{Organization: h.org.ID, Invocation: invocation, Kind: action.ParamsRevealed, By: "alice", At: h.now, Data: json.RawMessage(`{"a":1}`)}))
}

var auditStories = map[string]func(*house){
	"every ended call is queued for sealing": func(h *house) {
		pending := h.began(h.held(`{"a":1}`)).ID
		h.event(pending)
		h.equal(h.seal(), 1, "sealed: the event of a call that is open")
		ends := map[string]func() string{
			"finished": func() string { return h.ended(`{"end":1}`) },
			"denied":   func() string { return h.deny(h.began(h.held(`{"end":2}`)).ID, "").ID },
			"refused": func() string {
				d := h.draft("x", `{"end":3}`)
				d.Status, d.Mode, d.DeniedReason = action.StatusDenied, action.ModeDeny, action.DeniedPolicy
				return h.began(d).ID
			},
			"withdrawn": func() string {
				return must(h.db.Withdraw(h.ctx, h.org.ID, h.began(h.held(`{"end":4}`)).ID, h.now))(h).ID
			},
			"a read": func() string {
				d := h.read(`{"end":5}`)
				h.began(d)
				return h.finish(h.done(d.ID)).ID
			},
			"lost": func() string {
				d := h.allowed(`{"end":6}`)
				h.began(d)
				r := h.rules()
				r.LeaseBefore = h.now.Add(2 * time.Minute)
				h.sweptOne(r, d.ID, action.StatusFailed)
				return d.ID
			},
		}
		for name, end := range ends {
			id := end()
			r := h.verify(nil)
			h.equal(r.Unsealed, int64(1), "rows that wait after one was "+name)
			h.equal(h.seal(), 1, "sealed after one was "+name)
			h.ok(h.db.MarkDelivered(h.ctx, h.org.ID, id, h.now)) // which no seal covers
		}
		h.ok(h.db.Flush(h.ctx))
		h.equal(h.sound(nil), int64(1+len(ends)), "links")
		h.later(10 * time.Minute)
		h.sweptOne(h.rules(), pending, action.StatusExpired)
		h.equal(h.seal(), 1, "sealed: what expired")
		h.equal(h.seal(), 0, "sealed again")
		h.equal(h.sound(nil), int64(2+len(ends)), "links at last")
	},
	"verification reports unsealed rows with their age": func(h *house) {
		h.later(-time.Hour)
		h.ended(`{"a":1}`)
		h.later(30 * time.Minute)
		h.ended(`{"a":2}`)
		r := h.verify(nil)
		if !r.OK || r.Unsealed != 2 || r.UnsealedAge < 3590 || r.Checked != 0 || r.Head.Seq != 0 {
			h.Errorf("the report is %+v", r)
		}
		h.equal(must(h.db.Seal(h.ctx, auditKey, 1))(h), 1, "sealed")
		if r := h.verify(nil); !r.OK || r.Unsealed != 1 || r.UnsealedAge > 3590 || r.Checked != 1 || r.Head.Seq != 1 || r.From != 1 {
			h.Errorf("the report is %+v", r)
		}
	},
	"each organization has a chain of its own": func(h *house) {
		other := newHouse(h.T, h.db)
		h.ended(`{"a":1}`)
		other.ended(`{"a":1}`)
		h.ended(`{"a":2}`)
		h.equal(h.seal(), 3, "sealed")
		h.equal([]int64{h.sound(nil), other.sound(nil)}, []int64{2, 1}, "links")
		heads := map[string]int64{}
		for _, head := range must(h.db.AuditHeads(h.ctx, ""))(h) {
			heads[head.Organization] = head.Seq
		}
		h.equal(heads, map[string]int64{h.org.ID: 2, other.org.ID: 1, store.DefaultOrganization: 0}, "heads")
	},
	"invalid values are refused": func(h *house) {
		h.ended(`{}`)
		h.seal()
		known := *h.head()
		h.sound(&known)
		for name, change := range map[string]func(*action.AuditHead){
			"of another organization": func(a *action.AuditHead) { a.Organization = newID() },
			"changed":                 func(a *action.AuditHead) { a.Seq++ },
			"of another time":         func(a *action.AuditHead) { a.At = a.At.Add(time.Second) },
			"not hexadecimal":         func(a *action.AuditHead) { a.Hash = "x" },
			"unsigned":                func(a *action.AuditHead) { a.MAC = "" },
		} {
			bad := known
			change(&bad)
			_, err := h.db.VerifyAudit(h.ctx, h.org.ID, auditKey, &bad)
			h.equal(h.refused(err, action.ErrInvalid, "invalid").Field, "/head", "field of a head that is "+name)
		}
		_, err := h.db.VerifyAudit(h.ctx, newID(), auditKey, nil)
		h.refused(err, action.ErrNotFound, "organization_not_found")
		_, err = h.db.AuditHeads(h.ctx, newID())
		h.refused(err, action.ErrNotFound, "organization_not_found")
		_, err = h.db.Retain(h.ctx, newID(), h.now, auditKey, 1)
		h.refused(err, action.ErrNotFound, "organization_not_found")
		_, short := h.db.Seal(h.ctx, auditKey[1:], 1)
		_, none := h.db.VerifyAudit(h.ctx, h.org.ID, nil, nil)
		_, retain := h.db.Retain(h.ctx, h.org.ID, h.now, nil, 1)
		if short == nil || none == nil || retain == nil {
			h.Errorf("keys that are too short: %v, %v, %v", short, none, retain)
		}
	},
	"another key verifies, seals and removes nothing": func(h *house) {
		other := bytes.Repeat([]byte{8}, 32)
		h.ended(`{"a":1}`)
		h.seal()
		r := must(h.db.VerifyAudit(h.ctx, h.org.ID, other, nil))(h)
		h.equal([]string{r.Faults[0].Kind, r.Faults[1].Kind}, []string{"head", "link"}, "faults")
		h.ended(`{"a":2}`)
		n, err := h.db.Seal(h.ctx, other, 10)
		h.equal(n, 0, "sealed")
		h.refused(err, action.ErrConflict, "audit_broken")
		_, err = h.db.Retain(h.ctx, h.org.ID, h.now.Add(time.Hour), other, 10)
		h.refused(err, action.ErrConflict, "audit_broken")
		h.equal(h.seal(), 1, "sealed under the right key")
		h.equal(h.sound(nil), int64(2), "links")
	},
	"a broken chain does not block other organizations": func(h *house) {
		bad := newHouse(h.T, h.db)
		bad.ended(`{"a":1}`)
		must(h.db.Seal(h.ctx, bytes.Repeat([]byte{8}, 32), 10))(h)
		for i := range 5 {
			bad.ended(fmt.Sprintf(`{"b":%d}`, i))
		}
		h.ended(`{"a":1}`)
		n, err := h.db.Seal(h.ctx, auditKey, 3) // fewer than wait before it
		h.equal(n, 1, "sealed")
		h.refused(err, action.ErrConflict, "audit_broken")
		h.equal(h.sound(nil), int64(1), "links")
	},
	"an exported head stays in the chain": func(h *house) {
		h.ended(`{"a":1}`)
		h.seal()
		first := h.head()
		for i := range 20 {
			h.ended(fmt.Sprintf(`{"b":%d}`, i))
		}
		h.seal()
		second := h.head()
		h.sound(first)
		h.sound(second)
		h.sound(&action.AuditHead{Organization: h.org.ID})
		encoded := must(json.Marshal(first))(h)
		var read action.AuditHead
		h.ok(json.Unmarshal(encoded, &read))
		h.sound(&read)
	},
	"concurrent sealers seal each row once": func(h *house) {
		const writers, each = 64, 4
		var writing, sealed atomic.Int64
		writing.Store(writers)
		together(writers+4, func(i int) {
			if i < writers {
				defer writing.Add(-1)
				for j := range each {
					d := h.allowed(fmt.Sprintf(`{"i":%d,"j":%d}`, i, j))
					if _, err := h.any(i).Begin(h.ctx, d); err != nil {
						h.Error(err)
					} else if _, _, err = h.any(i).Finish(h.ctx, h.done(d.ID)); err != nil {
						h.Error(err)
					}
				}
				return
			}
			for done := false; !done; {
				last := writing.Load() == 0 // nothing is written after this pass has begun
				n, err := h.any(i).Seal(h.ctx, auditKey, 30)
				if err != nil {
					h.Error(err)
					return
				}
				done = last && n == 0
				sealed.Add(int64(n))
				if r, err := h.any(i+1).VerifyAudit(h.ctx, h.org.ID, auditKey, nil); err != nil || !r.OK {
					h.Errorf("verified meanwhile: %+v, %v", r, err)
					return
				}
			}
		})
		h.equal(h.seal(), 0, "sealed afterwards")
		h.equal([]int64{h.sound(nil), sealed.Load()}, []int64{writers * each, writers * each}, "links, and rows that were counted")
	},
}
