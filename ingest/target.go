package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"sallyport/action"
	"sallyport/ingest/event"
)

// target are triggers of an organization that hear of events, with the
// integration whose credential completes these.
type target struct {
	organization string
	integration  string // empty: there is none
	triggers     []event.Trigger
	// unverified tells that nobody vouches for the events, and that they start
	// nothing here.
	unverified bool
}

// own reads a delivery at a trigger's own URL. It is for that trigger alone.
func (w *Worker) own(ctx context.Context, look *lookup, rd *reading, d *event.Delivery) error {
	t, err := look.trigger(ctx, rd.receipt.Trigger)
	switch {
	case errors.Is(err, action.ErrNotFound) || err == nil && t.Provider != rd.receipt.Provider:
		rd.note = "The trigger of this URL is not there any more."
		return nil
	case err != nil:
		return err
	case !t.Enabled:
		rd.note = "The trigger of this URL is disabled."
		return nil
	}
	if _, err := w.parse(ctx, rd, t.Provider, d); err != nil {
		return err
	}
	rd.targets = []target{{organization: t.Organization, integration: t.Integration, triggers: []event.Trigger{t}}}
	return nil
}

// anybodys reads a delivery at a provider's URL. It is for all organizations
// that are connected with the account whose it is.
func (w *Worker) anybodys(ctx context.Context, look *lookup, rd *reading, d *event.Delivery) error {
	parsed, err := w.parse(ctx, rd, rd.receipt.Provider, d)
	if err != nil || len(parsed.Events) == 0 && parsed.Lifecycle == "" {
		return err
	}
	found, err := look.account(ctx, rd.receipt.Provider, parsed.Account)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		rd.note = w.nobodys(parsed.Account)
		return nil
	}
	rd.foreign(found)
	if err := w.installed(ctx, look, found, parsed.Lifecycle); err != nil {
		return err
	}
	rd.targets, err = w.targets(ctx, look, rd, found)
	return err
}

// nobodys says whose account nobody is connected with.
func (w *Worker) nobodys(account string) string {
	if account == "" {
		return "It does not say of which account it is, so nobody was told. Have the service post it to a trigger's own URL."
	}
	return fmt.Sprintf(nobodysAccount, w.match.line(account, keptLine))
}

const nobodysAccount = "There is no integration of the account %s that the service itself vouches for, so nobody was told. Connect it by OAuth or as an app, for the whole organization; then have this delivery worked off again."

// foreign forgets what people see of a delivery that is of others than the
// organization that has its row.
func (rd *reading) foreign(found []action.Integration) {
	if slices.ContainsFunc(found, func(in action.Integration) bool { return in.Organization != rd.receipt.Organization }) {
		rd.shown = nil
	}
}

// vouched reports whether the service itself said whose account an integration
// has: it connected the account to the gateway's own app. Otherwise anybody who
// runs a server that speaks like the service could name an account of others, and
// hear what happens there. The operator's own people are trusted.
func (w *Worker) vouched(in action.Integration) bool {
	if in.Organization == w.Operator {
		return true
	}
	return in.BaseURL == "" && in.Owner() == "" && (in.Kind == action.KindOAuth2 || in.Kind == action.KindApp)
}

// targets returns who hears of the events, by the integrations whose account
// they are of.
func (w *Worker) targets(ctx context.Context, look *lookup, rd *reading, found []action.Integration) (all []target, err error) {
	if len(rd.events) == 0 {
		return nil, nil
	}
	for _, mine := range byOrganization(found) {
		triggers, err := look.active(ctx, mine[0].Organization, mine[0].Provider)
		if err != nil {
			return nil, err
		}
		all = append(all, heard(mine[0].Organization, triggers, mine)...)
	}
	return all, nil
}

func byOrganization(found []action.Integration) (groups [][]action.Integration) {
	at := map[string]int{}
	for _, in := range found {
		i, known := at[in.Organization]
		if !known {
			i = len(groups)
			at[in.Organization], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], in)
	}
	return groups
}

func unusable(in action.Integration) int {
	if in.Status == action.IntegrationActive {
		return 0
	}
	return 1
}

// heard sorts an organization's triggers by the integration that each hears
// the events of, and leaves out those that hear of none.
func heard(organization string, triggers []event.Trigger, found []action.Integration) (all []target) {
	// Where there are several, one that can be used is the one that completes.
	slices.SortStableFunc(found, func(a, b action.Integration) int { return cmp.Compare(unusable(a), unusable(b)) })
	for _, t := range triggers {
		i := slices.IndexFunc(found, func(in action.Integration) bool {
			// What happens at an account that a user has for himself is no affair of
			// triggers, whatever it was when they were made; nor is one that the
			// service took away.
			return in.Owner() == "" && in.Status != action.IntegrationRevoked && (in.ID == t.Integration || t.Integration == "")
		})
		if i < 0 || t.Kind != event.Webhooks {
			continue
		}
		by := found[i].ID
		if at := slices.IndexFunc(all, func(o target) bool { return o.integration == by }); at >= 0 {
			all[at].triggers = append(all[at].triggers, t)
			continue
		}
		all = append(all, target{organization: organization, integration: by, triggers: []event.Trigger{t}})
	}
	return all
}
