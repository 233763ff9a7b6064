package mcpserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/internal/jsonlex"
)

// This file is the table of what callers are told when something is not a
// plain success. A tool result with isError is for the model, which can act on
// it; a JSON-RPC error is for the client. What no row names is internal: its
// text goes to the log and never out.

// The codes of JSON-RPC and MCP that are used here.
const (
	codeParse              = -32700
	codeInvalidRequest     = -32600
	codeInvalidParams      = -32602
	codeInternal           = -32603
	codeCancelled          = -32800
	codeHeaderMismatch     = -32020
	codeUnsupportedVersion = -32022
	codeMethodNotFound     = -32601
	codeMissingCapability  = -32021
	codeNoResource         = -32002 // of the older era; the stateless one says codeInvalidParams
)

// problem is a JSON-RPC error with the HTTP status that goes with it.
type problem struct {
	status int // zero: see message.httpStatus
	code   int
	text   string
	data   []byte // raw; nil for none
}

func malformed(text string) *problem {
	return &problem{status: http.StatusBadRequest, code: codeParse, text: text}
}

func wrongEnvelope(text string) *problem {
	return &problem{status: http.StatusBadRequest, code: codeInvalidRequest, text: text}
}

func headerMismatch(format string, args ...any) *problem {
	return &problem{status: http.StatusBadRequest, code: codeHeaderMismatch, text: fmt.Sprintf(format, args...)}
}

func invalidParams(format string, args ...any) *problem {
	return &problem{code: codeInvalidParams, text: fmt.Sprintf(format, args...)}
}

func internalProblem() *problem {
	return &problem{code: codeInternal, text: "Something went wrong inside the gateway; its log has the details."}
}

// raw returns the error object.
func (p *problem) raw() []byte {
	b := append([]byte(`{"code":`), strconv.Itoa(p.code)...)
	b = jsonlex.Quote(append(b, `,"message":`...), p.text)
	if p.data != nil {
		b = append(append(b, `,"data":`...), p.data...)
	}
	return append(b, '}')
}

// statusOf returns the HTTP status that the stateless era wants for an error.
func statusOf(code int) int {
	switch code {
	case codeMethodNotFound:
		return http.StatusNotFound
	case codeInvalidParams, codeUnsupportedVersion, codeMissingCapability, codeHeaderMismatch:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// message is the answer to a request: a raw result or a raw error.
type message struct {
	result []byte
	fault  []byte
	status int // of HTTP, if nothing was sent yet; zero: see httpStatus

	// said is what result tells the model. Methods whose results cannot say
	// that something went wrong get it as an error, with code, zero being
	// codeInternal, and raw data, if any.
	said string
	code int
	data []byte
}

// asFault is a message for a method that knows no failed results.
func (m message) asFault() message {
	if m.said == "" {
		return m
	}
	p := problem{code: m.code, text: m.said, data: m.data}
	orElse(&p.code, codeInternal)
	return p.message()
}

func (p *problem) message() message { return message{fault: p.raw(), status: p.status} }

// httpStatus returns the status of the answer.
func (m *message) httpStatus(modern bool) int {
	switch {
	case m.status != 0:
		return m.status
	case modern && m.fault != nil:
		code, _ := strconv.Atoi(string(member(m.fault, "code"))) // anything else is no special code
		return statusOf(code)
	}
	return http.StatusOK
}

// failText is a tool result that tells the model what went wrong.
func failText(format string, args ...any) message {
	said := fmt.Sprintf(format, args...)
	b := []byte(`{"content":[{"type":"text","text":`)
	b = jsonlex.Quote(b, said)
	return message{result: append(b, `}],"isError":true}`...), said: said}
}

// errorMessage maps an error of the Gate; words are those in which the caller is
// told of one that may pass: nothingHappened or asItStands. The caller handles
// ErrNotFound, whose meaning depends on what was asked for.
func (s *Server) errorMessage(err error, words func(*action.Error) string) message {
	var e *action.Error
	if !errors.As(err, &e) {
		s.cfg.Log.Error("call failed", "error", err)
		return internalProblem().message()
	}
	switch {
	case errors.Is(err, action.ErrInvalid):
		m := failText("Invalid params%s: %s", at(e.Field), strings.TrimPrefix(e.Message, action.Unfitting))
		m.code = codeInvalidParams
		return m
	case errors.Is(err, action.ErrOutcomeUnknown):
		return failText("%s%s", unknownOutcome, named(e.Invocation))
	case errors.Is(err, action.ErrTooMany), errors.Is(err, action.ErrUnavailable),
		errors.Is(err, action.ErrConflict), errors.Is(err, action.ErrTooLarge):
		return failText("%s%s", words(e), named(e.Invocation))
	case errors.Is(err, action.ErrUnauthenticated), errors.Is(err, action.ErrForbidden), errors.Is(err, action.ErrGone):
		return failText("%s%s", e.Message, named(e.Invocation))
	}
	s.cfg.Log.Error("call failed", "error", err)
	return internalProblem().message()
}

// unknownOutcome must never read as "it failed, try again": the effect may be
// there.
const unknownOutcome = "The outcome is unknown: the call may or may not have happened. " +
	"Check at the service before you try again; the gateway will not repeat it."

// besideMessage maps an error of the Gate for a request that is no call.
func (s *Server) besideMessage(err error) message {
	var e *action.Error
	if errors.Is(err, action.ErrNotFound) && errors.As(err, &e) {
		return invalidParams("%s", e.Message).message()
	}
	return s.errorMessage(err, asItStands)
}

// resourceMessage maps an error of finding a resource, or of what was to be
// done with it.
func (s *Server) resourceMessage(x *exchange, uri string, err error) message {
	var e *action.Error
	if errors.Is(err, action.ErrNotFound) && (!errors.As(err, &e) || e.Code != "no_subscription" && e.Code != "no_completion") {
		return unknownResource(x.modern, uri).message()
	}
	return s.besideMessage(err)
}

// unknownResource tells of a resource that is not there as the era of whoever
// asks does.
func unknownResource(modern bool, uri string) *problem {
	p := invalidParams("There is no such resource; resources/list tells what there is.")
	if !modern {
		p.code = codeNoResource
	}
	p.data, _ = json.Marshal(map[string]string{"uri": uri}) // strings always encode
	return p
}

func missingURI() *problem {
	return invalidParams("uri is missing; resources/list tells what there is.")
}

func unknownPrompt(name string) *problem {
	return invalidParams("There is no prompt %q; prompts/list tells what there is.", cut(name, 64))
}

// outcomeMessage maps what became of an invocation. strict is for tools whose
// result must follow a schema, which a notice cannot; the lead is for a notice.
func (s *Server) outcomeMessage(o *action.Outcome, lead string, strict bool, now time.Time) message {
	m := s.endMessage(o, lead, strict, now)
	if m.said != "" {
		m.data = pendingContent(&o.Invocation)
	}
	return m
}

func (s *Server) endMessage(o *action.Outcome, lead string, strict bool, now time.Time) message {
	inv := &o.Invocation
	switch inv.Status {
	case action.StatusCompleted:
		if o.Answer.Body != nil {
			return message{result: o.Answer.Body}
		}
		return goneResult(inv)
	case action.StatusFailed:
		return failedMessage(o)
	case action.StatusDenied:
		return failText("%s%s", inv.Refusal(lasting(s.cfg.DenialHolds)), named(inv.ID))
	case action.StatusExpired:
		if inv.ApprovedBy != "" {
			return failText("%s was approved, but it was not run in time and the approval expired; nothing was executed. Call again if it is still needed.%s", nameOf(inv), named(inv.ID))
		}
		return failText("Nobody approved %s in time; nothing was executed. Call again only if it is still needed.%s", nameOf(inv), named(inv.ID))
	}
	return pendingNotice(inv, lead, strict, now)
}

// failedMessage maps the codes of a failed invocation.
func failedMessage(o *action.Outcome) message {
	inv := &o.Invocation
	code, why := "", ""
	if inv.Error != nil {
		code, why = inv.Error.Code, inv.Error.Message
	}
	switch {
	case code == action.FailedTool && o.Answer.Body != nil:
		return message{result: o.Answer.Body}
	case code == action.FailedUpstream && o.Answer.Problem != nil:
		return message{fault: o.Answer.Problem}
	case code == action.FailedTool, code == action.FailedUpstream:
		return failText("%s answered with an error: %s%s", source(inv), why, named(inv.ID))
	case code == action.FailedUnknown:
		return failText("%s (%s)%s", unknownOutcome, nameOf(inv), named(inv.ID))
	case code == action.FailedStale:
		return failText("%s was approved, but what would run now is not what was approved (%s). Nothing was executed. Call again to ask for a new approval.%s", nameOf(inv), why, named(inv.ID))
	case code == action.FailedReach && strings.HasPrefix(why, source(inv)+" "): // it answered
		return failText("%s%s", sentence(why), named(inv.ID))
	case code == action.FailedReach:
		return failText("%s gave no answer: %s%s", source(inv), sentence(why), named(inv.ID))
	}
	return failText("%s failed inside the gateway before it could run; nothing was executed. Try again later.%s", nameOf(inv), named(inv.ID))
}

// goneResult answers for a result that is no longer kept in full.
func goneResult(inv *action.Invocation) message {
	kept := inv.Result
	if kept == nil {
		kept = json.RawMessage("null")
	}
	said := nameOf(inv) + " completed. Its full result is no longer kept; the record holds: " + string(kept)
	b := []byte(`{"content":[{"type":"text","text":`)
	b = jsonlex.Quote(b, said)
	return message{result: append(b, `}]}`...), said: said}
}

func nameOf(inv *action.Invocation) string { return source(inv) + " " + inv.Action }

func source(inv *action.Invocation) string {
	if inv.SourceName != "" {
		return inv.SourceName
	}
	return inv.Source
}

func named(invocation string) string {
	if invocation == "" {
		return ""
	}
	return " (invocation " + invocation + ")"
}

func at(field string) string {
	if field == "" {
		return ""
	}
	return " at " + field
}

// nothingHappened is the message of an error of a new call. It says that
// nothing was executed where that is proven, unless the message does.
func nothingHappened(e *action.Error) string {
	text := sentence(e.Message)
	if beforeRow(e) && !strings.Contains(strings.ToLower(text), "nothing was executed") {
		text += " Nothing was executed."
	}
	return text + retryHint(e)
}

// beforeRow reports whether an error proves that its call has no row. One that
// names an invocation is of a row. One of rows that are out of reach proves
// nothing: the row may be there, and what holds or joins it may yet run.
func beforeRow(e *action.Error) bool {
	return e.Invocation == "" && e.Code != "database_unavailable"
}

// askLaterText is for who asks for a call that was made before: it may well
// have been executed.
const askLaterText = "The gateway is restarting and cannot say now where this call stands. Ask again in a few seconds."

// asItStands is the message of an error about a call that has a row. What
// became of the call is for the message to say.
func asItStands(e *action.Error) string {
	if e.Code == "shutting_down" {
		return askLaterText
	}
	return sentence(e.Message) + retryHint(e)
}

// retryHint says when to try again, unless the message does.
func retryHint(e *action.Error) string {
	lower := strings.ToLower(e.Message)
	if e.RetryAfter <= 0 || strings.Contains(lower, "try again in") || strings.Contains(lower, "in a few seconds") {
		return ""
	}
	return fmt.Sprintf(" Try again in %d seconds.", int64((e.RetryAfter+time.Second-1)/time.Second))
}

// sentence ends s as a sentence ends.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" || strings.ContainsAny(s[len(s)-1:], ".!?") {
		return s
	}
	return s + "."
}
