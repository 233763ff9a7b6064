package credential

import (
	"context"
	"errors"
	"net/url"

	"sallyport/action"
)

// Finish ends a sign-in with what the authorization server sent the person
// back with: state, code, iss, and problem, which is its parameter "error". It
// must be of the organization and by the person that began it. The sign-in is
// over then, in whichever way: another one needs another Begin. It returns the
// id of the connector wherever that is known.
func (o *OAuth) Finish(ctx context.Context, organization, by, state, code, iss, problem string) (connector string, err error) {
	b, connector, err := o.resume(ctx, organization, by, state)
	if err != nil {
		return connector, err
	}
	switch {
	case iss != b.Issuer && (iss != "" || b.Iss):
		return connector, unfinished("The answer is not of the authorization server that was asked. Somebody may have tampered with it; begin again.")
	case problem != "":
		return connector, unfinished("The authorization server did not let the gateway in: %s. Begin again, and allow what it asks for.", errorCode(problem))
	case code == "":
		return connector, unfinished("The authorization server's answer has no code in it; begin again.")
	}
	r, err := o.reach(b.Server)
	if err != nil {
		return connector, err
	}
	k := &kept{target: b.target, issued: issued{Granted: b.Scopes}}
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {o.RedirectURL}, "code_verifier": {b.Verifier},
	}
	// The code is good once: from here on the person's leaving stops nothing.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), maxBegin)
	defer stop()
	if err := r.exchange(ctx, organization, k, form); err != nil {
		return connector, err
	}
	return connector, o.keep(ctx, organization, connector, by, k)
}

// codeNoFlow is of a state that no sign-in to a connector has.
const codeNoFlow = "no_such_sign_in"

func unfinished(format string, args ...any) error {
	return action.Errorf(action.ErrInvalid, codeFlow, format, args...)
}

// resume takes the flow of a state.
func (o *OAuth) resume(ctx context.Context, organization, by, state string) (b begun, connector string, err error) {
	now := o.Now()
	f, err := o.Store.TakeOAuthFlow(ctx, hash(state), now)
	if errors.Is(err, action.ErrNotFound) || err == nil && !now.Before(f.ExpiresAt) {
		return b, "", action.Errorf(action.ErrInvalid, codeNoFlow, "This sign-in is over, took too long, or was never begun; begin again on the connector's page.")
	}
	if err != nil {
		return b, "", err
	}
	if f.Organization != organization || f.By != by {
		return b, "", action.Errorf(action.ErrForbidden, codeFlow, "Another person began this sign-in, and only that person can end it; begin your own on the connector's page.")
	}
	return b, f.Connector, unseal(o.Vault, flowRef(organization, f.StateHash), f.Sealed, &b)
}

// keep writes what a person's sign-in gave, over whatever was there.
func (o *OAuth) keep(ctx context.Context, organization, connector, by string, k *kept) error {
	at := place{organization, connector}
	return o.alone(ctx, at, func() error {
		for attempt := 1; ; attempt++ {
			g, _, err := o.readGrant(ctx, organization, connector)
			if err != nil && len(g.Sealed) == 0 {
				return err
			}
			g.Organization, g.Connector, g.Status, g.By = organization, connector, action.OAuthConnected, by
			err = o.write(ctx, g, k)
			if err == nil || attempt == 3 || !errors.Is(err, action.ErrConflict) {
				o.forget(at)
				return err
			}
		}
	})
}
