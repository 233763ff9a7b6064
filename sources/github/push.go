package github

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"sallyport/sources"
)

// Push is a change of branches of a repository by Git's own protocol.
type Push struct {
	Owner, Repo string
	Branches    []string // without refs/heads/
}

// Check returns an error if the settings of an integration forbid the push, and
// otherwise why it changes production; empty: it does not.
func (p *Push) Check(settings []byte) (production string, err error) {
	rules, err := parseRules(settings)
	if err == nil {
		err = repository{p.Owner, p.Repo}.check(rules)
	}
	if err != nil {
		return "", errors.New(refusalText(err))
	}
	for _, branch := range p.Branches {
		if matchesAny(rules.DeniedBases, branch) || matchesAny(rules.DeniedPushes, branch) {
			return "", errors.New("Agents may not push to " + strconv.Quote(branch) + " here; push to another branch, or have an admin change this integration's denied_push_branches or denied_pr_bases.")
		}
		if rules.Pushes != nil && !matchesAny(rules.Pushes, branch) {
			return "", errors.New("Agents may not push to " + strconv.Quote(branch) + " here, only to " + strings.Join(rules.Pushes, ", ") + "; push to one of these, or have an admin change this integration's push_branches.")
		}
		if why := rules.productionBase(branch); why != "" {
			production = why
		}
	}
	return production, nil
}

// refusalText returns the text of a refusal for agents.
func refusalText(err error) string {
	if no := (*sources.Refusal)(nil); errors.As(err, &no) {
		return no.Message
	}
	return err.Error()
}

// maxProtectedChecks bounds the requests for one push; a push of more branches counts
// as one to a protected branch.
const maxProtectedChecks = 5

// ProtectedBranch returns a branch of the push that GitHub protects; empty: none.
func (p *Push) ProtectedBranch(ctx context.Context, c *sources.Conn) (string, error) {
	if len(p.Branches) > maxProtectedChecks {
		return "one of more than " + strconv.Itoa(maxProtectedChecks) + " branches", nil
	}
	for _, name := range p.Branches {
		var branch struct {
			Protected bool `json:"protected"`
		}
		r := repository{p.Owner, p.Repo}
		_, err := request{path: r.path("branches", name), about: r.about()}.send(ctx, c, &branch)
		var no *sources.Refusal
		switch {
		case errors.As(err, &no) && no.Status == http.StatusNotFound: // a new branch
		case err != nil:
			return "", err
		case branch.Protected:
			return "branch " + strconv.Quote(name), nil
		}
	}
	return "", nil
}
