package mcpserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/internal/jsonlex"
	"sallyport/mcpserver/wire"
)

// gateError maps an error of the Gate; words (newCallText or existingCallText)
// phrase errors that may be temporary. The caller handles ErrNotFound, whose meaning
// depends on the request.
func (s *Server) gateError(err error, words func(*action.Error) string) wire.Response {
	var e *action.Error
	if !errors.As(err, &e) {
		s.cfg.Log.Error("call failed", "error", err)
		return wire.InternalError().Response()
	}
	switch {
	case errors.Is(err, action.ErrInvalid):
		at := ""
		if e.Field != "" {
			at = " at " + e.Field
		}
		m := wire.ToolError("Invalid params%s: %s", at, strings.TrimPrefix(e.Message, action.ParamsMismatch))
		m.Code = wire.CodeInvalidParams
		return m
	case errors.Is(err, action.ErrOutcomeUnknown):
		return wire.ToolError("%s%s", unknownOutcome, invocationSuffix(e.Invocation))
	case errors.Is(err, action.ErrTooMany), errors.Is(err, action.ErrUnavailable),
		errors.Is(err, action.ErrConflict), errors.Is(err, action.ErrTooLarge):
		return wire.ToolError("%s%s", words(e), invocationSuffix(e.Invocation))
	case errors.Is(err, action.ErrUnauthenticated), errors.Is(err, action.ErrForbidden), errors.Is(err, action.ErrGone):
		return wire.ToolError("%s%s", e.Message, invocationSuffix(e.Invocation))
	}
	s.cfg.Log.Error("call failed", "error", err)
	return wire.InternalError().Response()
}

// unknownOutcome must never read as "it failed, try again": the call may have taken
// effect.
const unknownOutcome = "The outcome is unknown: the call may or may not have happened. " +
	"Check at the service before you try again; the gateway will not repeat it."

// offeringError maps an error of the Gate for a request that is not a call.
func (s *Server) offeringError(err error) wire.Response {
	var e *action.Error
	if errors.Is(err, action.ErrNotFound) && errors.As(err, &e) {
		return wire.InvalidParams("%s", e.Message).Response()
	}
	return s.gateError(err, existingCallText)
}

// resourceError maps an error of resolving or using a resource.
func (s *Server) resourceError(x *exchange, uri string, err error) wire.Response {
	var e *action.Error
	if errors.Is(err, action.ErrNotFound) && (!errors.As(err, &e) || e.Code != "no_subscription" && e.Code != "no_completion") {
		return resourceNotFound(x.stateless, uri).Response()
	}
	return s.offeringError(err)
}

// resourceNotFound is the error for an unknown resource; its code depends on the
// protocol.
func resourceNotFound(modern bool, uri string) *wire.Error {
	p := wire.InvalidParams("Resource not found; resources/list has the resources of this session.")
	if !modern {
		p.Code = wire.CodeNoResource
	}
	p.Data, _ = json.Marshal(map[string]string{"uri": uri}) // strings always encode
	return p
}

func missingURI() *wire.Error {
	return wire.InvalidParams("uri is missing; resources/list has the resources of this session.")
}

func promptNotFound(name string) *wire.Error {
	return wire.InvalidParams("Prompt %q not found; prompts/list has the prompts of this session.", wire.Truncate(name, 64))
}

// outcomeResponse maps the outcome of an invocation. strict is for tools whose
// result must match a schema, which a pending notice does not; lead is a prefix for
// the notice.
func (s *Server) outcomeResponse(o *action.Outcome, lead string, strict bool, now time.Time) wire.Response {
	m := s.invocationResponse(o, lead, strict, now)
	if m.Text != "" {
		m.Data = pendingContent(&o.Invocation)
	}
	return m
}

func (s *Server) invocationResponse(o *action.Outcome, lead string, strict bool, now time.Time) wire.Response {
	inv := &o.Invocation
	switch inv.Status {
	case action.StatusCompleted:
		if o.Answer.Body != nil {
			return wire.Response{Result: resultBody(o)}
		}
		return expiredResult(inv)
	case action.StatusFailed:
		return failedResponse(o)
	case action.StatusDenied:
		return wire.ToolError("%s%s", inv.Refusal(durationText(s.cfg.DenialHolds)), invocationSuffix(inv.ID))
	case action.StatusExpired:
		if inv.ApprovedBy != "" {
			return wire.ToolError("%s was approved, but it was not run in time and the approval expired; nothing was executed. Call again if it is still needed.%s", callName(inv), invocationSuffix(inv.ID))
		}
		return wire.ToolError("Nobody approved %s in time; nothing was executed. Call again only if it is still needed.%s", callName(inv), invocationSuffix(inv.ID))
	}
	return pendingNotice(inv, lead, strict, now)
}

// resultBody returns the result of a call: as its source wrote it, but that of a
// platform tool, which the gateway wrote, with its text in the structured content too.
func resultBody(o *action.Outcome) []byte {
	body := o.Answer.Body
	content := wire.Member(body, "structuredContent")
	if o.Invocation.Source != action.Platform || !wire.IsObject(content) {
		return body
	}
	for _, item := range jsonlex.Children(wire.Member(body, "content")) {
		if text := wire.Member(item, "text"); wire.IsString(text) {
			return wire.ReplaceMember(body, "structuredContent", wire.WithMessage(content, wire.DecodeString(text)))
		}
	}
	return body
}

// failedResponse maps the error codes of a failed invocation.
func failedResponse(o *action.Outcome) wire.Response {
	inv := &o.Invocation
	code, why := "", ""
	if inv.Error != nil {
		code, why = inv.Error.Code, inv.Error.Message
	}
	switch {
	case code == action.FailedTool && o.Answer.Body != nil:
		return wire.Response{Result: resultBody(o)}
	case code == action.FailedUpstream && o.Answer.Problem != nil:
		return wire.Response{Error: o.Answer.Problem}
	case code == action.FailedTool, code == action.FailedUpstream:
		return wire.ToolError("%s answered with an error: %s%s", sourceName(inv), why, invocationSuffix(inv.ID))
	case code == action.FailedUnknown:
		return wire.ToolError("%s (%s)%s", unknownOutcome, callName(inv), invocationSuffix(inv.ID))
	case code == action.FailedStale:
		return wire.ToolError("%s was approved, but what would run now is not what was approved (%s). Nothing was executed. Call again to ask for a new approval.%s", callName(inv), why, invocationSuffix(inv.ID))
	case code == action.FailedReach && strings.HasPrefix(why, sourceName(inv)+" "): // it answered
		return wire.ToolError("%s%s", sentence(why), invocationSuffix(inv.ID))
	case code == action.FailedReach:
		return wire.ToolError("%s gave no answer: %s%s", sourceName(inv), sentence(why), invocationSuffix(inv.ID))
	}
	return wire.ToolError("%s failed inside the gateway before it could run; nothing was executed. Try again later.%s", callName(inv), invocationSuffix(inv.ID))
}

// expiredResult is the response for a result that is no longer stored in full.
func expiredResult(inv *action.Invocation) wire.Response {
	kept := inv.Result
	if kept == nil {
		kept = json.RawMessage("null")
	}
	said := callName(inv) + " completed. Its full result is no longer kept; the record holds: " + string(kept)
	b := []byte(`{"content":[{"type":"text","text":`)
	b = jsonlex.Quote(b, said)
	return wire.Response{Result: append(b, `}]}`...), Text: said}
}

func callName(inv *action.Invocation) string { return sourceName(inv) + " " + inv.Action }

func sourceName(inv *action.Invocation) string {
	if inv.SourceName != "" {
		return inv.SourceName
	}
	return inv.Source
}

func invocationSuffix(invocation string) string {
	if invocation == "" {
		return ""
	}
	return " (invocation " + invocation + ")"
}

// newCallText is the message of an error of a new call. It adds that nothing was
// executed if that is certain. Errors of an unreachable database prove nothing: the row
// may exist and the call may still run.
func newCallText(e *action.Error) string {
	text := sentence(e.Message)
	if e.Invocation == "" && e.Code != "database_unavailable" && !strings.Contains(strings.ToLower(text), "nothing was executed") {
		text += " Nothing was executed."
	}
	return text + retryHint(e)
}

// restartingStatusText answers questions about an existing call during a restart: it may
// have been executed.
const restartingStatusText = "The gateway is restarting and cannot say now where this call stands. Ask again in a few seconds."

// existingCallText is the message of an error about a recorded call.
func existingCallText(e *action.Error) string {
	if e.Code == "shutting_down" {
		return restartingStatusText
	}
	return sentence(e.Message) + retryHint(e)
}

// retryHint says when to retry, unless the message does.
func retryHint(e *action.Error) string {
	lower := strings.ToLower(e.Message)
	if e.RetryAfter <= 0 || strings.Contains(lower, "try again in") || strings.Contains(lower, "in a few seconds") {
		return ""
	}
	return fmt.Sprintf(" Try again in %d seconds.", int64((e.RetryAfter+time.Second-1)/time.Second))
}

// sentence returns s with a final period.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" || strings.ContainsAny(s[len(s)-1:], ".!?") {
		return s
	}
	return s + "."
}
