package github

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sallyport/sources"
)

// settingsSchema is the schema of an integration's rules.
const settingsSchema = `{
	"type": "object",
	"properties": {
		"repositories": {"type": "array", "maxItems": 1000, "items": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,99}/(\\*|[A-Za-z0-9._-]{1,100})$"},
			"description": "Where agents may write: owner/repo, or owner/* for all of an owner. Left out: wherever the credential may. Empty: nowhere."},
		"pr_bases": {"type": "array", "maxItems": 100, "items": {"type": "string", "minLength": 1, "maxLength": 240, "pattern": "^[^\\s~^:?\\[\\\\]+$"},
			"description": "The only branches that a pull request may be opened or merged into; * stands for any characters, and spaces and ~ ^ : ? [ \\ are in no name of a branch. Left out: all but denied_pr_bases."},
		"denied_pr_bases": {"type": "array", "maxItems": 100, "items": {"type": "string", "minLength": 1, "maxLength": 240, "pattern": "^[^\\s~^:?\\[\\\\]+$"},
			"description": "Branches that no pull request may be opened or merged into, in whatever case; * stands for any characters, and spaces and ~ ^ : ? [ \\ are in no name of a branch. Left out: production, prod, live and release/*, unless pr_bases is given."}
	},
	"additionalProperties": false
}`

// writeRules are the rules in an integration's settings. Absent lists are nil.
type writeRules struct {
	Repositories []string `json:"repositories"`
	Bases        []string `json:"pr_bases"`
	DeniedBases  []string `json:"denied_pr_bases"`
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
	if r.Bases == nil && r.DeniedBases == nil {
		r.DeniedBases = []string{"production", "prod", "live", "release/*"}
	}
	return r, nil
}

// guardrail returns a refusal by the gateway, before any request.
func guardrail(format string, args ...any) error {
	return &sources.Refusal{Code: "guardrail", Message: fmt.Sprintf(format, args...)}
}

// checkRepository rejects a repository that agents cannot write to.
func (r writeRules) checkRepository(at repository) error {
	if r.Repositories == nil || at.isIn(r.Repositories) {
		return nil
	}
	return guardrail("Agents may not write to %s: it is not among this integration's repositories; work in one that is, or have an admin add it.", at)
}

// isIn reports whether a list has the repository, as owner/repo or owner/*.
func (r repository) isIn(list []string) bool {
	return slices.ContainsFunc(list, func(one string) bool {
		owner, name, _ := strings.Cut(one, "/")
		return strings.EqualFold(owner, r.Owner) && (name == "*" || strings.EqualFold(name, r.Repo))
	})
}

// checkNewBranch returns the short name of a branch that can be created.
func (r writeRules) checkNewBranch(name string) (string, error) {
	short, err := branchName("branch", name)
	if err != nil {
		return "", err
	}
	if strings.EqualFold(short, "main") || strings.EqualFold(short, "master") {
		return "", guardrail("No branch called main or master is created here; give /branch another name.")
	}
	return short, nil
}

// checkBase returns the short name of a branch that pull requests can target.
func (r writeRules) checkBase(name string) (string, error) {
	short, err := branchName("base", name)
	if err != nil {
		return "", err
	}
	lower := strings.ToLower(short)
	denied := slices.ContainsFunc(r.DeniedBases, func(p string) bool { return matchesPattern(strings.ToLower(p), lower) })
	allowed := r.Bases == nil || slices.ContainsFunc(r.Bases, func(p string) bool { return matchesPattern(p, short) })
	if denied || !allowed {
		return "", guardrail("No pull request may be opened or merged into %q here; choose another /base, or have an admin change this integration's pr_bases or denied_pr_bases.", short)
	}
	return short, nil
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
