package action

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// The kinds of errors that cross package boundaries. Test them with
// [errors.Is]. Two tables map them: dashboard to HTTP statuses, mcpserver to
// JSON-RPC errors and tool results. Any other error is "internal": it is
// logged and not shown.
var (
	// ErrInvalid is invalid input; the message names the field and how to fix
	// it.
	ErrInvalid = errors.New("invalid")
	// ErrUnauthenticated is a missing, forged, expired or revoked credential.
	ErrUnauthenticated = errors.New("unauthenticated")
	// ErrForbidden is a valid credential without permission.
	ErrForbidden = errors.New("forbidden")
	// ErrNotFound is something that does not exist or that the caller may not
	// see.
	ErrNotFound = errors.New("not found")
	// ErrConflict is a request that conflicts with an earlier one: already
	// decided, an idempotency key with other params, a name in use.
	ErrConflict = errors.New("conflict")
	// ErrGone is a decision about an expired invocation.
	ErrGone = errors.New("gone")
	// ErrTooMany is an exceeded limit: rate, pending invocations, quota.
	ErrTooMany = errors.New("too many")
	// ErrTooLarge is input over a size limit.
	ErrTooLarge = errors.New("too large")
	// ErrUnavailable is a service that could not be reached; nothing was
	// executed.
	ErrUnavailable = errors.New("unavailable")
	// ErrNotReady is an ErrUnavailable of the gateway itself: it is shutting
	// down or, with code "database_unavailable", cannot reach its database.
	// The message then says what is known of the call.
	ErrNotReady = fmt.Errorf("not ready: %w", ErrUnavailable)
	// ErrOutcomeUnknown is a request without an answer that may have reached
	// its service. Writes are not retried.
	ErrOutcomeUnknown = errors.New("outcome unknown")
)

// Causes of a caller's context; see [Call] and Gate.Call.
var (
	// ErrCancelled is the cause when the caller cancelled. Only this cause
	// withdraws a pending call.
	ErrCancelled = errors.New("cancelled by the caller")
	// ErrCallerGone is the cause when the caller disconnected or timed out;
	// the pending call stays.
	ErrCallerGone = errors.New("the caller is gone")
)

// Error is an error that may be shown to the caller: a kind, a stable code
// for programs, and a message that says what to do next. It contains no
// secret.
type Error struct {
	Kind       error         // one of the kinds above
	Code       string        // snake_case, stable; for example "rate_limited"
	Values     []any         // values in Message, in order, if the declaration has a text
	Message    string        // one or two sentences for a person or a model
	Field      string        // JSON Pointer of the offending field, if any
	Invocation string        // id of the invocation concerned, if any
	RetryAfter time.Duration // when to try again; zero: not known
	Err        error         // the cause, for the log only
}

// Errorf returns an [*Error] of a declared code whose message depends on the
// case. All others come from [NewError].
func Errorf(kind error, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Message: fmt.Sprintf(format, args...)}
}

// ParamsMismatch is the prefix of errors about params that do not match their
// schema. Callers that already say so remove it.
const ParamsMismatch = "The params do not fit: "

// Persistent reports whether the error stays until a person fixes its cause,
// judged by its code: errors of a source's settings, and responses that the
// gateway does not pass on.
func (e *Error) Persistent() bool {
	switch e.Code {
	case "upstream_auth", "upstream_credential", "upstream_reconnect", "upstream_config", "upstream_blocked",
		"upstream_tls", "upstream_transport", "upstream_too_large", "not_asked":
		return true
	}
	return false
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, strings.TrimSuffix(e.Message, "."), e.Err)
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

// Public returns err if it is an [*Error], and otherwise an internal error
// that reveals nothing of its cause.
func Public(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: "internal", Message: "Internal error of the gateway; its log has the details.", Err: err}
}

// ReadFailed translates an unreachable database for a caller whose call may
// exist: its state is unknown, and the message must not suggest one.
func ReadFailed(err error, id string) error {
	return databaseError(err, id, "The state of this call cannot be read at the moment. In a few seconds, ask for it again or repeat the call with the same arguments: a repeat joins the call and does not run it twice.")
}

// WriteFailed translates an unreachable database for a caller whose call was
// not recorded, or was recorded without confirmation. It was not started, but
// if it is pending it may still be approved.
func WriteFailed(err error) error {
	return databaseError(err, "", "The call could not be recorded, so it was not started. Repeat it with the same arguments in a few seconds: if it was recorded after all, the repeat joins it.")
}

func databaseError(err error, id, message string) error {
	if !IsDatabaseUnavailable(err) {
		return err
	}
	return &Error{Kind: ErrNotReady, Code: codeDatabaseUnavailable, Invocation: id, Message: message, RetryAfter: 5 * time.Second, Err: err}
}

const codeDatabaseUnavailable = "database_unavailable"

// IsDatabaseUnavailable reports whether err says that the database is unreachable.
func IsDatabaseUnavailable(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == codeDatabaseUnavailable
}

// Declared returns the declaration of a code, or the zero Declaration.
func Declared(code string) Declaration {
	return declared()[code]
}

var declared = sync.OnceValue(func() map[string]Declaration {
	all := map[string]Declaration{}
	for _, area := range Areas() {
		for _, d := range area.Errors {
			all[d.Code] = d
		}
	}
	return all
})

// NewError returns the declared error of a code with the values for its
// message. An undeclared code, a mistake that a test finds, becomes an
// internal error.
func NewError(code string, values ...any) *Error {
	d := Declared(code)
	if d.Text == "" {
		return Public(fmt.Errorf("the error %q has no sentence", code))
	}
	return &Error{Kind: d.Kind, Code: code, Message: fmt.Sprintf(d.Text, values...), Values: values}
}

// WithField returns e with the JSON Pointer of the offending field.
func (e *Error) WithField(pointer string) *Error {
	e.Field = pointer
	return e
}

// WithInvocation returns e with the ID of its invocation.
func (e *Error) WithInvocation(id string) *Error {
	e.Invocation = id
	return e
}

// WithRetry returns e with the time after which a retry makes sense.
func (e *Error) WithRetry(after time.Duration) *Error {
	e.RetryAfter = after
	return e
}

// WithCause returns e with its cause, for the log only.
func (e *Error) WithCause(err error) *Error {
	e.Err = err
	return e
}

// Denied describes a denied reason: as a sentence, and as a label for lists.
func Denied(reason string) (sentence, by string) {
	switch reason {
	case DeniedHuman:
		return "Denied by a person.", "a person"
	case DeniedRepeated:
		return "Denied automatically: the same call was denied recently.", "repeat of a denied call"
	case DeniedOften:
		return "Denied automatically: this tool was denied repeatedly in this session.", "denial limit"
	case DeniedWithdrawn:
		return "Withdrawn: the caller cancelled or disconnected.", "withdrawn"
	case DeniedQuota:
		return "Denied automatically: the session reached a limit.", "session limit"
	}
	return "Denied by policy.", "policy"
}

// Refusal returns the message to an agent whose call was denied: the reason,
// and what to do. holds is how long a denial by a person also denies the same
// call.
func (inv *Invocation) Refusal(holds string) string {
	note, why := "", ""
	if inv.DeniedNote != "" {
		why = " " + endSentence(inv.DeniedNote)
		note = " Reason given:" + why
	}
	what, next := "", ""
	switch inv.DeniedReason {
	case DeniedHuman:
		what, next = "was denied by a person", "Do not repeat this call: for "+holds+" it is denied automatically."
	case DeniedRepeated:
		what, next = "was denied automatically, because a person recently denied the same call", "Do not repeat it or work around it. Tell the user."
	case DeniedOften:
		note = cmp.Or(why, " People denied it repeatedly. Continue without it and tell the user.")
		what, next = "is denied in this session from now on, with any arguments", "Do not call it again."
	case DeniedWithdrawn:
		what, next = "was withdrawn before a person decided", "Call again only if it is still needed."
		note = cmp.Or(note, " The caller cancelled or disconnected.")
	case DeniedQuota:
		what, next = "was not executed, because this session reached a limit of the gateway", "You can repeat the same call then."
	default:
		layer := Layer("")
		if note = why; inv.Mode == ModeDeny { // otherwise it was pending, and the layer is the one that required approval
			layer = inv.ModeSource
		}
		what, next = "is denied by policy", "Do not repeat it. Tell the user that "+remedy(layer)+"."
		if layer != "" {
			what += " (layer: " + string(layer) + ")"
		}
		if layer == LayerGuardrail {
			what, next = "is forbidden by a setting of the integration", "Repeat it only with other arguments, or tell the user that an admin can change the setting."
		}
	}
	return cmp.Or(inv.SourceName, inv.Source) + " " + inv.Action + " " + what + "; nothing was executed." + note + " " + next
}

// remedy returns how a denied action can become possible.
func remedy(layer Layer) string {
	switch layer {
	case LayerCeiling:
		return "only a person can give this session what it needs"
	case LayerDrift:
		return "an admin can review the tool"
	}
	return "an admin can change the policy"
}

// endSentence adds a full stop if s lacks an end mark.
func endSentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" || strings.ContainsAny(s[len(s)-1:], ".!?") {
		return s
	}
	return s + "."
}
