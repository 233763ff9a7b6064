package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"

	"sallyport/action"
)

type policyLog struct {
	remote
	paging
	Kind    string `enum:"mode,capability,gate,grant,grant_request,quota,settings,review,connector," default:"" help:"Only changes of this kind: mode, capability, gate, grant, grant_request, quota, settings, review or connector."`
	Subject string `help:"Only changes of this key, group and provider, or id, as --json shows it."`
}

// Run tells changes in a line each; --json has all of them.
func (c *policyLog) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	query := c.query()
	maps.Copy(query, queryOf(given{"kind": c.Kind, "subject": c.Subject}))
	var events list[action.PolicyEvent]
	raw, err := server.read(ctx, "/api/v1/policy/events", query, &events)
	if err != nil {
		return err
	}
	var sources list[connectorRow]
	if _, err := server.read(ctx, "/api/v1/connectors", nil, &sources); err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		rows := make([][]string, 0, len(events.Items))
		for _, e := range events.Items {
			rows = append(rows, []string{since(&e.At), e.By, e.Kind, subject(e.Subject, sources.Items), change(e.Before, e.After)})
		}
		table(w, []string{"WHEN", "BY", "KIND", "SUBJECT", "CHANGE"}, rows)
		more(w, events)
	})
}

// subject names the source in a subject as people do, with its id behind.
func subject(text string, sources []connectorRow) string {
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
const valueLimit = 120
