package action

import (
	"fmt"
	"sync"
	"time"
)

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
