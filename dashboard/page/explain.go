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

// explainPanel says how a call would be decided. Its question is in the
// address, so that it can be handed on.
type explainPanel struct {
	api.Asked
	Source, Name string // the two parts of the key, as they were asked
	Sessions     []sessionChoice
	Problem      *dashboard.Problem
	Answer       *api.Explanation
	Share        tally // of a pattern, in place of an answer
}

// sessionChoice is a session as forms offer it.
type sessionChoice struct {
	ID, Text string
	On       bool
}

// tally is how many actions of a pattern have which mode now.
type tally struct {
	Of                 int
	Allow, Hold, Deny  int
	Everything, Listed bool
}

// sessionsOffered by a form: the newest.
const sessionsOffered = 50

func (p *pageRequest) explainPanel() explainPanel {
	d := explainQuery(p.r.URL.Query())
	d.Sessions = p.sessionChoices("", d.Session)
	p.answer(&d)
	return d
}

// sessionChoices offers sessions by what they are for, and the one that was
// chosen, also when it is old.
func (p *pageRequest) sessionChoices(state, chosen string) []sessionChoice {
	var out []sessionChoice
	page := load2(p, p.ListSessions, p.me, &api.ListSessionsInput{State: state, Paging: api.Paging{Limit: sessionsOffered}})
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

// explainQuery reads the question: a key, or its two parts.
func explainQuery(q url.Values) explainPanel {
	get := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	d := explainPanel{Asked: api.Asked{
		Session: get("session"), Group: get("group"), Task: get("task"), Automation: get("automation"), Action: get("key"), Params: get("params"),
	}}
	if d.Action != "" {
		d.Source, d.Name = cutKey(d.Action)
	} else if d.Source, d.Name = get("source"), get("action"); d.Source != "" && d.Name != "" {
		d.Action = d.Source + ":" + d.Name
	}
	return d
}

// explained is the answer alone, for the script to put in its place.
func (p *pageRequest) explained() error {
	d := explainQuery(p.r.URL.Query())
	p.answer(&d)
	return p.showPart("policy", "explained", d)
}

// answer decides for nobody. What is wrong with the question is a part of the
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

// tallied counts what is in force of the actions that a pattern names.
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
		if key.Source == "*" || key.Source == a.Provider {
			d.Share.add(a.Actions)
		}
	}
	return err
}

func (t *tally) add(actions []action.ActionAbility) {
	t.Of += len(actions)
	for _, a := range actions {
		switch a.Mode {
		case action.ModeAllow:
			t.Allow++
		case action.ModeRequireApproval:
			t.Hold++
		case action.ModeDeny:
			t.Deny++
		}
	}
}

// modeText says what a mode does with a call.
func modeText(m action.Mode) string {
	return map[action.Mode]string{
		action.ModeAllow: "Allowed", action.ModeRequireApproval: "Requires approval", action.ModeDeny: "Denied",
	}[m]
}

// policyRemoved says, in words, what is in force once a mode is taken back.
func (p *pageRequest) policyRemoved() error {
	text := ""
	if key, err := action.ParseKey(p.query("key")); err == nil {
		text = p.without(p.query("automation"), key)
	}
	return p.showPart("policy", "removed", text)
}

// without looks for what says something of the key when this does not: the
// cascade of policy, from here on.
func (p *pageRequest) without(automation string, key action.Key) string {
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
	return p.inferredOf(key)
}

// inferredOf says what holds where nobody said anything.
func (p *pageRequest) inferredOf(key action.Key) string {
	const beside = " In a group, the group access applies first."
	actions := p.actionsOf(key.Source)
	i := slices.IndexFunc(actions, func(a action.ActionAbility) bool { return a.Action == key.Action })
	if i < 0 {
		return "The default then applies: reads are allowed, writes need approval and destructive actions are denied." + beside
	}
	return map[action.Risk]string{
		action.RiskRead:   "The default for reads then applies: allow.",
		action.RiskWrite:  "The default for writes then applies: require approval.",
		action.RiskDanger: "The default for destructive actions then applies: deny.",
	}[actions[i].Risk] + beside
}
