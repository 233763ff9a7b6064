package github

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"sallyport/sources"
)

// Properties shared by several actions.
const (
	ownerParam  = `"owner":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$","description":"The owner of the repository, a user or organization: octocat in octocat/hello."}`
	repoParam   = `"repo":{"type":"string","pattern":"^\\.?[A-Za-z0-9_-][A-Za-z0-9._-]{0,98}$","description":"The repository's name without its owner: hello in octocat/hello."}`
	issueParam  = `"number":{"type":"integer","minimum":1,"maximum":2147483647,"description":"The issue's number, as in its URL and after the #."}`
	pullParam   = `"number":{"type":"integer","minimum":1,"maximum":2147483647,"description":"The pull request's number, as in its URL and after the #."}`
	limitParam  = `"limit":{"type":"integer","minimum":1,"maximum":100,"default":30,"description":"Maximum number. Default: 30, or that of the page before."}`
	cursorParam = `"cursor":{"type":"string","pattern":"^[A-Za-z0-9_-]{1,1000}$","description":"next_cursor of the previous result, for the next page; with the same other params."}`
	bodyParam   = `{"type":"string","minLength":1,"maxLength":65536,"description":"The text, in GitHub's Markdown. Everyone who can see the repository can read it; @name notifies people."}`
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

// check rejects a repository that agents cannot write to.
func (r repository) check(rules writeRules) error {
	if rules.Repositories == nil || r.isIn(rules.Repositories) {
		return nil
	}
	return guardrail("Agents may not write to %s: it is not among this integration's repositories; work in one that is, or have an admin add it.", r)
}

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
	return sources.Handler(func(ctx context.Context, c *sources.Conn, p P) (json.RawMessage, error) {
		result, err := do(ctx, c, p)
		if err != nil {
			return nil, err
		}
		return sources.Encode(result)
	})
}

// checkedParams are the params of a write.
type checkedParams interface {
	// check validates the params without a request to GitHub.
	check(rules writeRules) error
}

// productionParams are params that can change production.
type productionParams interface {
	// production says why checked params do; empty: they do not.
	production(rules writeRules) string
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
	if _, ok := any(*new(P)).(productionParams); ok {
		a.Production = func(settings, params json.RawMessage) string {
			var p P
			rules, err := parseRules(settings)
			if err != nil || json.Unmarshal(params, &p) != nil {
				return "" // see Guard
			}
			return any(p).(productionParams).production(rules) //nolint:forcetypeassert // checked above
		}
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

// settingsSchema is the schema of an integration's rules.
const settingsSchema = `{
	"type": "object",
	"properties": {
		"repositories": {"type": "array", "maxItems": 1000, "items": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,99}/(\\*|[A-Za-z0-9._-]{1,100})$"},
			"description": "Repositories that agents can write to: owner/repo, or owner/* for all of an owner. Default: all that the credential can write to. Empty: none."},
		"pr_bases": {"type": "array", "maxItems": 100, "items": {"type": "string", "minLength": 1, "maxLength": 240, "pattern": "^[^\\s~^:?\\[\\\\]+$"},
			"description": "The only branches into which a pull request can be opened or merged. * matches any characters; spaces and ~ ^ : ? [ \\ are not allowed. Default: all except denied_pr_bases."},
		"denied_pr_bases": {"type": "array", "maxItems": 100, "items": {"type": "string", "minLength": 1, "maxLength": 240, "pattern": "^[^\\s~^:?\\[\\\\]+$"},
			"description": "Branches into which no pull request can be opened or merged. Case is ignored, and * matches any characters; spaces and ~ ^ : ? [ \\ are not allowed. Default: none."},
		"production_pr_bases": {"type": "array", "maxItems": 100, "items": {"type": "string", "minLength": 1, "maxLength": 240, "pattern": "^[^\\s~^:?\\[\\\\]+$"},
			"description": "Production branches: only sessions of a group with level 3 can open or merge a pull request into them, behind its gate. Case is ignored, and * matches any characters. Default: production, prod, live and release/*, unless pr_bases or denied_pr_bases is set. Empty: none."},
		"push_branches": {"type": "array", "maxItems": 100, "items": {"type": "string", "minLength": 1, "maxLength": 240, "pattern": "^[^\\s~^:?\\[\\\\]+$"},
			"description": "The only branches that agents may push to with git, such as agent/*, in whatever case. Left out: all but denied_push_branches and denied_pr_bases."},
		"denied_push_branches": {"type": "array", "maxItems": 100, "items": {"type": "string", "minLength": 1, "maxLength": 240, "pattern": "^[^\\s~^:?\\[\\\\]+$"},
			"description": "Branches that agents may not push to with git, in whatever case. Left out: none."}
	},
	"additionalProperties": false
}`

// writeRules are the rules in an integration's settings. Absent lists are nil.
type writeRules struct {
	Repositories []string `json:"repositories"`
	Bases        []string `json:"pr_bases"`
	DeniedBases  []string `json:"denied_pr_bases"`
	Production   []string `json:"production_pr_bases"`
	Pushes       []string `json:"push_branches"`
	DeniedPushes []string `json:"denied_push_branches"`
}

// parseRules rejects settings with unknown fields, so that no rule is silently
// ignored.
func parseRules(settings json.RawMessage) (writeRules, error) {
	var r writeRules
	if len(settings) == 0 {
		settings = json.RawMessage("{}")
	}
	d := json.NewDecoder(bytes.NewReader(settings))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return writeRules{}, guardrail("The settings of this GitHub integration cannot be read, so nothing is written with it; have an admin set them again.")
	}
	if r.Bases == nil && r.DeniedBases == nil && r.Production == nil {
		r.Production = []string{"production", "prod", "live", "release/*"}
	}
	return r, nil
}

// guardrail returns a refusal by the gateway, before any request.
func guardrail(format string, args ...any) error {
	return &sources.Refusal{Code: "guardrail", Message: fmt.Sprintf(format, args...)}
}

// isIn reports whether a list has the repository, as owner/repo or owner/*.
func (r repository) isIn(list []string) bool {
	return slices.ContainsFunc(list, func(one string) bool {
		owner, name, _ := strings.Cut(one, "/")
		return strings.EqualFold(owner, r.Owner) && (name == "*" || strings.EqualFold(name, r.Repo))
	})
}

// checkBase returns the short name of a branch that pull requests can target.
func (r writeRules) checkBase(name string) (string, error) {
	short, err := branchName("base", name)
	if err != nil {
		return "", err
	}
	denied := matchesAny(r.DeniedBases, short)
	allowed := r.Bases == nil || slices.ContainsFunc(r.Bases, func(p string) bool { return matchesPattern(p, short) })
	if denied || !allowed {
		return "", guardrail("No pull request may be opened or merged into %q here; choose another /base, or have an admin change this integration's pr_bases or denied_pr_bases.", short)
	}
	return short, nil
}

// productionBase says why pull requests into a branch change production; empty:
// they do not.
func (r writeRules) productionBase(name string) string {
	short := strings.TrimPrefix(name, "refs/heads/")
	if !matchesAny(r.Production, short) {
		return ""
	}
	return strconv.Quote(short) + " is a production branch"
}

// matchesAny reports whether one of the patterns matches the branch in whatever
// case.
func matchesAny(patterns []string, branch string) bool {
	lower := strings.ToLower(branch)
	return slices.ContainsFunc(patterns, func(p string) bool { return matchesPattern(strings.ToLower(p), lower) })
}

// matchesPattern reports whether the pattern matches the whole text. A *
// matches any characters, including slashes.
func matchesPattern(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	rest, ok := strings.CutPrefix(text, parts[0])
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(rest, part)
		if !ok || at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return ok && strings.HasSuffix(rest, parts[len(parts)-1])
}

// branchName returns the short name of a valid branch, or a [*sources.Refusal]
// that names the param. A valid name cannot refer to another kind of ref.
func branchName(param, name string) (string, error) {
	short := strings.TrimPrefix(name, "refs/heads/")
	if why := invalidReason(short); why != "" {
		return "", &sources.Refusal{Code: "invalid_branch", Message: "The param /" + param + " is not a valid branch name: " + why + "."}
	}
	return short, nil
}

// invalidReason returns why a name is not valid, or "".
func invalidReason(name string) string {
	first, _, _ := strings.Cut(name, "/")
	switch {
	case name == "":
		return "it is empty"
	case len(name) > 240:
		return "it is longer than 240 bytes"
	case !utf8.ValidString(name) || strings.ContainsFunc(name, isInvisible):
		return "it contains an invisible character or a space"
	case strings.ContainsAny(name, `~^:?*[\`), strings.Contains(name, ".."), strings.Contains(name, "@{"):
		return `~ ^ : ? * [ \ and .. and @{ are not allowed in it`
	case strings.HasPrefix(name, "-"), strings.HasSuffix(name, "."), name == "@", name == "HEAD":
		return "it may not begin with -, end with a dot, or be @ or HEAD"
	case strings.EqualFold(first, "refs"), strings.EqualFold(first, "heads"):
		return "give it without refs/ or heads/"
	case len(name) == 40 && strings.Trim(strings.ToLower(name), "0123456789abcdef") == "":
		return "it looks like the id of a commit"
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(strings.ToLower(part), ".lock") {
			return "none of its parts between slashes may be empty, begin with a dot or end with .lock"
		}
	}
	return ""
}

// isInvisible reports whether an approver could overlook the character.
func isInvisible(r rune) bool {
	return !unicode.IsGraphic(r) || unicode.IsSpace(r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || unicode.Is(unicode.Variation_Selector, r)
}
