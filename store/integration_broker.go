package store

import (
	"context"

	"sallyport/action"
)

// BrokeredIntegrations returns the integrations of all organizations whose
// tokens a broker keeps, with what is sealed of them: that has the broker's name
// of the connection.
func (db *DB) BrokeredIntegrations(ctx context.Context, broker action.Broker) ([]action.Integration, error) {
	return list[action.Integration](ctx, db.read.NewSelect().Model((*integrationRow)(nil)).ExcludeColumn("holder").
		Where("broker = ?", string(broker)).Where("status <> 'deleted'").Where("sealed IS NOT NULL").Order("created_at", "id"))
}
