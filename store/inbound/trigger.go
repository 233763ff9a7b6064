package inbound

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store/connect"
	"sallyport/store/database"
)

// maxTriggers limits the triggers of an organization.
const maxTriggers = 500

// TriggerRow is a row of the triggers table.
type TriggerRow struct {
	bun.BaseModel `bun:"table:triggers,alias:t"`
	event.Trigger
}

// Event returns the history event of a change of the trigger.
func (r *TriggerRow) Event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventTrigger, Subject: r.ID, By: by}
}

// Snapshot omits the time of the last event, which changes automatically.
func (r *TriggerRow) Snapshot() any {
	t := r.Trigger
	t.LastEventAt = nil
	return struct {
		event.Trigger
		Config json.RawMessage `json:"config"`
	}{t, t.Config}
}

// CreateTrigger inserts a trigger with its first secret (none for a polling
// trigger) and returns it as stored. An empty ID is generated. ErrNotFound if
// the organization has no such automation; ErrTooMany.
func (st *Store) CreateTrigger(ctx context.Context, t event.Trigger, secret *event.Secret) (event.Trigger, error) {
	r := &TriggerRow{Trigger: t}
	r.LastEventAt = nil
	if err := cmp.Or(database.EnsureID(&r.ID), action.FromEventCheck(r.Check())); err != nil {
		return event.Trigger{}, err
	}
	if secret != nil && t.Kind == event.Polling {
		return event.Trigger{}, database.Invalid("/secret", "A polling trigger has no secret. Leave it out.")
	}
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := readAutomation(ctx, tx, r.Organization, r.Automation); err != nil {
			return err
		}
		if err := r.checkIntegration(ctx, tx, r.CreatedBy); err != nil {
			return err
		}
		if err := st.history.Create(ctx, tx, r, r.CreatedBy, maxTriggers); err != nil {
			return err
		}
		if secret != nil {
			if err := st.AddSecret(ctx, tx, r.Organization, r.ID, *secret); err != nil {
				return err
			}
		}
		return st.syncPollGroup(ctx, tx, &r.Trigger)
	})
	return r.Trigger, err
}

// Trigger returns a trigger; ErrNotFound.
func (st *Store) Trigger(ctx context.Context, organization, id string) (event.Trigger, error) {
	r, err := ReadTrigger(ctx, st.db.Read, organization, id)
	return r.Trigger, err
}

// ReadTrigger reads a trigger; ErrNotFound.
func ReadTrigger(ctx context.Context, db bun.IDB, organization, id string) (TriggerRow, error) {
	return database.One[TriggerRow](ctx, database.RowsOf[TriggerRow](db, organization).Where("id = ?", id), triggerNotFound())
}

func triggerNotFound() error {
	return action.NewError("trigger_not_found")
}

// ListTriggers returns the triggers of an automation, or with an empty
// automation those of the organization, oldest first.
func (st *Store) ListTriggers(ctx context.Context, organization, automation string) ([]event.Trigger, error) {
	return database.List[event.Trigger](ctx, SelectTriggers(st.db.Read, organization, automation))
}

// SelectTriggers selects the triggers of an automation or organization.
func SelectTriggers(db bun.IDB, organization, automation string) *bun.SelectQuery {
	return selectByAutomation[TriggerRow](db, organization, automation)
}

// selectByAutomation selects the rows of an automation, or with an empty
// automation those of the organization, oldest first.
func selectByAutomation[R any](db bun.IDB, organization, automation string) *bun.SelectQuery {
	q := database.RowsOf[R](db, organization)
	if automation != "" {
		q = q.Where("automation_id = ?", automation)
	}
	return q.Order("created_at", "id")
}

// UpdateTrigger writes Name, Enabled, Config, Integration and PollSeconds, and
// returns the row; ErrNotFound.
func (st *Store) UpdateTrigger(ctx context.Context, t event.Trigger, by string) (event.Trigger, error) {
	var r TriggerRow
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if r, err = ReadTrigger(ctx, tx, t.Organization, t.ID); err != nil {
			return err
		}
		old := r
		r.Trigger = t // all but the immutable and automatic fields
		r.Automation, r.Kind, r.Provider, r.Type = old.Automation, old.Kind, old.Provider, old.Type
		r.CreatedBy, r.CreatedAt, r.LastEventAt = old.CreatedBy, old.CreatedAt, old.LastEventAt
		return st.updateTrigger(ctx, tx, &old, &r, by)
	})
	return r.Trigger, err
}

func (st *Store) updateTrigger(ctx context.Context, tx bun.Tx, old, r *TriggerRow, by string) error {
	if err := action.FromEventCheck(r.Check()); err != nil {
		return err
	}
	// A deleted integration must not prevent people from disabling the trigger.
	if r.Integration != old.Integration {
		if err := r.checkIntegration(ctx, tx, by); err != nil {
			return err
		}
	}
	if err := st.history.Update(ctx, tx, old, r, by); err != nil {
		return err
	}
	if err := st.syncPollGroup(ctx, tx, &old.Trigger); err != nil {
		return err
	}
	return st.syncPollGroup(ctx, tx, &r.Trigger)
}

// DeleteTrigger deletes a trigger with its secrets; its events and runs stay.
// ErrNotFound.
func (st *Store) DeleteTrigger(ctx context.Context, organization, id, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := ReadTrigger(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		return st.deleteTrigger(ctx, tx, &r, by)
	})
}

func (st *Store) deleteTrigger(ctx context.Context, tx bun.Tx, r *TriggerRow, by string) error {
	if err := st.history.Remove(ctx, tx, r, by); err != nil {
		return err
	}
	if err := DeleteSecrets(ctx, tx, r.Organization, r.ID); err != nil {
		return err
	}
	return st.syncPollGroup(ctx, tx, &r.Trigger)
}

// checkIntegration rejects an integration of another provider, and a private
// one: other people can read and edit the automation.
func (r *TriggerRow) checkIntegration(ctx context.Context, tx bun.Tx, by string) error {
	if r.Integration == "" {
		return nil
	}
	in, err := database.Optional[action.Integration](ctx, connect.VisibleIntegrations(tx, r.Organization, by).Where("id = ?", r.Integration))
	problem := ""
	switch {
	case err != nil:
		return err
	case in == nil:
		problem = "Integration not found. List the integrations to see their IDs."
	case in.Owner() != "":
		problem = "This integration is private, but other people can read the automation's events. Make it visible to the organization first."
	case in.Provider != r.Provider:
		problem = fmt.Sprintf("This is an integration of %s. Name one of %s.", in.Provider, r.Provider)
	}
	if problem != "" {
		return database.Invalid("/integration_id", problem)
	}
	return nil
}

// TriggerSecrets returns a trigger, enabled or not, with its unexpired secrets.
// The ID alone identifies it, because a URL has nothing else; ErrNotFound.
func (st *Store) TriggerSecrets(ctx context.Context, id string) (event.TriggerSecrets, error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	t, err := database.One[event.Trigger](ctx, st.db.Read.NewSelect().Model((*TriggerRow)(nil)).Where("id = ?", id), triggerNotFound())
	if err != nil {
		return event.TriggerSecrets{}, err
	}
	return st.withSecrets(ctx, t)
}

func (st *Store) withSecrets(ctx context.Context, t event.Trigger) (event.TriggerSecrets, error) {
	secrets, err := st.Secrets(ctx, st.db.Read, t.Organization, t.ID)
	return event.TriggerSecrets{Trigger: t, Secrets: secrets}, err
}

// WebhookTriggerSecrets returns the only webhook trigger of the provider that
// an automation has, by the automation's ID alone. ErrNotFound also if there
// are several triggers, or several automations with the ID: a guess could pick
// another tenant's.
func (st *Store) WebhookTriggerSecrets(ctx context.Context, automation, provider string) (event.TriggerSecrets, error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	n, err := st.db.Read.NewSelect().Table("automations").Where("id = ?", automation).Count(ctx)
	if err != nil {
		return event.TriggerSecrets{}, fmt.Errorf("reading automation %s: %w", automation, err)
	}
	if n != 1 {
		return event.TriggerSecrets{}, triggerNotFound()
	}
	found, err := database.List[event.Trigger](ctx, SelectWebhookTriggers(st.db.Read, automation, provider))
	if err != nil {
		return event.TriggerSecrets{}, err
	}
	if len(found) != 1 {
		return event.TriggerSecrets{}, triggerNotFound()
	}
	return st.withSecrets(ctx, found[0])
}

// SelectWebhookTriggers selects up to two webhook triggers of an automation.
func SelectWebhookTriggers(db bun.IDB, automation, provider string) *bun.SelectQuery {
	return db.NewSelect().Model((*TriggerRow)(nil)).Where("automation_id = ?", automation).Where("provider = ?", provider).
		Where("kind = ?", string(event.Webhooks)).Limit(2)
}

// ActiveTriggers returns an organization's enabled triggers of a provider,
// including those of disabled automations, in no order.
func (st *Store) ActiveTriggers(ctx context.Context, organization, provider string) ([]event.Trigger, error) {
	return database.List[event.Trigger](ctx, ActiveTriggers(st.db.Read, organization, provider))
}

// ActiveTriggers selects an organization's enabled triggers of a provider.
func ActiveTriggers(db bun.IDB, organization, provider string) *bun.SelectQuery {
	return database.RowsOf[TriggerRow](db, organization).Where("provider = ?", provider).Where("enabled = ?", true)
}

// UnverifiedEvents reports whether events that a broker did not verify may
// start runs in the organization.
func (st *Store) UnverifiedEvents(ctx context.Context, organization string) (bool, error) {
	s, err := st.history.Settings(ctx, organization)
	return s.UnverifiedEvents, err
}

// maxSecrets limits the unexpired secrets of an owner.
const maxSecrets = 5

// EndpointOwner is the owner of the secrets that sign requests to an
// organization's run endpoint. Other secrets are owned by their trigger.
const EndpointOwner = "endpoint"

// SigningRow is a row of the signing_secrets table.
type SigningRow struct {
	bun.BaseModel `bun:"table:signing_secrets"`
	event.Secret
	Organization string `bun:"organization_id"`
	Owner        string `bun:"owner_id"`
}

// Secrets returns the unexpired secrets of an owner, newest first.
func (st *Store) Secrets(ctx context.Context, db bun.IDB, organization, owner string) ([]event.Secret, error) {
	q := SelectLiveSecrets(db, organization, owner, database.NewTimestamp(st.db.Now())).ExcludeColumn("organization_id", "owner_id")
	return database.List[event.Secret](ctx, q)
}

// SelectLiveSecrets selects the unexpired secrets of an owner, newest first.
func SelectLiveSecrets(db bun.IDB, organization, owner string, now database.Timestamp) *bun.SelectQuery {
	return db.NewSelect().Model((*SigningRow)(nil)).Where("organization_id = ?", organization).Where("owner_id = ?", owner).
		Where("expires_at IS NULL OR expires_at > ?", now).OrderExpr("created_at DESC, id DESC")
}

// AddSecret inserts a secret and deletes the expired ones of its owner.
func (st *Store) AddSecret(ctx context.Context, tx bun.Tx, organization, owner string, s event.Secret) error {
	if s.ID == "" || len(s.Sealed) == 0 {
		return errors.New("a secret needs an ID and a sealed value")
	}
	now := database.NewTimestamp(st.db.Now())
	_, err := tx.NewDelete().Table("signing_secrets").Where("organization_id = ?", organization).Where("owner_id = ?", owner).
		Where("expires_at <= ?", now).Exec(ctx)
	if err != nil {
		return fmt.Errorf("deleting old secrets of %s: %w", owner, err)
	}
	n, err := tx.NewSelect().Table("signing_secrets").Where("organization_id = ?", organization).Where("owner_id = ?", owner).Count(ctx)
	if err != nil {
		return fmt.Errorf("counting the secrets of %s: %w", owner, err)
	}
	if n >= maxSecrets {
		return action.NewError("too_many_secrets", n)
	}
	r := &SigningRow{Secret: s, Organization: organization, Owner: owner}
	r.CreatedAt = database.NewTimestamp(s.CreatedAt).Or(now).Time
	if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
		return fmt.Errorf("writing a secret of %s: %w", owner, err)
	}
	return nil
}

// DeleteSecrets deletes the secrets of an owner.
func DeleteSecrets(ctx context.Context, tx bun.Tx, organization, owner string) error {
	_, err := tx.NewDelete().Table("signing_secrets").Where("organization_id = ?", organization).Where("owner_id = ?", owner).Exec(ctx)
	if err != nil {
		return fmt.Errorf("deleting the secrets of %s: %w", owner, err)
	}
	return nil
}

// SweepSigningSecrets deletes up to limit (zero: 100) secrets that expired
// before a time, and returns their number.
func (st *Store) SweepSigningSecrets(ctx context.Context, before time.Time, limit int) (int, error) {
	return st.db.DeleteExpired(ctx, ExpiredSecrets(before), limit)
}

// ExpiredSecrets selects the secrets that expired before a time.
func ExpiredSecrets(before time.Time) database.Expired {
	return database.Expired{Table: "signing_secrets", Key: "id", Time: "expires_at", Before: database.NewTimestamp(before).Or(database.Epoch)}
}
