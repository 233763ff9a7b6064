package credential

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"sallyport/action"
)

// brokeredFor is how long the connections at the broker are taken as they were
// read: a delivery of a new one that comes sooner is tried again.
const brokeredFor = 5 * time.Second

// brokered knows which integrations the broker keeps as which connections.
type brokered struct {
	one  singleflight.Group
	last atomic.Pointer[connections] // nil: they were never read
}

// connections are those at one Nango. They do not change.
type connections struct {
	operator string
	readAt   time.Time
	found    map[connection][]action.Integration
}

// connection is one at the broker, as the broker names it.
type connection struct{ id, key string }

// Brokered returns the integrations that the operator's Nango keeps as a
// connection under one of its names for a provider, without credentials: whose
// event a delivery of it is. They are those of all organizations that use the
// operator's Nango with its API key: at any other, who runs it names connections
// as he likes. A connection that several of them claim is nobody's, since its id
// is all that tells whose it is.
func (t *Tokens) Brokered(ctx context.Context, operator, id, key string) ([]action.Integration, error) {
	all, err := t.connections(ctx, operator)
	if err != nil {
		return nil, err
	}
	list := all.found[connection{id, key}]
	for _, in := range list {
		if in.Organization != list[0].Organization {
			return nil, action.NewError("connection_claimed")
		}
	}
	return list, nil
}

// connections returns those that were read a moment ago, or has them read, for
// all who ask meanwhile at once.
func (t *Tokens) connections(ctx context.Context, operator string) (*connections, error) {
	b := &t.brokered
	recent := func() *connections {
		if last := b.last.Load(); last != nil && last.operator == operator && t.Now().Sub(last.readAt) <= brokeredFor {
			return last
		}
		return nil
	}
	if last := recent(); last != nil {
		return last, nil
	}
	reading := b.one.DoChan(operator, func() (any, error) {
		if last := recent(); last != nil { // they were read in this moment
			return last, nil
		}
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), t.Timeout) // it is for others, too
		defer stop()
		read, err := t.readConnections(ctx, operator)
		if err == nil {
			b.last.Store(read)
		}
		return read, err
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case got := <-reading:
		return got.Val.(*connections), got.Err
	}
}

// readConnections reads them all. What cannot be opened is left out, and told.
func (t *Tokens) readConnections(ctx context.Context, operator string) (*connections, error) {
	all := &connections{operator: operator, readAt: t.Now(), found: map[connection][]action.Integration{}}
	list, err := t.Store.BrokeredIntegrations(ctx, action.BrokerNango)
	if err != nil {
		return nil, fmt.Errorf("reading which connections the broker keeps: %w", err)
	}
	theirs, err := t.nangoOf(ctx, operator)
	if err != nil || theirs == nil {
		return all, err
	}
	shares := map[string]bool{operator: true}
	for _, in := range list {
		same, known := shares[in.Organization]
		if !known {
			app, err := t.nangoOf(ctx, in.Organization)
			if err != nil {
				return nil, err
			}
			same = theirs.sameNango(app)
			shares[in.Organization] = same
		}
		if same {
			t.addConnection(all, in)
		}
	}
	return all, nil
}

func (t *Tokens) addConnection(all *connections, in action.Integration) {
	var c cred
	if err := unseal(t.Vault, integrationRef(in.Organization, in.ID), in.Sealed, &c); err != nil {
		t.Log.Error("opening the credential of an integration", "integration", in.ID, "error", err)
		return
	}
	in.Sealed = nil
	at := connection{c.Connection, c.Key}
	all.found[at] = append(all.found[at], in)
}

// nangoOf returns an organization's registration at Nango; nil: it has none that
// can be used, which is told where it is broken.
func (t *Tokens) nangoOf(ctx context.Context, organization string) (*registration, error) {
	app, err := t.Store.ProviderApp(ctx, organization, string(action.BrokerNango))
	if errors.Is(err, action.ErrNotFound) {
		return nil, nil //nolint:nilnil // there is none, which is no error
	}
	if err != nil {
		return nil, fmt.Errorf("reading who uses which Nango: %w", err)
	}
	r, err := t.opened(app)
	if err != nil {
		t.Log.Error("opening a registration at Nango", "organization", organization, "error", err)
		return nil, nil //nolint:nilnil // nobody else has to do with it
	}
	return r, nil
}

// sameNango reports whether both are used at the same place with the same key.
func (r *registration) sameNango(other *registration) bool {
	if other == nil || nangoBase(r) != nangoBase(other) {
		return false
	}
	mine, theirs := r.secrets[action.AppAPIKey], other.secrets[action.AppAPIKey]
	return mine != "" && subtle.ConstantTimeCompare([]byte(mine), []byte(theirs)) == 1
}
