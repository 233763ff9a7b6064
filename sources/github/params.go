package github

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"sallyport/sources"
)

// Properties that several actions have.
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

// input returns the schema of params of which the first so many are required.
func input(required int, properties ...string) json.RawMessage {
	names := make([]string, required)
	for i := range names {
		names[i] = properties[i][:strings.IndexByte(properties[i], ':')]
	}
	return json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s],"additionalProperties":false}`,
		strings.Join(properties, ","), strings.Join(names, ",")))
}

// repository is what most actions are about.
type repository struct {
	Owner string `json:"owner"`
	Repo  string `json:"repo"`
}

func (r repository) at() repository { return r }

func (r repository) String() string { return r.Owner + "/" + r.Repo }

// path returns the segments of a path below the repository.
func (r repository) path(below ...string) []string {
	return append([]string{"repos", r.Owner, r.Repo}, below...)
}

// numbered is an issue or a pull request.
type numbered struct {
	repository
	Number integer `json:"number"`
}

func (n numbered) String() string { return fmt.Sprintf("%s#%d", n.repository, n.Number) }

// integer is a number without fraction, however it is written: 12 and 1.2e1 are
// the same to a JSON Schema.
type integer int64

func (n *integer) UnmarshalJSON(raw []byte) error {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return fmt.Errorf("%.40s is no whole number", raw)
	}
	*n = integer(f)
	return nil
}

func (n integer) String() string { return strconv.FormatInt(int64(n), 10) }

// read makes an action's Run of a function that only reads.
func read[P any](do func(ctx context.Context, c *sources.Conn, p P) (any, error)) func(context.Context, *sources.Conn, json.RawMessage) (json.RawMessage, error) {
	return func(ctx context.Context, c *sources.Conn, params json.RawMessage) (json.RawMessage, error) {
		var p P
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, fmt.Errorf("github: params that the schema let through: %w", err)
		}
		result, err := do(ctx, c, p)
		if err != nil {
			return nil, err
		}
		return encode(result)
	}
}

// encode leaves < and & as they are: diffs are full of them, and no browser
// reads this.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// write makes an action's Run of a function that changes something, if the
// integration's rules let it.
func write[P interface{ at() repository }](do func(ctx context.Context, c *sources.Conn, rules rules, p P) (any, error)) func(context.Context, *sources.Conn, json.RawMessage) (json.RawMessage, error) {
	return read(func(ctx context.Context, c *sources.Conn, p P) (any, error) {
		rules, err := readRules(c.Settings)
		if err == nil {
			err = rules.repository(p.at())
		}
		if err != nil {
			return nil, err
		}
		return do(ctx, c, rules, p)
	})
}

// summary makes an action's Summarize.
func summary[P any](say func(p P) string) func(json.RawMessage) string {
	return func(params json.RawMessage) string {
		var p P
		if json.Unmarshal(params, &p) != nil {
			return ""
		}
		return say(p)
	}
}
