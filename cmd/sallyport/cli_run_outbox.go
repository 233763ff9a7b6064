package main

import (
	"context"
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
	api.ParcelQuery
}

func (*outboxList) route() api.Operation { return api.ListOutbox.Operation }

func (c *outboxList) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.ListOutbox, c.ParcelQuery, cells("WHEN STATE ATTEMPT NEXT HTTP ERROR RUN ID", func(p *event.Parcel) []string {
		status, next := "", ""
		if p.LastStatus != 0 {
			status = strconv.Itoa(p.LastStatus)
		}
		if p.Status == event.ParcelPending && p.Attempt > 0 {
			next = since(&p.NextAt)
		}
		return []string{since(&p.CreatedAt), parcelState(p), strconv.Itoa(p.Attempt), next, status, brief(p.LastError), p.Run, p.ID}
	}))
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
