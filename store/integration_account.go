package store

import (
	"context"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// IntegrationsByAccount returns the integrations of a provider's account, of all
// organizations, private ones and users' own too, that are not deleted; without
// credentials.
func (db *DB) IntegrationsByAccount(ctx context.Context, provider, account string) ([]action.Integration, error) {
	return list[action.Integration](ctx, integrationsOfAccount(db.read, provider, account))
}

func integrationsOfAccount(db bun.IDB, provider, account string) *bun.SelectQuery {
	return db.NewSelect().Model((*integrationRow)(nil)).ExcludeColumn("sealed", "holder").
		Where("provider = ?", provider).Where("account = ?", account).Where("status <> 'deleted'").Order("organization_id", "id")
}
