package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"sallyport/ingest/event"
)

type eventCommand struct {
	List eventList `cmd:"" help:"List events of triggers and schedules, newest first."`
	Show eventShow `cmd:"" help:"Show an event and what came of it."`
	Skip eventSkip `cmd:"" help:"Skip an event whose run nobody has yet."`
}

const eventsPath = "/api/v1/inbound-events"

// eventRow is an event as the API shows it.
type eventRow struct {
	event.Record
	Status         string          `json:"status"`
	AutomationName string          `json:"automation_name"`
	Context        json.RawMessage `json:"context"`
}

// outcome is what came of the event.
func (e *eventRow) outcome() string {
	switch {
	case e.Skip != "":
		return "skipped: " + string(e.Skip)
	case e.RunStatus == event.RunSkipped:
		return "skipped: its run did not begin"
	}
	return e.Status
}

type eventList struct {
	remote
	paging
	Automation string `placeholder:"REF" help:"Only of this automation."`
	Trigger    string `placeholder:"ID" help:"Only of this trigger or schedule."`
	Delivery   string `placeholder:"ID" help:"Only those that came in this delivery."`
	Provider   string `help:"Only of this provider, or of schedule."`
	Status     string `enum:"queued,processing,completed,failed,skipped," default:"" help:"Only with this status: queued, processing, completed, failed or skipped."`
	Skipped    *bool  `help:"Only those that started nothing; --skipped=false: only those that did not."`
}

func (c *eventList) Run(ctx context.Context, std *stdio) error {
	query := c.query()
	maps.Copy(query, queryOf(given{"automation": c.Automation, "trigger": c.Trigger, "delivery": c.Delivery, "provider": c.Provider, "status": c.Status}))
	if c.Skipped != nil {
		query.Set("skipped", strconv.FormatBool(*c.Skipped))
	}
	return labelled(ctx, &c.remote, std, eventsPath, query, func(w io.Writer, all *list[eventRow], called labels) {
		rows := make([][]string, 0, len(all.Items))
		for i := range all.Items {
			e := &all.Items[i]
			rows = append(rows, []string{since(&e.CreatedAt), e.AutomationName, called.of(e.Trigger), e.Provider, e.Type, e.Title, e.outcome(), e.Run, e.ID})
		}
		table(w, []string{"WHEN", "AUTOMATION", "BY", "PROVIDER", "TYPE", "TITLE", "OUTCOME", "RUN", "ID"}, rows)
		if len(rows) == 0 && c.Trigger != "" && called[c.Trigger] == "" {
			said("there is no trigger or schedule " + c.Trigger + " now; see: " + c.hint("trigger", "list"))(w)
		}
		more(w, all.NextCursor)
	})
}

// theEvent names one.
type theEvent struct {
	remote
	ID string `arg:"" help:"Id of the event."`
}

func (e *theEvent) path() string { return eventsPath + "/" + url.PathEscape(e.ID) }

type eventShow struct {
	theEvent
	Whole bool `help:"All that the agent gets of it, with nothing redacted. The reading is logged."`
}

func (c *eventShow) Run(ctx context.Context, std *stdio) error {
	if c.Whole {
		return show(ctx, &c.remote, std, c.path()+"/context", nil, func(w io.Writer, e *eventRow) { block(w, "", e.Context) })
	}
	return show(ctx, &c.remote, std, c.path(), nil, showEvent)
}

func showEvent(w io.Writer, e *eventRow) {
	said(fmt.Sprintf("%s %s: %s", e.Provider, e.Type, e.Title))(w)
	said(fmt.Sprintf("of %s, %s, %s", e.AutomationName, since(&e.CreatedAt), e.outcome()))(w)
	for _, line := range []struct{ what, text string }{{"", e.Error}, {"run ", e.Run}, {"delivery ", e.Receipt}, {"", e.URL}} {
		if line.text != "" {
			said(line.what + line.text)(w)
		}
	}
	if e.Context != nil {
		block(w, "    ", e.Context)
	}
}

type eventSkip struct{ theEvent }

func (c *eventSkip) Run(ctx context.Context, std *stdio) error {
	return alter(ctx, &c.remote, std, http.MethodPost, c.path()+"/skip", nil, func(w io.Writer, e *eventRow) {
		said("event " + e.ID + " is skipped; its run is not done")(w)
	})
}

type deliveryCommand struct {
	List    deliveryList    `cmd:"" help:"List what services posted, newest first."`
	Show    deliveryShow    `cmd:"" help:"Show a delivery and what became of it."`
	Redrive deliveryRedrive `cmd:"" help:"Work a failed delivery off again."`
}

const deliveriesPath = "/api/v1/deliveries"

// deliveryRow is a delivery as the API shows it.
type deliveryRow struct {
	event.Receipt
	Payload json.RawMessage `json:"payload"`
}

func (d *deliveryRow) state() string {
	switch {
	case d.Doubled:
		return "duplicate"
	case d.LastError != "":
		return string(d.Status) + ": " + d.LastError
	}
	return string(d.Status)
}

// attempts tell how often it was worked off, and when it is next.
func (d *deliveryRow) attempts() string {
	text := fmt.Sprintf(" (attempt %d)", d.Attempt)
	if d.Status == event.ReceiptQueued && d.Attempt > 0 {
		text = fmt.Sprintf(" (attempt %d; the next one is due %s)", d.Attempt, since(&d.NextAt))
	}
	return text
}

type deliveryList struct {
	remote
	paging
	Trigger  string `placeholder:"ID" help:"Only to this trigger's own URL."`
	Provider string `help:"Only of this provider."`
	Status   string `enum:"queued,processing,completed,failed," default:"" help:"Only with this status: queued, processing, completed or failed."`
}

func (c *deliveryList) Run(ctx context.Context, std *stdio) error {
	query := c.query()
	maps.Copy(query, queryOf(given{"trigger": c.Trigger, "provider": c.Provider, "status": c.Status}))
	return show(ctx, &c.remote, std, deliveriesPath, query, func(w io.Writer, all *list[deliveryRow]) {
		rows := make([][]string, 0, len(all.Items))
		for i := range all.Items {
			d := &all.Items[i]
			rows = append(rows, []string{since(&d.ReceivedAt), d.Provider, d.Native, strconv.Itoa(d.Attempt), brief(d.state()), d.ID})
		}
		table(w, []string{"WHEN", "PROVIDER", "EVENT", "ATTEMPT", "STATE", "ID"}, rows)
		more(w, all.NextCursor)
	})
}

// theDelivery names one.
type theDelivery struct {
	remote
	ID string `arg:"" help:"Id of the delivery."`
}

func (d *theDelivery) path() string { return deliveriesPath + "/" + url.PathEscape(d.ID) }

type deliveryShow struct{ theDelivery }

func (c *deliveryShow) Run(ctx context.Context, std *stdio) error {
	return show(ctx, &c.remote, std, c.path(), nil, func(w io.Writer, d *deliveryRow) {
		said(strings.TrimRight(d.Provider+" "+d.Native, " ") + " at /webhooks/" + d.Endpoint + ", " + since(&d.ReceivedAt))(w)
		said(d.state() + d.attempts())(w)
		if d.Status == event.ReceiptFailed {
			said("work it off again with: " + c.hint("delivery", "redrive", d.ID))(w)
		}
		said("its events: " + c.hint("event", "list", "--delivery", d.ID))(w)
		if d.Payload != nil {
			block(w, "    ", d.Payload)
		}
	})
}

type deliveryRedrive struct{ theDelivery }

func (c *deliveryRedrive) Run(ctx context.Context, std *stdio) error {
	return alter(ctx, &c.remote, std, http.MethodPost, c.path()+"/redrive", nil, func(w io.Writer, d *deliveryRow) {
		said("delivery " + d.ID + " is worked off again")(w)
	})
}
