package github

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"sallyport/sources"
)

// Properties shared by several actions.
const (
	ownerParam  = `"owner":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$","description":"The user or organization that the repository belongs to: octocat in octocat/hello."}`
	repoParam   = `"repo":{"type":"string","pattern":"^\\.?[A-Za-z0-9_-][A-Za-z0-9._-]{0,98}$","description":"The repository's name without its owner: hello in octocat/hello."}`
	issueParam  = `"number":{"type":"integer","minimum":1,"maximum":2147483647,"description":"The issue's number, as in its URL and after the #."}`
	pullParam   = `"number":{"type":"integer","minimum":1,"maximum":2147483647,"description":"The pull request's number, as in its URL and after the #."}`
	limitParam  = `"limit":{"type":"integer","minimum":1,"maximum":100,"default":30,"description":"How many at most, 30 unless told. With a cursor it stays what it was."}`
	cursorParam = `"cursor":{"type":"string","pattern":"^[A-Za-z0-9_-]{1,1000}$","description":"next_cursor of the answer before, to go on from there; with the same other params."}`
	bodyParam   = `{"type":"string","minLength":1,"maxLength":65536,"description":"The text, in GitHub's Markdown. It is visible to everybody who sees the repository; @name notifies people."}`
	titleParam  = `"title":{"type":"string","minLength":1,"maxLength":256,"description":"The title, one line."}`
)

// input returns the schema of params. The first required ones are mandatory.
func input(required int, properties ...string) json.RawMessage {
	names := make([]string, required)
	for i := range names {
		names[i] = properties[i][:strings.IndexByte(properties[i], ':')]
	}
	return json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s],"additionalProperties":false}`,
		strings.Join(properties, ","), strings.Join(names, ",")))
}

// repository identifies the repository of an action.
type repository struct {
	Owner string `json:"owner"`
	Repo  string `json:"repo"`
}

func (r repository) check(rules writeRules) error { return rules.checkRepository(r) }

func (r repository) String() string { return r.Owner + "/" + r.Repo }

// path returns path segments below the repository.
func (r repository) path(below ...string) []string {
	return append([]string{"repos", r.Owner, r.Repo}, below...)
}

// numberedParams identifies an issue or a pull request.
type numberedParams struct {
	repository
	Number sources.Integer `json:"number"`
}

func (n numberedParams) String() string { return fmt.Sprintf("%s#%d", n.repository, n.Number) }

// handler converts a typed function to an action's Run.
func handler[P any](do func(ctx context.Context, c *sources.Conn, p P) (any, error)) func(context.Context, *sources.Conn, json.RawMessage) (json.RawMessage, error) {
	return func(ctx context.Context, c *sources.Conn, params json.RawMessage) (json.RawMessage, error) {
		var p P
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, fmt.Errorf("github: params that the schema let through: %w", err)
		}
		result, err := do(ctx, c, p)
		if err != nil {
			return nil, err
		}
		return sources.Encode(result)
	}
}

// checkedParams are the params of a write.
type checkedParams interface {
	// check validates the params without a request to GitHub.
	check(rules writeRules) error
}

// guardedAction makes the action a write whose params are checked before
// approval and again at execution.
func guardedAction[P checkedParams](a sources.ModuleAction, do func(ctx context.Context, c *sources.Conn, p P) (any, error)) sources.ModuleAction {
	a.Guard = func(settings, params json.RawMessage) error {
		var p P
		if err := json.Unmarshal(params, &p); err != nil {
			return fmt.Errorf("github: params that the schema let through: %w", err)
		}
		rules, err := parseRules(settings)
		if err != nil {
			return err
		}
		return p.check(rules)
	}
	run := handler(do)
	a.Run = func(ctx context.Context, c *sources.Conn, params json.RawMessage) (json.RawMessage, error) {
		if err := a.Guard(c.Settings, params); err != nil {
			return nil, err
		}
		return run(ctx, c, params)
	}
	return a
}

// summary converts a typed function to an action's Summarize.
func summary[P any](say func(p P) string) func(json.RawMessage) string {
	return func(params json.RawMessage) string {
		var p P
		if json.Unmarshal(params, &p) != nil {
			return ""
		}
		return say(p)
	}
}
