package inbox

import (
	"context"
	"fmt"

	"sallyport/action"
	"sallyport/ingest/delivery"
	"sallyport/ingest/event"
	"sallyport/ingest/loop"
)

// applyLifecycle notes what a service said of an app's installation. Only what is
// verified for the whole provider may say so: the secret of a trigger vouches
// for nothing beyond it.
func (w *Worker) applyLifecycle(ctx context.Context, look *lookup, found []action.Integration, what event.Lifecycle) error {
	for _, in := range found {
		status, reason := lifecycleStatus(in.Status, what)
		if err := w.setIntegrationStatus(ctx, look, in, status, reason); err != nil {
			return err
		}
	}
	return nil
}

// lifecycleStatus returns what an integration becomes by what happened to its
// installation; nothing when it stays what it is.
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

// readAuth finds what Nango's word of a connection is about. That is a hint and
// no more: Nango also signs what strangers have it pass on.
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

// recheckIntegrations asks how the integrations do that a hint was about.
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
	look.forget() // the next delivery of the batch finds it changed
	w.Log.InfoContext(ctx, "an integration changes by what was delivered", "organization", in.Organization, "integration", in.ID, "status", status)
	return loop.RetryUnavailable(ctx, func() error { return w.Integrations.IntegrationStatus(ctx, in, status, reason) })
}
