// Package platform implements the gateway's own tools, by which agents report
// to it: completing a run, and saving how a workspace is set up.
//
// Each call is an invocation like any other: it has a row, a policy key such as
// platform:automation_complete, events, and an entry in the audit log. In
// addition, each reply is stored under the ID that the agent gave its call
// (session_tool_invocations), in the transaction of the call's effect. Calls
// are therefore idempotent: a repeated call gets the stored reply. Calls are
// limited per session and tool by the hour.
//
// The tools make no outbound requests. They store no secrets: what looks like
// one is rejected where the value would be used later, and redacted where
// people read it.
package platform

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sallyport/action"
	"sallyport/internal/redact"
	"sallyport/sources"
)

// Names of tools.
const (
	CompleteTool = "automation_complete"
	CommandsTool = "save_service_commands"
	FilesTool    = "save_env_files"
)

// Rows stores the effects of tools, each with its reply in one transaction.
type Rows interface {
	// ToolAnswered returns the stored reply of a call; see
	// [action.PlatformTool.Replay]. The subject identifies an effect that
	// happens once per session.
	ToolAnswered(ctx context.Context, c action.ToolCall, subject string) (*action.ToolReply, error)
	// SaveServiceCommands and SaveEnvFiles store how workspaces are set up.
	SaveServiceCommands(ctx context.Context, c action.ToolCall, commands json.RawMessage) (action.ToolReply, error)
	SaveEnvFiles(ctx context.Context, c action.ToolCall, files json.RawMessage) (action.ToolReply, error)
	// CompleteRun ends a run. The result is nil if this call did not end it.
	CompleteRun(ctx context.Context, c action.ToolCall, e action.Completion) (action.ToolReply, *action.CompletionResult, error)
	// Verify seals an upload and returns its location. Without an upload it
	// replies with the given text.
	Verify(ctx context.Context, c action.ToolCall, upload, folder, otherwise string) (action.ToolReply, error)
	// RequestVariables stores a request for environment variables and replies
	// with what answer returns. made is false if the request exists already.
	RequestVariables(ctx context.Context, c action.ToolCall, keys []action.EnvKey, answer func(action.EnvRequest) (action.ToolReply, error)) (reply action.ToolReply, made bool, err error)
}

// Config configures the tools. All fields except Quotas and ReplayFor are
// required.
type Config struct {
	Rows Rows
	JSON *redact.JSON                  // redacts params and text
	Hash func(canonical []byte) string // keyed hash of params
	// Completed is called after a run ends and its session is closed.
	Completed func(organization, session string, c *action.CompletionResult)
	// Asked is called after a session requests environment variables.
	Asked func(organization, session string)
	// PublicURL is the base URL of the dashboard.
	PublicURL string
	// Quotas limits calls per session, by tool. The default is ten per hour.
	Quotas map[string]action.Rate
	// ReplayFor is how long a session that completed its run gets stored
	// replies. The default is 15 minutes.
	ReplayFor time.Duration
}

// Source returns the source of the gateway's own tools.
func Source(c Config) (*sources.Platform, error) {
	if c.Rows == nil || c.JSON == nil || c.Hash == nil || c.Completed == nil || c.Asked == nil || c.PublicURL == "" {
		return nil, errors.New("platform.Config: Rows, JSON, Hash, Completed, Asked and PublicURL are required")
	}
	if c.ReplayFor == 0 {
		c.ReplayFor = 15 * time.Minute
	}
	p := &platform{c}
	return &sources.Platform{Title: "Sallyport", Actions: []sources.PlatformAction{p.complete(), p.saveCommands(), p.saveFiles(), p.verify(), p.variables()}}, nil
}

type platform struct{ Config }

// Default quotas per session: of verify, and of every other tool.
const (
	callsPerHour       = 10
	verifyCallsPerHour = 20
)

// withQuota adds the hash of the params and the quota to a call.
func (p *platform) withQuota(c action.ToolCall, params json.RawMessage) action.ToolCall {
	c.ParamsHash, c.Quota = p.Hash(params), action.Rate{Calls: callsPerHour, Seconds: 3600}
	if c.Tool == VerifyTool {
		c.Quota.Calls = verifyCallsPerHour
	}
	if q, ok := p.Quotas[c.Tool]; ok {
		c.Quota = q
	}
	return c
}

// replay returns the stored reply of a call, by its ID.
func (p *platform) replay(ctx context.Context, c action.ToolCall, params json.RawMessage) (*action.ToolReply, error) {
	return p.Rows.ToolAnswered(ctx, p.withQuota(c, params), "")
}

// readMember decodes one member of the params.
func readMember[T any](params json.RawMessage, name string) (v T, err error) {
	var members map[string]json.RawMessage
	if err = json.Unmarshal(params, &members); err == nil {
		err = json.Unmarshal(members[name], &v)
	}
	return v, err
}

// saveMember returns a handler that saves one member of the params.
func (p *platform) saveMember(member string, save func(context.Context, action.ToolCall, json.RawMessage) (action.ToolReply, error)) func(context.Context, action.ToolCall, json.RawMessage) (action.ToolReply, error) {
	return func(ctx context.Context, c action.ToolCall, params json.RawMessage) (action.ToolReply, error) {
		raw, err := readMember[json.RawMessage](params, member)
		if err != nil {
			return action.ToolReply{}, err
		}
		return save(ctx, p.withQuota(c, params), raw)
	}
}

func invalidParam(field, format string, args ...any) error {
	e := action.Errorf(action.ErrInvalid, "invalid_params", format, args...)
	e.Field = field
	return e
}

// checkPath rejects paths that could leave the workspace on any system.
func checkPath(field, path string) error {
	switch {
	case strings.HasPrefix(path, "/"):
		return invalidParam(field, "A path is relative to the workspace: leave the leading / out.")
	case strings.HasPrefix(path, "~"):
		return invalidParam(field, "A path is relative to the workspace: it cannot begin with ~.")
	case strings.Contains(path, `\`):
		return invalidParam(field, `A path has / between its parts, and no \.`)
	case len(path) > 1 && path[1] == ':':
		return invalidParam(field, "A path is relative to the workspace: leave the drive out.")
	case slices.Contains(strings.Split(path, "/"), ".."):
		return invalidParam(field, "A path stays in the workspace: it has no part that is ..")
	}
	return checkText(field, path, false)
}

func checkOptionalPath(field string, path *string) error {
	if path == nil || *path == "" {
		return nil
	}
	return checkPath(field, *path)
}

// checkText rejects text that a person would not see as it is.
func checkText(field, text string, lines bool) error {
	invisible := func(r rune) bool {
		return (unicode.IsControl(r) && (!lines || r != '\n' && r != '\t')) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
	}
	switch {
	case !utf8.ValidString(text) || strings.ContainsFunc(text, invisible):
		return invalidParam(field, "It contains invisible characters, such as control characters. Remove them.")
	case strings.TrimSpace(text) == "":
		return invalidParam(field, "It is blank. Enter a text.")
	}
	return nil
}
