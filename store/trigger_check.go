package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// checkIntegration refuses one of another service, and what not everybody sees:
// others read what the automation is told, and edit it.
func (r *triggerRow) checkIntegration(ctx context.Context, tx bun.Tx, by string) error {
	if r.Integration == "" {
		return nil
	}
	in, err := optional[action.Integration](ctx, visibleIntegrations(tx, r.Organization, by).Where("id = ?", r.Integration))
	fault := ""
	switch {
	case err != nil:
		return err
	case in == nil:
		fault = "There is no such integration; list the integrations to see which there are."
	case in.Owner() != "":
		fault = "This integration is private, and others read the automation's events, too; make it visible to the organization first."
	case in.Provider != r.Provider:
		fault = fmt.Sprintf("This is an integration of %s; name one of %s.", in.Provider, r.Provider)
	}
	if fault != "" {
		return invalid("/integration_id", fault)
	}
	return nil
}
