package action

import (
	"errors"
	"fmt"
	"time"
)

// The kinds of error that cross package borders. Test with [errors.Is]. The
// two edges map them: dashboard to HTTP statuses, mcpserver to JSON-RPC errors
// and tool results. Any other error is "internal": its text goes to the log
// and never out.
var (
	// ErrInvalid is bad input: the message names the field and what is due.
	ErrInvalid = errors.New("invalid")
	// ErrUnauthenticated is a missing, forged, expired or revoked credential.
	ErrUnauthenticated = errors.New("unauthenticated")
	// ErrForbidden is a good credential that may not do this.
	ErrForbidden = errors.New("forbidden")
	// ErrNotFound is a thing that is not there, or not the caller's to see.
	ErrNotFound = errors.New("not found")
	// ErrConflict is a request that lost to an earlier one: decided already,
	// an idempotency key with other params, a name taken.
	ErrConflict = errors.New("conflict")
	// ErrGone is a decision that came too late: the invocation had expired.
	ErrGone = errors.New("gone")
	// ErrTooMany is a limit reached: rate, pending invocations, quota.
	ErrTooMany = errors.New("too many")
	// ErrTooLarge is input over a size limit.
	ErrTooLarge = errors.New("too large")
	// ErrUnavailable is a service that could not be reached, so that nothing was
	// executed.
	ErrUnavailable = errors.New("unavailable")
	// ErrNotReady is an ErrUnavailable of the gateway itself: it shuts down, or,
	// with code "database_unavailable", cannot reach its rows. Then the message
	// says what is known of the call.
	ErrNotReady = fmt.Errorf("not ready: %w", ErrUnavailable)
	// ErrOutcomeUnknown is a request that may have reached its service while
	// its answer did not reach us. A write that ends so is never repeated.
	ErrOutcomeUnknown = errors.New("outcome unknown")
)

// Causes with which a caller's context ends; see [Call] and [Gate.Call].
var (
	// ErrCancelled is the cause of a context that its caller cancelled on
	// purpose. Only this cause withdraws a held call.
	ErrCancelled = errors.New("cancelled by the caller")
	// ErrCallerGone is the cause of a context whose caller vanished or timed
	// out; the held call stays.
	ErrCallerGone = errors.New("the caller is gone")
)

// Error is an error that may be shown to the caller: a kind, a stable code
// for programs and a message that says what to do next. It holds no secret.
type Error struct {
	Kind       error         // one of the kinds above
	Code       string        // snake_case, stable; for example "rate_limited"
	Values     []any         // what Message names, in its order, as far as the code is declared with a sentence
	Message    string        // one or two sentences for a person or a model
	Field      string        // JSON Pointer of the offending field, if any
	Invocation string        // id of the invocation concerned, if any
	RetryAfter time.Duration // when to try again; zero: not known
	Err        error         // the cause, for the log only
}

// Errorf returns an [*Error] of a declared code whose sentence depends on what
// was found; all others come from [NewError].
func Errorf(kind error, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Unfitting begins the message of an error about params that miss their schema.
// Who says so already leaves it out.
const Unfitting = "The params do not fit: "

// Lasting reports whether what went wrong stays so until a person does
// something about it, as far as the code tells: those of a source's settings,
// and of answers that the gateway does not pass on.
func (e *Error) Lasting() bool {
	switch e.Code {
	case "upstream_auth", "upstream_credential", "upstream_reconnect", "upstream_config", "upstream_blocked",
		"upstream_tls", "upstream_transport", "upstream_too_large", "not_asked":
		return true
	}
	return false
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Err)
	}
	return e.Code + ": " + e.Message
}

// Unwrap returns the kind and the cause, so that errors.Is finds both.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// Public returns err as an [*Error] that may be shown: itself when it is one,
// otherwise an internal error that tells nothing of its cause.
func Public(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: "internal", Message: "Something went wrong inside the gateway; its log has the details.", Err: err}
}

// unread tells a caller that the row of his call is out of reach. What became
// of the call is not known, and must not sound as if it were.
func unread(err error, id string) error {
	return outOfReach(err, id, "What became of this call cannot be read just now. Ask for it again in a few seconds, or repeat the call with the same arguments: it is joined, not run twice.")
}

// unwritten tells a caller that the row of his call could not be written, or
// was and nobody heard of it. It was not begun; but where it is held it may
// still be approved.
func unwritten(err error) error {
	return outOfReach(err, "", "The call could not be written down just now, so it was not begun. Repeat it with the same arguments in a few seconds: if it was written down after all, it is joined.")
}

func outOfReach(err error, id, message string) error {
	if !rowsAway(err) {
		return err
	}
	return &Error{Kind: ErrNotReady, Code: codeAway, Invocation: id, Message: message, RetryAfter: 5 * time.Second, Err: err}
}

// codeAway is the code of an error of a ledger whose rows are out of reach.
const codeAway = "database_unavailable"

func rowsAway(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == codeAway
}
