package inbox

import (
	"context"
	"fmt"

	"sallyport/action"
	"sallyport/ingest/delivery"
	"sallyport/ingest/event"
	"sallyport/ingest/loop"
)

// applyLifecycle applies what a service reports about an app's installation. Only
// deliveries verified for the whole provider may do so: the secret of a trigger
// covers only that trigger.
func (w *Worker) applyLifecycle(ctx context.Context, look *lookup, found []action.Integration, what event.Lifecycle) error {
	for _, in := range found {
		status, reason := lifecycleStatus(in.Status, what)
		if err := w.setIntegrationStatus(ctx, look, in, status, reason); err != nil {
			return err
		}
	}
	return nil
}

// lifecycleStatus returns the new status of an integration; empty if it does not
// change.
func lifecycleStatus(is action.IntegrationStatus, what event.Lifecycle) (action.IntegrationStatus, string) {
	switch {
	case what == event.Suspended && (is == action.IntegrationActive || is == action.IntegrationExpired):
		return action.IntegrationSuspended, "The service says that the app's installation was suspended."
	case what == event.Unsuspended && is == action.IntegrationSuspended:
		return action.IntegrationActive, ""
	case what == event.Uninstalled && is != action.IntegrationRevoked && is != action.IntegrationDeleted:
		return action.IntegrationRevoked, "The service says that the app was uninstalled; connect it again to use it."
	}
	return "", ""
}

// readAuth finds the integrations that Nango's message about a connection concerns.
// It is only a hint, because Nango also signs what strangers have it forward.
func (w *Worker) readAuth(ctx context.Context, look *lookup, rd *reading, n delivery.Nango) error {
	switch n.Operation {
	case "creation", "override", "refresh":
	default:
		return nil
	}
	found, err := look.broker(ctx, n.Connection, n.ProviderKey)
	if err != nil {
		return err
	}
	for _, in := range found {
		if !n.Success && in.Status == action.IntegrationActive || n.Success && in.Status == action.IntegrationExpired {
			rd.recheck = append(rd.recheck, in)
		}
	}
	return nil
}

// recheckIntegrations queries the status of integrations after a hint.
func (w *Worker) recheckIntegrations(ctx context.Context, rd *reading) error {
	for _, in := range rd.recheck {
		within, stop := context.WithTimeout(ctx, hydrateTimeout)
		err := w.Integrations.Recheck(within, in)
		stop()
		if err != nil {
			return fmt.Errorf("asking how integration %s does: %w", in.ID, err)
		}
	}
	return nil
}

func (w *Worker) setIntegrationStatus(ctx context.Context, look *lookup, in action.Integration, status action.IntegrationStatus, reason string) error {
	if status == "" {
		return nil
	}
	look.forget() // the next delivery of the batch must see the change
	w.Log.InfoContext(ctx, "an integration changes by what was delivered", "organization", in.Organization, "integration", in.ID, "status", status)
	return loop.RetryUnavailable(ctx, func() error { return w.Integrations.IntegrationStatus(ctx, in, status, reason) })
}
