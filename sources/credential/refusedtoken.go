package credential

import (
	"context"
	"errors"

	"sallyport/action"
	"sallyport/sources"
)

// Refused is told that the service did not take the integration's credential,
// which was token, and did nothing. again reports whether there is another one
// by now, to try once. An error says what is to be done instead; of kind
// ErrUnavailable. why is the service's, for people.
func (t *Tokens) Refused(ctx context.Context, in action.Integration, token, why string) (again bool, err error) {
	at := place{in.Organization, in.ID}
	h, err := t.reread(ctx, at)
	if err != nil {
		return false, unread(err)
	}
	switch {
	case h.in.Status != action.IntegrationActive:
		return false, t.over(&h.in)
	case h.in.Kind == action.KindNone:
		return false, nil
	case h.in.Kind == action.KindOAuth2 && h.in.Broker == action.BrokerOwn:
		return t.refusedAccess(ctx, &h, token, why)
	case h.in.Kind == action.KindOAuth2 || h.in.Kind == action.KindApp:
		return t.refusedMinted(ctx, &h, token)
	case h.cred.Value != token:
		return true, nil
	}
	return false, t.refusedValue(ctx, at, token, why)
}

// refusedValue writes down that a key is of no use, unless another was set, or
// it is of use.
func (t *Tokens) refusedValue(ctx context.Context, at place, token, why string) error {
	return t.alone(ctx, at, func() error {
		h, err := t.reread(ctx, at)
		if err != nil {
			return unread(err)
		}
		if h.cred.Value != token {
			return failing(sources.FaultCredential, nil, "The credential was replaced just now; try again.")
		}
		return t.refusedForGood(ctx, &h, token, why)
	})
}

// refusedForGood buries a credential that cannot be renewed, when the service
// does not take it for what every credential is good for either: some refuse so
// what a credential merely is not allowed to do.
func (t *Tokens) refusedForGood(ctx context.Context, h *owned, token, why string) error {
	m := t.modules[h.in.Provider]
	if m == nil || m.Account == nil {
		return t.bury(ctx, h, action.IntegrationRevoked, t.reason(&h.in, token, why))
	}
	c, err := t.connWith(h, token)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, t.Timeout)
	defer stop()
	_, err = m.Account(ctx, c)
	var no *sources.Refusal
	switch {
	case errors.As(err, &no) && no.Credential:
		return t.bury(ctx, h, action.IntegrationRevoked, t.reason(&h.in, token, why))
	case err == nil || no != nil:
		return failing(sources.FaultRefused, nil, "%s refused this%s, though it still takes the credential, which may lack a right that it takes; see to its rights there, or connect another one.",
			m.Title, beside(why, token))
	}
	return unanswered(m.Title, err)
}

// reason says that the service does not take the credential, with its words.
func (t *Tokens) reason(in *action.Integration, token, why string) string {
	return t.title(in.Provider) + " does not take the credential any more" + beside(why, token) + "; connect it again."
}

// beside is what a service says, where it says anything.
func beside(why, token string) string {
	if why = clean(why, token); why != "" {
		return " (" + why + ")"
	}
	return ""
}

// refusedAccess replaces an access token. One that was had just now is not
// replaced: the next one would be refused as well.
func (t *Tokens) refusedAccess(ctx context.Context, h *owned, token, why string) (bool, error) {
	if h.cred.Access != token {
		return true, nil
	}
	if t.Now().Sub(h.cred.IssuedAt) < young {
		return false, t.tooYoung(&h.in)
	}
	if h.cred.Refresh == "" {
		err := t.alone(ctx, h.place(), func() error {
			now, err := t.reread(ctx, h.place())
			if err != nil {
				return unread(err)
			}
			if now.cred.Access != token {
				return nil
			}
			return t.refusedForGood(ctx, &now, token, why)
		})
		return err == nil, err
	}
	_, err := t.renew(ctx, h, func(c *cred) bool { return c.Access == token })
	return err == nil, unsent(err)
}

// refusedMinted has a token made anew.
func (t *Tokens) refusedMinted(ctx context.Context, h *owned, token string) (bool, error) {
	if m, ok := t.remembered(h); ok && m.token == token && t.Now().Sub(m.at) < young {
		return false, t.tooYoung(&h.in)
	}
	next, err := t.mint(ctx, h, token)
	if err == nil && next == token {
		return false, t.tooYoung(&h.in)
	}
	return err == nil, err
}

func (t *Tokens) tooYoung(in *action.Integration) error {
	return failing(sources.FaultAuth, nil, "%s refuses a token that was had just now; try again in a minute, and connect it again if that does not help.", t.title(in.Provider))
}
