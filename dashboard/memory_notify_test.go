package dashboard_test

import (
	"context"

	"sallyport/action"
	"sallyport/dashboard"
	"sallyport/ingest/event"
)

// notifyRows are channels, and what was told by them.
type notifyRows struct {
	channels []action.NotifyChannel
	told     []action.Notification
}

// notices is dashboard's port of telling approvers elsewhere over memory.
type notices struct{ *memory }

func (m notices) NotifyChannel(_ context.Context, organization string, kind action.NotifyKind) (action.NotifyChannel, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := find("notify channel", m.channels, func(c action.NotifyChannel) bool { return c.Organization == organization && c.Kind == kind })
	if err != nil {
		return action.NotifyChannel{}, err
	}
	return *c, nil
}

func (m notices) NotifyChannels(_ context.Context, organization string) (list []action.NotifyChannel, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.channels {
		if c.Organization == organization {
			list = append(list, c)
		}
	}
	return list, nil
}

func (m notices) SetNotifyChannel(ctx context.Context, c action.NotifyChannel, secret *event.Secret) (action.NotifyChannel, error) {
	_ = m.DeleteNotifyChannel(ctx, c.Organization, c.Kind, c.UpdatedBy)
	m.mu.Lock()
	defer m.mu.Unlock()
	c.UpdatedAt = m.now()
	m.channels = append(m.channels, c)
	if secret != nil {
		m.signLocked(c.Organization, dashboard.NotifySecrets, *secret)
	}
	m.recordLocked(c.Organization, action.EventNotify, string(c.Kind), c.UpdatedBy)
	return c, nil
}

func (m notices) DeleteNotifyChannel(_ context.Context, organization string, kind action.NotifyKind, by string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, c := range m.channels {
		if c.Organization == organization && c.Kind == kind {
			m.channels = append(m.channels[:i:i], m.channels[i+1:]...)
			m.recordLocked(organization, action.EventNotify, string(kind), by)
			return nil
		}
	}
	return action.Errorf(action.ErrNotFound, "notify_not_found", "There is none.")
}

func (m notices) Notifications(_ context.Context, organization string, _ int) (list []action.Notification, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.told {
		if n.Organization == organization {
			list = append(list, n)
		}
	}
	return list, nil
}

func (m notices) test(ctx context.Context, organization string, kind action.NotifyKind) (action.NotifyAnswer, error) {
	_, err := m.NotifyChannel(ctx, organization, kind)
	return action.NotifyAnswer{OK: true, Status: 204, Said: "The endpoint answered 204."}, err
}
