package sources

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"sallyport/action"
)

// presence is a module as one organization sees it. Two that are equal make the
// same actions.
type presence struct {
	*service
	called   string
	since    time.Time // of the first integration that is left
	revision string
	timeout  time.Duration // zero: the Gate's
}

// never is when an organization connects to what it has no integration of: its
// tools are named after all others.
func never() time.Time { return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }

// maxAccountName is how much of an account's name shows in its module's, in
// characters.
const maxAccountName = 60

// present says how the modules show in an organization with these integrations.
func (t *tenant) present(all []action.Integration) []presence {
	list := make([]presence, 0, len(t.services))
	for _, s := range t.services {
		var mine []action.Integration
		for _, in := range all {
			if in.Provider == s.ID && in.Status != action.IntegrationDeleted {
				mine = append(mine, in)
			}
		}
		list = append(list, presence{
			service: s, called: s.called(mine), since: since(mine), revision: revision(mine), timeout: t.longest(mine),
		})
	}
	return list
}

// called names the account where there is just one that everybody sees: what is
// private must not show in what all are told.
func (s *service) called(mine []action.Integration) string {
	seen := slices.DeleteFunc(slices.Clone(mine), func(in action.Integration) bool { return in.Owner() != "" })
	if len(seen) != 1 || seen[0].AccountName == "" {
		return s.Title
	}
	return s.Title + " (" + Printable(seen[0].AccountName, maxAccountName) + ")"
}

func since(mine []action.Integration) time.Time {
	first := never()
	for _, in := range mine {
		if in.CreatedAt.Before(first) {
			first = in.CreatedAt
		}
	}
	return first.UTC().Round(0)
}

// revision is another one when an integration of the organization was added,
// removed, changed in what a call would do, died or lives again: for all of that
// a call may go elsewhere, and what was approved before is not run after. What is
// one person's own counts where a call is for it, by the call's binding.
func revision(mine []action.Integration) string {
	lines := make([]string, 0, len(mine))
	for _, in := range mine {
		if in.Owner() != "" {
			continue
		}
		lines = append(lines, fmt.Sprintf("%q %d %t", in.ID, in.Revision, in.Status == action.IntegrationActive))
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:16])
}

// longest is the time of the call that may take longest: which integration a
// call is for is known only when it runs.
func (t *tenant) longest(mine []action.Integration) (longest time.Duration) {
	named := false
	for _, in := range mine {
		named = named || in.TimeoutSeconds > 0
		longest = max(longest, t.given(in))
	}
	if !named {
		return 0
	}
	return longest
}

// given is the time that one call for an integration has.
func (c *Catalog) given(in action.Integration) time.Duration {
	if in.TimeoutSeconds <= 0 {
		return c.Call
	}
	return min(time.Duration(in.TimeoutSeconds)*time.Second, action.MaxTimeout)
}

// action implements [maker].
func (p presence) action(t *tool, name string) *action.Action {
	act := p.actions[t.name]
	return &action.Action{
		Source:        p.ID,
		SourceName:    p.called,
		Name:          t.name,
		Tool:          name,
		Title:         t.title,
		Description:   t.description,
		Risk:          act.Risk,
		InputSchema:   t.input,
		Hash:          t.hashes.Behaviour,
		Revision:      p.revision,
		Timeout:       p.timeout,
		Provider:      p.ID,
		OneConnection: p.Choose == nil,
		About:         p.about,
		Examples:      act.examples(),
		Summarize:     act.Summarize,
		Check:         t.checker.Check,
		Bind:          p.binder(act),
		Run:           p.run(act),
	}
}
