package main

import (
	"context"

	"sallyport/dashboard"
	"sallyport/ingest/event"
	"sallyport/store"
)

type deliveryRows struct{ *store.DB }

func (r deliveryRows) ListEvents(ctx context.Context, f dashboard.EventFilter) (dashboard.Page[event.Record], error) {
	page, err := r.DB.ListEvents(ctx, store.RecordFilter{
		Organization: f.Organization, Trigger: f.Trigger, Automation: f.Automation, Receipt: f.Receipt, Provider: f.Provider, Status: f.Status, Skipped: f.Skipped,
		Limit: f.Limit, Cursor: f.Cursor,
	})
	return dashboard.Page[event.Record](page), err
}

func (r deliveryRows) ListReceipts(ctx context.Context, f dashboard.ReceiptFilter) (dashboard.Page[event.Receipt], error) {
	page, err := r.DB.ListReceipts(ctx, store.ReceiptFilter{
		Organization: f.Organization, Trigger: f.Trigger, Provider: f.Provider, Status: f.Status, Limit: f.Limit, Cursor: f.Cursor,
	})
	return dashboard.Page[event.Receipt](page), err
}

type runRows struct{ *store.DB }

func (r runRows) ListRuns(ctx context.Context, f dashboard.RunFilter) (dashboard.Page[event.Run], error) {
	page, err := r.DB.ListRuns(ctx, store.RunFilter{
		Organization: f.Organization, Automation: f.Automation, Trigger: f.Trigger, Event: f.Event, Status: f.Status, Limit: f.Limit, Cursor: f.Cursor,
	})
	return dashboard.Page[event.Run](page), err
}

func (r runRows) ListParcels(ctx context.Context, organization string, status event.ParcelStatus, q dashboard.Query) (dashboard.Page[event.Parcel], error) {
	page, err := r.DB.ListParcels(ctx, store.ParcelFilter{Organization: organization, Status: status, Limit: q.Limit, Cursor: q.Cursor})
	return dashboard.Page[event.Parcel](page), err
}
