package main

import (
	"context"
	"io"
	"strconv"

	"sallyport/api"
	"sallyport/ingest/event"
)

type outboxPlace struct {
	List    outboxList    `cmd:"" default:"withargs" help:"List deliveries of runs to the endpoint, newest first."`
	Redrive outboxRedrive `cmd:"" help:"Repeat a delivery that the endpoint did not accept."`
}

type outboxList struct {
	remote
	api.Paging
	Status string `enum:"pending,sending,delivered,dead,void," default:"" help:"Filter by status: pending, sending, delivered (or claimed), dead (not accepted) or void (the run ended)."`
}

func (c *outboxList) Run(ctx context.Context, std *stdio) error {
	in := api.ParcelQuery{Paging: c.Paging, Status: event.ParcelStatus(c.Status)}
	return perform(ctx, &c.remote, std, api.ListOutbox, in, func(w io.Writer, all *api.List[event.Parcel]) {
		rows := make([][]string, 0, len(all.Items))
		for i := range all.Items {
			p := &all.Items[i]
			status, next := "", ""
			if p.LastStatus != 0 {
				status = strconv.Itoa(p.LastStatus)
			}
			if p.Status == event.ParcelPending && p.Attempt > 0 {
				next = since(&p.NextAt)
			}
			rows = append(rows, []string{since(&p.CreatedAt), parcelState(p), strconv.Itoa(p.Attempt), next, status, brief(p.LastError), p.Run, p.ID})
		}
		table(w, []string{"WHEN", "STATE", "ATTEMPT", "NEXT", "HTTP", "ERROR", "RUN", "ID"}, rows)
		more(w, all.NextCursor)
	})
}

// parcelState is where a delivery stands. One of a run that was claimed was
// never sent.
func parcelState(p *event.Parcel) string {
	if p.Status == event.ParcelDelivered && p.Attempt == 0 {
		return "claimed"
	}
	return string(p.Status)
}

type outboxRedrive struct {
	remote
	ID string `arg:"" help:"ID of the delivery; see run outbox."`
}

func (c *outboxRedrive) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.RedriveParcel, api.ByID{ID: c.ID}, showRunState)
}
