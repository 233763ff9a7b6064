package page

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
	"sallyport/dashboard/view"
)

// explainPanel explains how a call would be decided. The question is in the
// URL, so that it can be shared.
type explainPanel struct {
	api.Asked
	Source, Name string // source and name of the key, as requested
	Sessions     []sessionChoice
	Problem      *dashboard.Problem
	Answer       *api.Explanation
	Share        tally // for a pattern, instead of an answer
}

// sessionChoice is a session in a form.
type sessionChoice struct {
	ID, Text string
	On       bool
}

// tally counts the modes of the actions that match a pattern.
type tally struct {
	Of                 int
	Allow, Hold, Deny  int
	Everything, Listed bool
}

// maxSessionChoices bounds the sessions in a form, newest first.
const maxSessionChoices = 50

func (p *pageRequest) explainPanel() explainPanel {
	d := explainQuery(p.r.URL.Query())
	d.Sessions = p.sessionChoices("", d.Session)
	p.answer(&d)
	return d
}

// sessionChoices returns recent sessions by purpose, and the selected one even
// if it is older.
func (p *pageRequest) sessionChoices(state, chosen string) []sessionChoice {
	var out []sessionChoice
	page := load2(p, p.ListSessions, p.me, &api.ListSessionsInput{State: state, Paging: api.Paging{Limit: maxSessionChoices}})
	for _, s := range page.Items {
		text := render.Plain(cmp.Or(render.Truncate(s.Title, 60), "untitled")) + " · " + shortID(s.ID)
		if s.Group != "" {
			text += " · group " + render.Plain(s.Group)
		}
		out = append(out, sessionChoice{s.ID, text, s.ID == chosen})
	}
	if chosen != "" && !slices.ContainsFunc(out, func(c sessionChoice) bool { return c.On }) {
		out = append(out, sessionChoice{chosen, shortID(chosen), true})
	}
	return out
}

// explainQuery parses the question: a key, or a source and a name.
func explainQuery(q url.Values) explainPanel {
	get := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	d := explainPanel{Asked: api.Asked{
		Session: get("session"), Group: get("group"), Task: get("task"), Automation: get("automation"), Action: get("key"), Params: get("params"),
	}}
	if d.Action != "" {
		d.Source, d.Name = splitKey(d.Action)
	} else if d.Source, d.Name = get("source"), get("action"); d.Source != "" && d.Name != "" {
		d.Action = d.Source + ":" + d.Name
	}
	return d
}

// explained renders only the answer, for the script.
func (p *pageRequest) explained() error {
	d := explainQuery(p.r.URL.Query())
	p.answer(&d)
	return p.showPart("policy", "explained", d)
}

// answer decides the call without making it. An invalid question is part of the
// answer.
func (p *pageRequest) answer(d *explainPanel) {
	if p.err != nil || d.Action == "" {
		return
	}
	err := p.tallied(p.ctx(), p.me, d)
	if err == nil && !d.Share.Listed {
		var e api.Explanation
		if e, err = p.Explain(p.ctx(), p.me, &d.Asked); err == nil {
			d.Answer = &e
		}
	}
	if err != nil {
		if d.Problem = p.Problem(p.ctx(), err); d.Problem.Status >= http.StatusInternalServerError {
			p.setError(err)
		}
	}
}

// tallied counts the modes of the actions that a pattern matches.
func (p *pages) tallied(ctx context.Context, me *dashboard.Principal, d *explainPanel) error {
	if d.Name != "*" {
		return nil
	}
	key, _, err := p.ResolveKey(ctx, me.Organization, d.Action)
	if err != nil {
		return err
	}
	s, err := p.SampleSession(ctx, me, &d.Asked)
	if err != nil {
		return err
	}
	snap, err := p.Snapshot(ctx, &s)
	d.Share = tally{Listed: true, Everything: key.Source == "*"}
	for _, a := range snap.Capabilities {
		if key.Source != "*" && key.Source != a.Provider {
			continue
		}
		d.Share.Of += len(a.Actions)
		for _, one := range a.Actions {
			switch one.Mode {
			case action.ModeAllow:
				d.Share.Allow++
			case action.ModeRequireApproval:
				d.Share.Hold++
			case action.ModeDeny:
				d.Share.Deny++
			}
		}
	}
	return err
}

// modeText explains what a mode does with a call.
func modeText(m action.Mode) string {
	return map[action.Mode]string{
		action.ModeAllow: "Allowed", action.ModeRequireApproval: "Requires approval", action.ModeDeny: "Denied",
	}[m]
}

// policyRemoved explains what applies after a mode is removed.
func (p *pageRequest) policyRemoved() error {
	text := ""
	if key, err := action.ParseKey(p.query("key")); err == nil {
		text = p.nextOverrideText(p.query("automation"), key)
	}
	return p.showPart("policy", "removed", text)
}

// nextOverrideText explains which override or default applies once the one of
// the key is removed.
func (p *pageRequest) nextOverrideText(automation string, key action.Key) string {
	list, _, err := p.Policy.Overrides(p.ctx(), p.org)
	p.setError(err)
	all := p.loadConnectors()
	owners := []string{automation}
	if automation != "" {
		owners = append(owners, "")
	}
	for _, owner := range owners {
		for _, wider := range []action.Key{key, {Source: key.Source, Action: "*"}, {Source: "*", Action: "*"}} {
			i := slices.IndexFunc(list, func(o action.Override) bool { return o.Automation == owner && o.Key == wider })
			if i < 0 || owner == automation && wider == key {
				continue
			}
			who := "for everyone"
			if owner != "" {
				who = "for this automation"
			}
			return fmt.Sprintf("The override of %s %s then applies: %s.", render.Plain(view.KeyName(wider, all)), who, modeName(list[i].Mode))
		}
	}
	const groups = " In a group, the group access applies first."
	actions := p.actionsOf(key.Source)
	i := slices.IndexFunc(actions, func(a action.ActionAbility) bool { return a.Action == key.Action })
	if i < 0 {
		return "The default then applies: reads are allowed, writes need approval and destructive actions are denied." + groups
	}
	return map[action.Risk]string{
		action.RiskRead:   "The default for reads then applies: allow.",
		action.RiskWrite:  "The default for writes then applies: require approval.",
		action.RiskDanger: "The default for destructive actions then applies: deny.",
	}[actions[i].Risk] + groups
}
