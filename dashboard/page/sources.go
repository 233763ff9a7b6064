package page

import (
	"cmp"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/dashboard/view"
)

// sourceChoice is a source of actions in a form.
type sourceChoice struct {
	Value string // unambiguous name for the API
	ID    string
	Name  string
	Live  bool // its actions are known
}

// sources returns the organization's connectors and the modules, those with
// actions first.
func (p *pageRequest) sources() []sourceChoice {
	live := map[string]bool{}
	for _, a := range load(p, p.Snapshot, plainSession(p.org)).Capabilities {
		live[a.Provider] = true
	}
	var list []sourceChoice
	for _, c := range p.loadConnectors() {
		list = append(list, sourceChoice{Value: c.Source(), ID: c.Source(), Name: cmp.Or(c.Slug, c.Name), Live: live[c.Source()]})
	}
	for _, m := range p.Providers {
		list = append(list, sourceChoice{Value: view.ModulePrefix + m.ID, ID: m.ID, Name: m.ID, Live: live[m.ID]})
	}
	slices.SortStableFunc(list, func(a, b sourceChoice) int {
		if a.Live != b.Live {
			return map[bool]int{true: -1, false: 1}[a.Live]
		}
		return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	return list
}

// plainSession is a session without special properties.
func plainSession(organization string) *action.Session {
	return &action.Session{Organization: organization, Kind: action.Interactive, Type: action.TypeCoding}
}

// sourceActions is the actions of a source with their modes.
type sourceActions struct {
	Source  string
	Actions []action.ActionAbility
}

// policyActions returns the actions of a source, for the script.
func (p *pageRequest) policyActions() error {
	d := sourceActions{Source: p.query("source")}
	if d.Source != "" && d.Source != "*" {
		id, _, err := p.Source(p.ctx(), p.org, d.Source)
		if err != nil {
			return err
		}
		d.Actions = p.actionsOf(id)
	}
	return p.showPart("policy", "actions", d)
}

// actionsOf returns the actions of a source for a plain session.
func (p *pageRequest) actionsOf(source string) []action.ActionAbility {
	for _, a := range load(p, p.Snapshot, plainSession(p.org)).Capabilities {
		if a.Provider == source {
			return a.Actions
		}
	}
	return nil
}
