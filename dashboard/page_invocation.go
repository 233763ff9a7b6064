package dashboard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

// invocationPage is what the page of one call shows.
type invocationPage struct {
	card
	Moments  []occasion
	Evidence action.Evidence
	Origin   event.Origin
	From     link // where its connector or integration is
	Short    bool // the result is kept shortened
}

// link leads to a page; without a path, to none.
type link struct{ Path, Text string }

// occasion is something that happened to a call.
type occasion struct {
	At    time.Time
	Text  string
	By    settler         // who did it; none: nobody in particular
	Note  string          // what was said of it
	Data  json.RawMessage // redacted
	Class string          // of its mark: good, bad, or neither
}

func (p *pageRequest) invocation() error {
	c := p.cardOf(p.r.PathValue("id"))
	d := invocationPage{
		card: c, From: sourcePage(c.Invocation), Short: bytes.Contains(c.Result, []byte(`"_truncated"`)),
		Evidence: load2(p, p.Calls.Evidence, p.org, c.ID),
		Origin:   load2(p, p.origins, p.me, []action.Invocation{c.Invocation})[c.Session],
	}
	d.Moments = p.moments(&d)
	return p.show("invocation", "activity", c.Action, d)
}

// sourcePage is where the source of a call is managed.
func sourcePage(inv action.Invocation) link {
	if id, ok := strings.CutPrefix(inv.Source, "connector:"); ok {
		return link{"/connectors/" + id, inv.SourceName}
	}
	if inv.Integration != "" {
		return link{"/integrations/" + inv.Source, inv.SourceName}
	}
	return link{Text: inv.SourceName}
}

// moments are what happened to the call, in the order of time.
func (p *pageRequest) moments(d *invocationPage) []occasion {
	list, names := lifeOf(d.Invocation, d.Settled), p.loadNames()
	if at := d.Evidence.DeliveredAt; at != nil {
		list = append(list, occasion{At: *at, Text: "The result was delivered to the agent"})
	}
	for _, e := range load2(p, p.Calls.Events, p.org, d.ID) {
		m := occasion{At: e.At, Text: happening(e.Kind), Data: e.Data}
		if e.By != "" {
			m.By = person(e.By, names)
		}
		list = append(list, m)
	}
	slices.SortStableFunc(list, func(a, b occasion) int { return cmp.Compare(a.At.UnixMicro(), b.At.UnixMicro()) })
	return list
}

// lifeOf is what the row tells of its life.
func lifeOf(inv action.Invocation, by settler) []occasion {
	list := []occasion{{At: inv.CreatedAt, Text: "The agent requested the call"}}
	add := func(at *time.Time, m occasion) {
		if at != nil {
			m.At = *at
			list = append(list, m)
		}
	}
	layer := "Policy layer: " + string(inv.ModeSource)
	switch {
	case inv.Mode == action.ModeRequireApproval:
		add(&inv.CreatedAt, occasion{Text: "Policy required approval", Note: layer})
	case inv.Mode == action.ModeAllow && inv.Grant != "":
		add(&inv.CreatedAt, occasion{Text: "Allowed by a grant", Class: "good"})
	case inv.Mode == action.ModeAllow:
		add(&inv.CreatedAt, occasion{Text: "Allowed by policy", Note: layer, Class: "good"})
	}
	if inv.ApprovedBy != "" && inv.ApprovedAt != nil {
		add(inv.ApprovedAt, occasion{Text: "Approved", By: by, Class: "good"})
	}
	if inv.StartedAt != nil {
		add(inv.StartedAt, occasion{Text: "Execution started", Note: inv.Executor})
	}
	add(inv.CompletedAt, endOf(inv, by))
	return list
}

// endOf says how it ended.
func endOf(inv action.Invocation, by settler) occasion {
	m := occasion{Note: inv.DeniedNote}
	switch inv.Status {
	case action.StatusCompleted:
		m.Text, m.Class = "Completed", "good"
	case action.StatusFailed:
		m.Text, m.Class = "Failed", "bad"
		if inv.Error != nil {
			m.Note = inv.Error.Code
		}
	case action.StatusExpired:
		m.Text, m.Class = "Expired: not decided in time", "bad"
		if inv.ApprovedBy != "" {
			m.Text = "Expired: not executed in time"
		}
	default:
		sentence, _ := action.Denied(inv.DeniedReason)
		m.Text = strings.TrimSuffix(sentence, ".")
		switch m.Class = "bad"; inv.DeniedReason {
		case action.DeniedHuman:
			m.Text, m.By = "Denied", by
		case action.DeniedWithdrawn:
			if m.Class = ""; inv.DeniedNote != "" {
				m.Text = "Withdrawn"
			}
		}
	}
	return m
}
