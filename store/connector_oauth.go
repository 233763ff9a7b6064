package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/internal/redact"
)

// checkClient refuses an issuer that shows a credential, and a client whose
// secret is not there. Which host that is for only the sign-in learns.
func checkClient(ctx context.Context, tx bun.Tx, r *connectorRow) error {
	o := r.OAuth
	switch {
	case o == nil:
		return nil
	case redact.JSON{}.RedactText(o.Issuer, nil) != o.Issuer:
		return invalid("/oauth/issuer", "An issuer is an https URL without user, query and fragment; http will do on this machine only.")
	case o.ClientSecret == "":
		return nil
	}
	found, err := exists(ctx, tx.NewSelect().Table("secrets").Where("organization_id = ?", r.Organization).Where("key = ?", o.ClientSecret))
	if err != nil {
		return fmt.Errorf("reading secret %s: %w", o.ClientSecret, err)
	}
	if !found {
		return invalid("/oauth/client_secret", fmt.Sprintf("There is no secret %q; set it first, for the host of the token endpoint.", o.ClientSecret))
	}
	return nil
}
