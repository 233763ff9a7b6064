package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"sallyport/api"
	"sallyport/cmd/sallyport/command"
	"sallyport/ingest/event"
)

type eventCommand struct {
	List eventList                           `cmd:"" help:"List events of triggers and schedules, newest first."`
	Show eventShow                           `cmd:"" help:"Show an event and its result."`
	Skip request[api.ByID, api.InboundEvent] `cmd:"" help:"Skip an event whose run is still queued."`
}

// eventOutcome describes the result of the event.
func eventOutcome(e *api.InboundEvent) string {
	switch {
	case e.Skip != "":
		return "skipped: " + string(e.Skip)
	case e.RunStatus == event.RunSkipped:
		return "skipped: its run did not start"
	}
	return e.Status
}

type eventList struct {
	clientFlags
	api.EventQuery
	Skipped *bool `help:"Only events that started no run; --skipped=false for the others."`
}

func (*eventList) route() api.Operation { return api.ListInboundEvents.Operation }

func (c *eventList) Run(ctx context.Context, std *command.Streams) error {
	if c.Skipped != nil {
		c.EventQuery.Skipped = strconv.FormatBool(*c.Skipped)
	}
	return perform(ctx, &c.clientFlags, std, api.ListInboundEvents, c.EventQuery, func(w io.Writer, all *api.List[api.InboundEvent]) {
		names := c.loadLabels(ctx, runActorLists()...)
		table("WHEN AUTOMATION BY PROVIDER TYPE TITLE OUTCOME RUN ID", func(e *api.InboundEvent) []string {
			return []string{relativeTime(&e.CreatedAt), e.AutomationName, names.name(e.Trigger), e.Provider, e.Type, e.Title, eventOutcome(e), e.Run, e.ID}
		})(w, all)
		if len(all.Items) == 0 && c.Trigger != "" && names[c.Trigger] == "" {
			printLine(w, "there is no trigger or schedule "+c.Trigger+"; see: "+c.hint("trigger", "list"))
		}
	})
}

// eventRef is the argument that names an event.
type eventRef struct {
	clientFlags
	ID string `arg:"" help:"ID of the event."`
}

type eventShow struct {
	eventRef
	Whole bool `help:"Show the full, unredacted context that the agent gets; this is logged."`
}

func (*eventShow) route() api.Operation { return api.GetInboundEvent.Operation }

func (c *eventShow) Run(ctx context.Context, std *command.Streams) error {
	if c.Whole {
		return perform(ctx, &c.clientFlags, std, api.GetInboundContext, api.ByID{ID: c.ID}, func(w io.Writer, e *api.WholeContext) { printJSON(w, "", e.Context) })
	}
	return perform(ctx, &c.clientFlags, std, api.GetInboundEvent, api.ByID{ID: c.ID}, showEvent)
}

func showEvent(w io.Writer, e *api.InboundEvent) {
	printLine(w, fmt.Sprintf("%s %s: %s", e.Provider, e.Type, e.Title))
	printLine(w, fmt.Sprintf("of %s, %s, %s", e.AutomationName, relativeTime(&e.CreatedAt), eventOutcome(e)))
	for _, line := range []struct{ what, text string }{{"", e.Error}, {"run ", e.Run}, {"delivery ", e.Receipt}, {"", e.URL}} {
		if line.text != "" {
			printLine(w, line.what+line.text)
		}
	}
	if e.Context != nil {
		printJSON(w, "    ", e.Context)
	}
}

type deliveryCommand struct {
	List    request[api.DeliveryQuery, api.List[api.DeliveryView]] `cmd:"" help:"List webhook deliveries, newest first."`
	Show    request[api.ByID, api.DeliveryView]                    `cmd:"" help:"Show a delivery and its result."`
	Redrive request[api.ByID, api.DeliveryView]                    `cmd:"" help:"Process a failed delivery again."`
}

func deliveryState(d *api.DeliveryView) string {
	switch {
	case d.Duplicate:
		return "duplicate"
	case d.LastError != "":
		return string(d.Status) + ": " + d.LastError
	}
	return string(d.Status)
}

// deliveryAttempts describes the number of attempts and the time of the next
// one.
func deliveryAttempts(d *api.DeliveryView) string {
	text := fmt.Sprintf(" (attempt %d)", d.Attempt)
	if d.Status == event.ReceiptQueued && d.Attempt > 0 {
		text = fmt.Sprintf(" (attempt %d; next attempt %s)", d.Attempt, relativeTime(&d.NextAt))
	}
	return text
}

func deliveryRow(d *api.DeliveryView) []string {
	return []string{relativeTime(&d.ReceivedAt), d.Provider, d.Native, strconv.Itoa(d.Attempt), truncate(deliveryState(d)), d.ID}
}

func showDelivery(_ context.Context, w io.Writer, c *clientFlags, d *api.DeliveryView) {
	printLine(w, strings.TrimRight(d.Provider+" "+d.Native, " ")+" at /webhooks/"+d.Endpoint+", "+relativeTime(&d.ReceivedAt))
	printLine(w, deliveryState(d)+deliveryAttempts(d))
	if d.Status == event.ReceiptFailed {
		printLine(w, "to process it again: "+c.hint("delivery", "redrive", d.ID))
	}
	printLine(w, "to list its events: "+c.hint("event", "list", "--delivery", d.ID))
	if d.Payload != nil {
		printJSON(w, "    ", d.Payload)
	}
}
