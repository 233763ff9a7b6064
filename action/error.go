package action

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
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

// Causes with which a caller's context ends; see [Call] and Gate.Call.
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

// ParamsMismatch begins the message of an error about params that miss their schema.
// Who says so already leaves it out.
const ParamsMismatch = "The params do not fit: "

// Persistent reports whether what went wrong stays so until a person does
// something about it, as far as the code tells: those of a source's settings,
// and of answers that the gateway does not pass on.
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
	return &Error{Code: "internal", Message: "Internal error of the gateway; its log has the details.", Err: err}
}

// ReadFailed tells a caller that the row of his call is out of reach. What became
// of the call is not known, and must not sound as if it were.
func ReadFailed(err error, id string) error {
	return databaseError(err, id, "The state of this call cannot be read at the moment. In a few seconds, ask for it again or repeat the call with the same arguments: a repeat joins the call and does not run it twice.")
}

// WriteFailed tells a caller that the row of his call could not be written, or
// was and nobody heard of it. It was not begun; but where it is held it may
// still be approved.
func WriteFailed(err error) error {
	return databaseError(err, "", "The call could not be recorded, so it was not started. Repeat it with the same arguments in a few seconds: if it was recorded after all, the repeat joins it.")
}

func databaseError(err error, id, message string) error {
	if !IsDatabaseUnavailable(err) {
		return err
	}
	return &Error{Kind: ErrNotReady, Code: codeDatabaseUnavailable, Invocation: id, Message: message, RetryAfter: 5 * time.Second, Err: err}
}

// codeDatabaseUnavailable is the code of an error of a ledger whose rows are out of reach.
const codeDatabaseUnavailable = "database_unavailable"

// IsDatabaseUnavailable reports whether err says that the database is unreachable.
func IsDatabaseUnavailable(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == codeDatabaseUnavailable
}

// Declaration says once what an error is. The codes_*.go files hold one for
// every code that leaves the program; docs/troubleshooting.md is printed from
// them, and a test compares them with the codes that the program uses.
type Declaration struct {
	Code string
	Kind error // nil: depends on where it happens
	// Text is the sentence for people and agents, formatted with the values of
	// the error. Empty: the place that finds the error writes the sentence,
	// since it depends on what was found.
	Text string
	See  Operation // where to continue, "" for nowhere
	Do   string    // what to do, where the sentence does not say all of it; Markdown
}

// Area is a subject of errors.
type Area struct {
	Name   string
	Errors []Declaration
	Others string // codes whose sentences depend on what is found and say all there is to say
}

// Areas returns every declared error, by subject.
func Areas() []Area {
	return []Area{
		callErrors(), requestErrors(), signInErrors(), permissionErrors(), policyErrors(),
		connectorErrors(), integrationErrors(), inboundErrors(), evidenceErrors(), gatewayErrors(),
	}
}

// Declared returns the declaration of a code; the zero Declaration if there is
// none.
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

// NewError returns the declared error of a code, with the values that its
// sentence names. A code that is not declared is an internal error: it is a
// mistake in the program, which a test finds.
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

// WithInvocation returns e with the id of the invocation concerned.
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

// Operation is something that the reader of an error can do next, such as
// "list grants". Each surface says it in its own terms: the API as a route, the
// command line as a command.
type Operation string

// Denied says why calls are denied for a reason: as a sentence for people, and
// in lists as who or what settled them.
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

// Refusal tells an agent that its call was denied, why, and what to do. holds is
// how long a person's denial refuses the same call.
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
		if note = why; inv.Mode == ModeDeny { // otherwise it was held, and the layer is the one that held it
			layer = inv.ModeSource
		}
		what, next = "is denied by policy", "Do not repeat it. Tell the user that "+remedy(layer)+"."
		if layer != "" {
			what += " (layer: " + string(layer) + ")"
		}
	}
	return inv.name() + " " + what + "; nothing was executed." + note + " " + next
}

// remedy is what it takes for a denied action to be possible.
func remedy(layer Layer) string {
	switch layer {
	case LayerCeiling:
		return "only a person can give this session what it needs"
	case LayerDrift:
		return "an admin can review the tool"
	}
	return "an admin can change the policy"
}

func (inv *Invocation) name() string { return cmp.Or(inv.SourceName, inv.Source) + " " + inv.Action }

// endSentence ends s as a sentence ends.
func endSentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" || strings.ContainsAny(s[len(s)-1:], ".!?") {
		return s
	}
	return s + "."
}
