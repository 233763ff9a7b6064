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

// Check asks the service whether the credential is good, and who keeps it whether
// there still is one, writes down what they say, and returns the integration as
// it is then. It takes as long as one request may. An error says why they could
// not be asked.
func (t *Tokens) Check(ctx context.Context, in action.Integration) (action.Integration, error) {
	at := place{in.Organization, in.ID}
	m := t.modules[in.Provider]
	asking, stop := context.WithTimeout(ctx, t.Timeout)
	defer stop()
	err := t.checkup(asking, m, at, true)
	h, readErr := t.reread(ctx, at)
	if readErr != nil {
		return in, readErr
	}
	h.in.Sealed = nil
	var shown *action.Error
	if h.in.Status != action.IntegrationActive && errors.As(err, &shown) && shown.Code == sources.FaultReconnect {
		err = nil // the row says it
	}
	return h.in, err
}

func (t *Tokens) checkup(ctx context.Context, m *sources.Module, at place, again bool) error {
	h, err := t.reread(ctx, at)
	if err != nil || h.in.Kind == action.KindNone || m == nil || m.Account == nil {
		return err
	}
	if err := t.kept(ctx, &h); err != nil {
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
		return t.revive(ctx, at)
	case errors.As(err, &no) && no.Credential:
		better, err := t.Refused(ctx, h.in, c.Token, refusalCode(no, c.Token))
		if better && again {
			return t.checkup(ctx, m, at, false)
		}
		return err
	case errors.As(err, &no):
		return t.refusedForm(m, no, c.Token)
	}
	return unanswered(m.Title, err)
}

// kept asks the one who keeps the credential whether there still is one: a token
// that is remembered here may outlive it.
func (t *Tokens) kept(ctx context.Context, h *owned) error {
	var err error
	switch {
	case h.in.Kind == action.KindApp:
		err = t.installed(ctx, h)
	case h.in.Broker == action.BrokerNango:
		_, err = t.brokersToken(ctx, h, false)
	default:
		return nil
	}
	if err == nil {
		t.forget(h.place()) // what failed a moment ago does not stand in the way
	}
	return unsent(err)
}

// revive writes that the credential is good, which may have been renewed for
// the question.
func (t *Tokens) revive(ctx context.Context, at place) error {
	h, err := t.reread(ctx, at)
	if err == nil && h.in.Status != action.IntegrationActive {
		t.setStatus(ctx, h.in, action.IntegrationActive, "")
	}
	return err
}

// Metadata answers what forms need: what the module says to the query, as JSON.
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
			return harmless(answer, c.Token)
		case !errors.As(err, &no):
			return nil, unanswered(m.Title, err)
		case !no.Credential:
			return nil, t.refusedForm(m, no, c.Token)
		}
		if better, err := t.Refused(ctx, in, c.Token, refusalCode(no, c.Token)); err != nil || !better || !again {
			if err == nil {
				err = t.refusedForm(m, no, c.Token)
			}
			return nil, err
		}
	}
}

// harmless is an answer as JSON. A service may repeat the credential in what it
// says.
func harmless(answer any, token string) (json.RawMessage, error) {
	raw, err := json.Marshal(answer)
	return redact.NewReplacer(token).Replace(raw), err
}

// refusedForm is a service's no for people.
func (t *Tokens) refusedForm(m *sources.Module, no *sources.Refusal, token string) error {
	return failing(sources.FaultRefused, nil, "%s refused (%s): %s", m.Title, refusalCode(no, token), clean(no.Message, token))
}
