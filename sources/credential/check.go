package credential

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"

	"sallyport/action"
	"sallyport/internal/redact"
	"sallyport/sources"
)

// Check verifies the credential at the service, and at the broker if there is
// one, records the result and returns the updated integration. It takes at most
// one Timeout. An error says why the check was not possible.
func (t *Tokens) Check(ctx context.Context, in action.Integration) (action.Integration, error) {
	key := rowKey{in.Organization, in.ID}
	m := t.modules[in.Provider]
	asking, stop := context.WithTimeout(ctx, t.Timeout)
	defer stop()
	err := t.check(asking, m, key, true)
	h, readErr := t.reload(ctx, key)
	if readErr != nil {
		return in, readErr
	}
	h.in.Sealed = nil
	var shown *action.Error
	if h.in.Status != action.IntegrationActive && errors.As(err, &shown) && shown.Code == sources.FaultReconnect {
		err = nil // the row has the reason
	}
	return h.in, err
}

func (t *Tokens) check(ctx context.Context, m *sources.Module, key rowKey, again bool) error {
	h, err := t.reload(ctx, key)
	if err != nil || h.in.Kind == action.KindNone || m == nil || m.Account == nil {
		return err
	}
	if err := t.checkKeeper(ctx, &h); err != nil {
		return err
	}
	c, err := t.conn(ctx, &h)
	if err != nil {
		return err
	}
	_, err = m.Account(ctx, c)
	var no *sources.Refusal
	switch {
	case err == nil:
		return t.markActive(ctx, key)
	case errors.As(err, &no) && no.Credential:
		better, err := t.Refused(ctx, h.in, c.Token, refusalCode(no, c.Token))
		if better && again {
			return t.check(ctx, m, key, false)
		}
		return err
	case errors.As(err, &no):
		return t.refusedError(m, no, c.Token)
	}
	return requestError(m.Title, err)
}

// checkKeeper asks the broker or GitHub whether the credential still exists: a
// cached token can outlive it.
func (t *Tokens) checkKeeper(ctx context.Context, h *storedIntegration) error {
	var err error
	switch {
	case h.in.Kind == action.KindApp:
		err = t.checkInstallation(ctx, h)
	case h.in.Broker == action.BrokerNango:
		_, err = t.nangoToken(ctx, h, false)
	default:
		return nil
	}
	if err == nil {
		t.evict(h.key()) // an earlier failure no longer delays a renewal
	}
	return asUnavailable(err)
}

// markActive records that the credential works. It can have been renewed during
// the check.
func (t *Tokens) markActive(ctx context.Context, key rowKey) error {
	h, err := t.reload(ctx, key)
	if err == nil && h.in.Status != action.IntegrationActive {
		t.setStatus(ctx, h.in, action.IntegrationActive, "")
	}
	return err
}

// Metadata returns data for forms: the module's answer to the query, as JSON.
func (t *Tokens) Metadata(ctx context.Context, in action.Integration, q url.Values) (json.RawMessage, error) {
	m := t.modules[in.Provider]
	if m == nil || m.Metadata == nil {
		return nil, action.NewError("no_metadata", t.title(in.Provider))
	}
	for again := true; ; again = false {
		c, err := t.Conn(ctx, in)
		if err != nil {
			return nil, err
		}
		answer, err := m.Metadata(ctx, c, q)
		var no *sources.Refusal
		switch {
		case err == nil:
			return redactedJSON(answer, c.Token)
		case !errors.As(err, &no):
			return nil, requestError(m.Title, err)
		case !no.Credential:
			return nil, t.refusedError(m, no, c.Token)
		}
		if better, err := t.Refused(ctx, in, c.Token, refusalCode(no, c.Token)); err != nil || !better || !again {
			if err == nil {
				err = t.refusedError(m, no, c.Token)
			}
			return nil, err
		}
	}
}

// redactedJSON encodes an answer and redacts the credential, which a service
// can echo.
func redactedJSON(answer any, token string) (json.RawMessage, error) {
	raw, err := json.Marshal(answer)
	return redact.NewReplacer(token).Replace(raw), err
}

// refusedError returns a service's refusal as an error for people.
func (t *Tokens) refusedError(m *sources.Module, no *sources.Refusal, token string) error {
	return unavailable(sources.FaultRefused, nil, "%s refused (%s): %s", m.Title, refusalCode(no, token), redactText(no.Message, token))
}
