package conformance_test

import (
	"slices"
	"strings"
)

// What callers are told.
const (
	toldResult  = "the result"
	toldNothing = "that nothing was executed"
	toldUnknown = "that the outcome is unknown"
	toldPending = "that it is pending"
	toldUnbegun = "that it was not begun"
	toldUnread  = "that it cannot be read"
	toldBroken  = "that nothing was changed" // by a read whose answer broke off
	toldNone    = "nothing at all"
)

// told says in which words a caller was answered; odd tells that they were
// none of those it should hear.
func told(effect string, got answer, err error) (words string, odd bool) {
	text := got.text()
	if got.Error != nil {
		text = got.Error.Message
	}
	text = strings.ToLower(text)
	switch {
	case err != nil:
		return toldNone, true
	case got.did(effect):
		return toldResult, false
	case strings.Contains(text, "outcome is unknown"), strings.Contains(text, "may or may not have happened"):
		return toldUnknown, false
	case strings.Contains(text, "was not started"):
		return toldUnbegun, false
	case strings.Contains(text, "cannot be read at the moment"):
		return toldUnread, false
	case strings.Contains(text, "nothing was changed"):
		return toldBroken, !strings.HasPrefix(effect, loadRead+" ")
	case strings.Contains(text, "invocation_wait"):
		return toldPending, false
	case strings.Contains(text, "nothing was executed") && !strings.Contains(text, "denied"):
		return toldNothing, false
	}
	return toldNone, true
}

// check compares what callers were told with the rows and with what happened,
// as one of the gateways shows it, once all calls came to an end.
func (l *load) check(g *gateway) {
	l.t.Helper()
	for _, status := range []string{"pending", "approved", "executing"} {
		g.await("no call to be "+status, func() bool { return len(g.invocations("status="+status)) == 0 })
	}
	for _, odd := range l.odd {
		l.t.Errorf("a caller was told otherwise: %s", odd)
	}
	rows := l.rows(g)
	for words, effects := range l.told {
		for _, effect := range effects {
			l.checkTold(effect, words, rows[effect])
		}
		l.t.Logf("%d callers were told %s", len(effects), words)
	}
	for effect, list := range rows {
		for _, i := range list {
			l.checkRow(effect, &i)
		}
	}
	for _, effect := range l.approved {
		r := rows[effect]
		if len(r) != 1 || r[0].ApprovedBy == "" {
			l.t.Errorf("%q was approved, but the rows are %+v", effect, r)
			continue
		}
		// A database that is away for long keeps an approved call from running;
		// then its row says so, and checkRow that nothing happened.
		code, fine := r[0].code(), []string{"outcome_unknown", "internal"}
		if l.soaking { // and a tool that is another one by then, or an upstream that restarts
			fine = append(fine, "stale_approval", "upstream_unavailable")
		}
		if r[0].Status != "completed" && !slices.Contains(fine, code) {
			l.t.Errorf("%q was approved, but the rows are %+v", effect, r)
		}
	}
	l.t.Logf("%d approvals were acknowledged", len(l.approved))
}

// checkTold checks that a caller was told the truth.
func (l *load) checkTold(effect, words string, rows []invocation) {
	l.t.Helper()
	switch words {
	case toldResult:
		if len(rows) != 1 || rows[0].Status != "completed" {
			l.t.Errorf("the caller of %q has the result, but the rows are %+v", effect, rows)
		}
		l.effects(effect, 1)
	case toldNothing:
		l.effects(effect, 0)
	case toldUnbegun:
		// It may have been written down, unheard. Held it may be approved, and
		// nothing else may run it.
		if len(rows) > 1 {
			l.t.Errorf("the caller of %q was told that it was not begun, but the rows are %+v", effect, rows)
		}
		if len(rows) == 0 || rows[0].Mode != "require_approval" {
			l.effects(effect, 0)
		}
	case toldBroken:
		if !l.soaking || len(rows) != 1 || rows[0].code() != "upstream_unavailable" {
			l.t.Errorf("the caller of %q was told %s, but the rows are %+v", effect, words, rows)
		}
	case toldUnknown, toldUnread:
		if len(rows) > 1 || len(rows) == 1 && rows[0].Status != "completed" && rows[0].code() != "outcome_unknown" {
			l.t.Errorf("the caller of %q was told %s, but the rows are %+v", effect, words, rows)
		}
	case toldPending:
		if len(rows) != 1 {
			l.t.Errorf("the caller of %q was told that it is pending, but the rows are %+v", effect, rows)
		}
	}
}

// loadDrift is a tool that is another one now and then, while it is soaked.
const loadDrift = "shift"

// checkRow checks that a row tells the truth.
func (l *load) checkRow(effect string, i *invocation) {
	l.t.Helper()
	happened := l.upstream.count(effect)
	switch {
	case i.Status == "completed" && happened == 1:
	case i.code() == "outcome_unknown" && happened <= 1:
	case l.soaking && (i.Action == loadRead || i.Action == loadDrift) && i.code() == "upstream_unavailable" && happened <= 1: // its answer broke off
	case happened == 0 && i.Status != "completed":
	default:
		l.t.Errorf("%q happened %d times, and its row is %+v, error %+v", effect, happened, *i, i.Error)
	}
}
