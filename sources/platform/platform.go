package platform

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"sallyport/action"
	"sallyport/internal/redact"
	"sallyport/sources"
)

// The tools.
const (
	CompleteTool = "automation_complete"
	CommandsTool = "save_service_commands"
	FilesTool    = "save_env_files"
)

// Rows keep what the tools do, each with its answer in one transaction.
type Rows interface {
	// ToolAnswered returns what a call was answered before; see
	// [action.PlatformTool.Replay]. The subject is what the tool does once in a session.
	ToolAnswered(ctx context.Context, c action.ToolCall, subject string) (*action.ToolReply, error)
	// SaveServiceCommands and SaveEnvFiles keep how workspaces are brought up.
	SaveServiceCommands(ctx context.Context, c action.ToolCall, commands json.RawMessage) (action.ToolReply, error)
	SaveEnvFiles(ctx context.Context, c action.ToolCall, files json.RawMessage) (action.ToolReply, error)
	// CompleteRun ends a run. The second answer is nil where nothing ended by this
	// call.
	CompleteRun(ctx context.Context, c action.ToolCall, e action.Completion) (action.ToolReply, *action.CompletionResult, error)
	// Verify seals an upload, and says where it is. Without one it answers with
	// the given text.
	Verify(ctx context.Context, c action.ToolCall, upload, folder, otherwise string) (action.ToolReply, error)
	// RequestVariables writes down what a session wants to know, and answers with
	// what answer makes of it; made tells that a person was not asked before.
	RequestVariables(ctx context.Context, c action.ToolCall, keys []action.EnvKey, answer func(action.EnvRequest) (action.ToolReply, error)) (reply action.ToolReply, made bool, err error)
}

// Config is what the tools work with. All but Quotas and Stays is required.
type Config struct {
	Rows Rows
	JSON *redact.JSON                  // to redact
	Hash func(canonical []byte) string // keyed, of params
	// Completed is told of a run that ended, and whose session does nothing more.
	Completed func(organization, session string, c *action.CompletionResult)
	// Asked is told of a session that asks people for environment variables.
	Asked func(organization, session string)
	// PublicURL is where people reach the page.
	PublicURL string
	// Quotas of a session's calls, by tool. Without one it is ten an hour.
	Quotas map[string]action.Rate
	// Stays is how long a session that completed its run is answered the same
	// again. Zero: 15 minutes.
	Stays time.Duration
}

// Source returns the gateway's own source.
func Source(c Config) (*sources.Platform, error) {
	if c.Rows == nil || c.JSON == nil || c.Hash == nil || c.Completed == nil || c.Asked == nil || c.PublicURL == "" {
		return nil, errors.New("platform.Config: Rows, JSON, Hash, Completed, Asked and PublicURL are required")
	}
	if c.Stays == 0 {
		c.Stays = 15 * time.Minute
	}
	p := &platform{c}
	return &sources.Platform{Title: "Sallyport", Actions: []sources.PlatformAction{p.complete(), p.saveCommands(), p.saveFiles(), p.verify(), p.variables()}}, nil
}

type platform struct{ Config }

// hourly is the quota of a tool that has no other, and verifies that of verify.
const (
	hourly   = 10
	verifies = 20
)

// call is the call as the rows know it.
func (p *platform) call(c action.ToolCall, params json.RawMessage) action.ToolCall {
	c.ParamsHash, c.Quota = p.Hash(params), action.Rate{Calls: hourly, Seconds: 3600}
	if c.Tool == VerifyTool {
		c.Quota.Calls = verifies
	}
	if q, ok := p.Quotas[c.Tool]; ok {
		c.Quota = q
	}
	return c
}

// answered remembers the answers of a tool whose calls are told apart by their
// ids alone.
func (p *platform) answered(ctx context.Context, c action.ToolCall, params json.RawMessage) (*action.ToolReply, error) {
	return p.Rows.ToolAnswered(ctx, p.call(c, params), "")
}

// saved runs a tool that keeps one member of its params.
func (p *platform) saved(member string, save func(context.Context, action.ToolCall, json.RawMessage) (action.ToolReply, error)) func(context.Context, action.ToolCall, json.RawMessage) (action.ToolReply, error) {
	return func(ctx context.Context, c action.ToolCall, params json.RawMessage) (action.ToolReply, error) {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(params, &members); err != nil {
			return action.ToolReply{}, err
		}
		return save(ctx, p.call(c, params), members[member])
	}
}

func invalid(field, format string, args ...any) error {
	e := action.Errorf(action.ErrInvalid, "invalid_params", format, args...)
	e.Field = field
	return e
}
