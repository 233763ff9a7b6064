package main

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"sallyport/ingest/event"
)

type outboxPlace struct {
	List    outboxList    `cmd:"" default:"withargs" help:"List deliveries of runs to the endpoint, newest first."`
	Redrive outboxRedrive `cmd:"" help:"Deliver a run again that the endpoint did not take."`
}

const outboxPath = "/api/v1/outbox"

type outboxList struct {
	remote
	paging
	Status string `enum:"pending,sending,delivered,dead,void," default:"" help:"Only with this status: pending, sending, delivered (or claimed over the API), dead (the endpoint did not take it) or void (its run ended otherwise)."`
}

func (c *outboxList) Run(ctx context.Context, std *stdio) error {
	query := c.query()
	maps.Copy(query, queryOf(given{"status": c.Status}))
	return show(ctx, &c.remote, std, outboxPath, query, func(w io.Writer, all *list[event.Parcel]) {
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
	ID string `arg:"" help:"Id of the delivery, as run outbox lists it."`
}

func (c *outboxRedrive) Run(ctx context.Context, std *stdio) error {
	return alter(ctx, &c.remote, std, http.MethodPost, outboxPath+"/"+url.PathEscape(c.ID)+"/redrive", nil, func(w io.Writer, now *runRow) {
		said("run " + now.ID + " is " + now.state())(w)
	})
}
