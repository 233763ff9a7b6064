package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"sallyport/action"
)

// exact is a result that no typed client could pass on unharmed.
const exact = `{"content" : [{"type":"hologram","depth":3}],
  "structuredContent":{"big":12345678901234567890,"z":1.10,"a":9007199254740993},
  "_meta":{"n":9007199254740993},"vendor":null}`

// world is what the transcripts call: one action for each way in which a call
// can go.
func world() []*served {
	act := func(tool string) action.Action { return action.Action{Tool: tool} }
	failing := func(code, message string, answer action.Answer) func(context.Context, json.RawMessage, func(string)) action.Outcome {
		return func(context.Context, json.RawMessage, func(string)) action.Outcome {
			return action.Outcome{
				Answer:     answer,
				Invocation: action.Invocation{Status: action.StatusFailed, Error: &action.Failure{Code: code, Message: message}},
			}
		}
	}
	typed := act("typed_write")
	typed.OutputSchema = json.RawMessage(`{"type":"object"}`)
	regional := act("regional")
	regional.InputSchema = json.RawMessage(`{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"Count"}}}}}`)
	invalid := &action.Error{Kind: action.ErrInvalid, Code: "invalid_params", Field: "/title", Message: action.ParamsMismatch + "title must be a string."}
	tooMany := &action.Error{Kind: action.ErrTooMany, Code: "rate_limited", Message: "This session made too many calls.", RetryAfter: 1500 * time.Millisecond}
	quota := &action.Error{
		Kind: action.ErrTooMany, Code: "quota_reached", RetryAfter: 90 * time.Second,
		Message: "The quota of group developer at Demo is used up (30 calls in an hour); try again in 1m30s.",
	}
	return []*served{
		{Action: act("read"), run: func(_ context.Context, params json.RawMessage, _ func(string)) action.Outcome {
			return answer(exact)
		}},
		{Action: act("echo"), run: func(_ context.Context, params json.RawMessage, _ func(string)) action.Outcome {
			return answer(`{"content":[],"structuredContent":` + string(params) + `}`)
		}},
		{Action: act("write"), mode: action.ModeRequireApproval, run: func(_ context.Context, _ json.RawMessage, progress func(string)) action.Outcome {
			time.Sleep(time.Second)
			progress(`{"progress":0,"total":2,"vendor":1.10}`)
			time.Sleep(time.Second)
			progress(`{"progress":1.5,"total":2,"message":"half"}`)
			time.Sleep(time.Second)
			return answer(`{"content":[{"type":"text","text":"written"}]}`)
		}},
		{Action: typed, mode: action.ModeRequireApproval},
		{Action: act("delete"), mode: action.ModeDeny, hidden: true},
		{
			Action: act("merge"), mode: action.ModeDeny, hidden: true, layer: action.LayerCeiling,
			note: "The group developer has level 1 (read) at Demo, merge needs level 3.",
		},
		{
			Action: act("changed"), mode: action.ModeDeny, hidden: true, layer: action.LayerDrift,
			note: "The tool is not the one that was reviewed, and its connector requires a review before any call",
		},
		{Action: act("slow"), run: func(_ context.Context, _ json.RawMessage, progress func(string)) action.Outcome {
			time.Sleep(10 * time.Second)
			progress(`{"progress":12345678901234567890,"vendor":1.10}`)
			time.Sleep(25 * time.Second)
			return answer("{\"content\":[],\n  \"big\":12345678901234567890\r\n}")
		}},
		{Action: act("tool_error"), run: failing(action.FailedTool, "no", action.Answer{Body: json.RawMessage(`{"content":[{"type":"text","text":"no"}],"isError":true}`), IsError: true})},
		{Action: act("upstream_error"), run: failing(action.FailedUpstream, "no", action.Answer{Problem: json.RawMessage(`{"code":-32602,"message":"bad","data":{"big":12345678901234567890}}`)})},
		{Action: act("lost"), run: failing(action.FailedUnknown, "timeout", action.Answer{})},
		{Action: act("stale"), run: failing(action.FailedStale, "the tool changed", action.Answer{})},
		{Action: act("unreached"), run: failing(action.FailedReach, "connection refused", action.Answer{})},
		{Action: act("broken"), run: failing(action.FailedInternal, "a secret detail", action.Answer{})},
		{Action: act("invalid"), err: invalid},
		{Action: act("too_many"), err: tooMany},
		{Action: act("quota"), err: quota},
		{Action: act("conflict"), err: action.Errorf(action.ErrConflict, "idempotency_key_reused", "This idempotency key was used with other params.")},
		{Action: act("unavailable"), err: action.Errorf(action.ErrUnavailable, "unavailable", "Demo has no tools yet.")},
		{Action: act("panic_text"), err: errors.New("dial tcp 10.0.0.7: secret-detail")},
		{Action: regional},
		{Action: act("other_read")},
	}
}

func answer(body string) action.Outcome {
	return action.Outcome{Answer: action.Answer{Body: json.RawMessage(body)}}
}
