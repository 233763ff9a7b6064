package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
)

type policyLog struct {
	remote
	api.ListPolicyEventsInput
}

// Run tells changes in a line each; --json has all of them.
func (c *policyLog) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	events, raw, err := Fetch(ctx, server, api.ListPolicyEvents, c.ListPolicyEventsInput)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.PrintJSON(raw)
	}
	sources, _, err := Fetch(ctx, server, api.ListConnectors, api.None{})
	if err != nil {
		return err
	}
	people := server.labels(ctx, api.ListUsers.Operation)
	automations := server.labels(ctx, api.ListAutomations.Operation)
	cells("WHEN BY KIND SUBJECT CHANGE", func(e *action.PolicyEvent) []string {
		return []string{since(&e.At), cmp.Or(people[e.By], e.By), e.Kind, subjectOf(e, sources.Items, automations), changed(e, sources.Items)}
	})(std.Out, events)
	return nil
}

// changed tells an event of a kind whose values say too much, or too little, as
// they are.
func changed(e *action.PolicyEvent, sources []api.ConnectorView) string {
	switch e.Kind {
	case action.EventGrant:
		return grantChange(e, sources)
	case action.EventReview:
		return standing(e.Before) + " → " + standing(e.After)
	}
	return change(e.Before, e.After)
}

// grantChange tells what the grant lets through in any case.
func grantChange(e *action.PolicyEvent, sources []api.ConnectorView) string {
	var g api.GrantView
	was, is := members(e.Before), members(e.After)
	if json.Unmarshal(e.Before, &g) != nil || json.Unmarshal(e.After, &g) != nil {
		return change(e.Before, e.After)
	}
	i := slices.IndexFunc(sources, func(s api.ConnectorView) bool { return "connector:"+s.ID == g.Terms.Source })
	if i >= 0 {
		g.Name = cmp.Or(sources[i].Slug, sources[i].Name)
	}
	text := fmt.Sprintf("%s for %s: %s", covers(&g.Terms, g.Name), grantWhose(&g), budget(&g.Terms))
	switch {
	case was == nil:
		return "nothing → " + text
	case is == nil:
		return text + " → nothing"
	}
	return text + "; " + change(e.Before, e.After)
}

// standing is where a tool stood, or several that counted as reviewed.
func standing(raw json.RawMessage) string {
	var one action.ToolReview
	if json.Unmarshal(raw, &one) == nil && one.State != "" {
		return string(one.State)
	}
	all := members(raw)
	if len(all) == 0 {
		return value(raw)
	}
	return "reviewed: " + strings.Join(slices.Sorted(maps.Keys(all)), ", ")
}

// subjectOf names what an event is about, as it was called then.
func subjectOf(e *action.PolicyEvent, sources []api.ConnectorView, automations labels) string {
	var was struct {
		Name       string `json:"name"`
		Automation string `json:"automation_id"`
	}
	for _, told := range []json.RawMessage{e.Before, e.After} {
		_ = json.Unmarshal(told, &was) // of other kinds it is no object
	}
	switch e.Kind {
	case action.EventAutomation, action.EventTrigger, action.EventSchedule:
		return sourceName(was.Name, e.Subject)
	case action.EventRun:
		return sourceName("of "+automations.of(was.Automation), e.Subject)
	}
	return subject(e.Subject, sources)
}

// subject names the source in a subject as people do, with its id behind.
func subject(text string, sources []api.ConnectorView) string {
	for _, s := range sources {
		if id := "connector:" + s.ID; strings.Contains(text, id) {
			return strings.Replace(text, id, cmp.Or(s.Slug, s.Name), 1) + " (" + id + ")"
		}
	}
	return text
}

// change tells from what to what, in a line: of two objects, the members that
// differ.
func change(before, after json.RawMessage) string {
	from, to := members(before), members(after)
	if from == nil || to == nil {
		return value(before) + " → " + value(after)
	}
	names := maps.Clone(from)
	maps.Copy(names, to)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !bytes.Equal(from[name], to[name]) {
			parts = append(parts, name+": "+value(from[name])+" → "+value(to[name]))
		}
	}
	return strings.Join(parts, ", ")
}

// members are those of an object that the event itself does not tell already;
// nil: it is none.
func members(raw json.RawMessage) map[string]json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	maps.DeleteFunc(all, func(name string, _ json.RawMessage) bool {
		return slices.Contains([]string{"organization_id", "created_at", "updated_at", "updated_by"}, name)
	})
	return all
}

// value shows a value, also one that is not there, in few words.
func value(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return "nothing"
	}
	text := string(raw)
	if all := members(raw); all != nil {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(all)) {
			parts = append(parts, name+" "+string(all[name]))
		}
		text = strings.Join(parts, ", ")
	}
	if short := []rune(text); len(short) > valueLimit {
		return string(short[:valueLimit]) + "…"
	}
	return text
}

// valueLimit is how much of a value helps in a list.
const valueLimit = 300
