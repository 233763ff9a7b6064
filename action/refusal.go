package action

import (
	"errors"
	"time"
)

// RefusalKind is why a call was refused without an invocation.
type RefusalKind string

// The kinds of refusal. Calls that policy, a guardrail or a person denies are
// invocations.
const (
	RefusedUnknown  RefusalKind = "unknown_action"   // no source, or no action of it, has the name
	RefusedParams   RefusalKind = "invalid_params"   // also params that are too large, and an invalid idempotency key
	RefusedRate     RefusalKind = "rate_limited"     // the session's rate limit
	RefusedQuota    RefusalKind = "quota_reached"    // a quota of policy
	RefusedPending  RefusalKind = "too_many_pending" // calls of the session that wait for approval
	RefusedDecision RefusalKind = "agent_decision"   // an agent's attempt to approve or deny
)

// RefusalKinds are all kinds.
func RefusalKinds() []RefusalKind {
	return []RefusalKind{RefusedUnknown, RefusedParams, RefusedRate, RefusedQuota, RefusedPending, RefusedDecision}
}

// RefusalCount counts refused calls of a session of one kind, and of one action if
// it is known, during at most a minute on one instance.
type RefusalCount struct {
	ID           string      `json:"id"`
	Organization string      `json:"-"`
	Session      string      `json:"session_id"`
	Kind         RefusalKind `json:"kind"`
	// Source is empty if the call's source was not looked up.
	Source string `json:"source_id,omitempty"`
	// Action is the action, or of several that are not known the name that the first
	// of the calls gave, shortened.
	Action  string    `json:"action,omitempty"`
	Count   int64     `json:"count"`
	FirstAt time.Time `json:"first_at"`
	LastAt  time.Time `json:"last_at"`
}

// RefusalFilter selects counts of refusals. Empty fields match all.
type RefusalFilter struct {
	Organization string
	Session      string
	Kind         RefusalKind
	From, To     time.Time // the last refusal: From is included, To is not; zero: open
	Limit        int       // zero: 50; at most 500
	Cursor       string    // of the page before; empty: the newest
}

// RefusalOf returns the kind of an error of a call that has no invocation. Errors
// that are no refusal of this call, such as a source that cannot be reached, have
// none.
func RefusalOf(err error) (kind RefusalKind, ok bool) {
	var e *Error
	switch {
	case !errors.As(err, &e) || e.Invocation != "":
	case errors.Is(err, ErrNotFound):
		return RefusedUnknown, true
	case errors.Is(err, ErrInvalid), errors.Is(err, ErrTooLarge):
		return RefusedParams, true
	case e.Code == string(RefusedRate), e.Code == string(RefusedQuota), e.Code == string(RefusedPending):
		return RefusalKind(e.Code), true
	}
	return "", false
}
