package dashboard

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"sallyport/action"
	"sallyport/api"
	agents "sallyport/internal/agent"
)

// oneKey is the idempotency key of a request that may name it twice.
func oneKey(field, header string) (string, error) {
	if field != "" && header != "" && field != header {
		return "", invalid("/idempotency_key", "The header Idempotency-Key and the field idempotency_key differ; send one of them.")
	}
	return cmp.Or(field, header), nil
}

// newSessionOnce binds the wish to who has it: nobody gets another's token by his key.
func newSessionOnce(n api.NewSession, p *Principal) action.Once {
	key := n.IdempotencyKey
	n.IdempotencyKey = ""
	text, _ := json.Marshal([]any{p.By(), n}) // texts alone: cannot fail
	sum := sha256.Sum256(text)
	return action.Once{Key: key, Hash: hex.EncodeToString(sum[:])}
}

const never = "never"

// idleTimeout reads how long a session may be idle.
func idleTimeout(text string) (time.Duration, error) {
	switch text {
	case "":
		return 0, nil
	case never:
		return action.NeverIdle, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d > maxSessionTTL || d%time.Second != 0 {
		return 0, invalid("/idle_timeout", "idle_timeout must be never, or whole seconds up to 8760h, such as 30m.")
	}
	return d, nil
}

func canonicalModel(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	m, err := agents.FindModel(name)
	if err != nil {
		return "", placed(err, "/model")
	}
	return m.ID, nil
}

// resolveWithin is how long minting waits for services that renew tokens. What
// is not known by then is bound: a service that is slow may work a moment later.
const resolveWithin = 10 * time.Second

// working divides integrations into those that a session is bound to and those
// for which no token can be had.
func (s *Server) working(ctx context.Context, p *Principal, ids []string) (bound []string, left []action.LeftOut, err error) {
	if len(ids) == 0 || slices.Equal(ids, []string{action.AllConnections}) {
		return ids, nil, nil
	}
	all, err := s.Sources.ListIntegrations(ctx, p.Organization, p.viewer())
	if err != nil {
		return nil, nil, err
	}
	ctx, stop := context.WithTimeout(ctx, resolveWithin)
	defer stop()
	for _, id := range ids {
		i := slices.IndexFunc(all, func(in action.Integration) bool { return in.ID == id })
		if i < 0 { // the rows say what is wrong with it
			bound = append(bound, id)
			continue
		}
		view := s.viewIntegration(all[i])
		if view.Why == "" {
			view.Why = plain(s.Connections.Unusable(ctx, all[i]))
		}
		if view.Why == "" {
			bound = append(bound, id)
			continue
		}
		left = append(left, action.LeftOut{Integration: id, Name: cmp.Or(all[i].Name, view.Title), Reason: view.Why})
	}
	return bound, left, nil
}
