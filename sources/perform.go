package sources

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"sallyport/action"
	"sallyport/internal/jsonlex"
	"sallyport/internal/redact"
)

// maxRefusal is how much of a refusal is told, in characters.
const maxRefusal = 600

// run returns what runs an action of the module, for whichever organization the
// session is of.
func (s *service) run(act *ModuleAction) action.Run {
	return func(ctx context.Context, params json.RawMessage, caller action.Caller) (action.Result, error) {
		in, err := s.chosen(ctx, caller, act, params)
		if err != nil {
			return action.Result{}, undone(err)
		}
		ctx, stop := context.WithTimeout(ctx, s.catalog.given(in))
		defer stop()
		return (&performance{service: s, act: act, in: in, params: params}).perform(ctx)
	}
}

// performance is one call of a module for an integration.
type performance struct {
	*service
	act    *ModuleAction
	in     action.Integration
	params json.RawMessage

	secrets []string // that were used
}

// perform does it, and once more where the service did not take the credential
// and there is another one by now.
func (p *performance) perform(ctx context.Context) (action.Result, error) {
	out, token, err := p.attempt(ctx)
	if no := refusal(err); no != nil && no.Credential {
		again, lost := p.catalog.Refused(ctx, p.in, token, string(p.clean([]byte(no.code()))))
		switch {
		case lost != nil && !lasting(lost):
			return p.result(nil), undone(lost)
		case lost == nil && again:
			out, _, err = p.attempt(ctx)
		}
	}
	if no := refusal(err); no != nil {
		return p.refused(no), nil
	}
	if err != nil {
		return p.result(nil), err
	}
	return p.answered(out)
}

// code is the service's own, or the status where it has none.
func (r *Refusal) code() string {
	if r.Code == "" {
		return strconv.Itoa(r.Status)
	}
	return r.Code
}

// refusal returns why nothing was done, nil where that is not so: a service's
// no, or params that lead to no request.
func refusal(err error) (no *Refusal) {
	var e *action.Error
	if errors.As(err, &no) {
		return no
	}
	if errors.As(err, &e) && errors.Is(e.Kind, action.ErrInvalid) {
		return &Refusal{Code: e.Code, Message: e.Message}
	}
	return nil
}

// lasting tells whether the keeper of the credential says what the refusal says
// too, which has the service's own code beside it: that it takes a person.
func lasting(err error) bool {
	var e *action.Error
	return errors.As(err, &e) && e.Lasting()
}

// attempt does it with the credential as it is now.
func (p *performance) attempt(ctx context.Context) (out json.RawMessage, token string, err error) {
	conn, err := p.catalog.Connect(ctx, p.in)
	if err != nil {
		return nil, "", undone(err)
	}
	if conn.Token != "" {
		p.secrets = append(p.secrets, conn.Token)
	}
	conn.Settings = p.in.Settings
	out, err = p.act.Run(ctx, conn, p.params)
	return out, conn.Token, err
}

// answered is the result of what the module returned. A service may repeat the
// credential in what it says.
func (p *performance) answered(out json.RawMessage) (action.Result, error) {
	if _, ok := Members(out); !ok {
		return p.result(nil), action.NewError("module_failed", p.Title)
	}
	return p.result(p.clean(out)), nil
}

// refused is the result of a refusal, which is an answer too. What the service
// itself says is for people.
func (p *performance) refused(no *Refusal) action.Result {
	p.catalog.Log.Info("a service refused a call", "provider", p.ID, "action", p.act.Name, "integration", p.in.ID, "why", p.why(no))
	message := no.Message
	if no.Credential {
		whose, who := named(p.in), "a person"
		if p.in.User != "" {
			whose, who = "the user's own connection", "he himself"
		}
		message = fmt.Sprintf("It does not take the credential of %s any more. Do not repeat the call: tell the user that %s must connect %s again.", whose, who, p.Title)
	}
	// Cleaned before it is cut: half a credential would not be found.
	text := p.clean(fmt.Appendf(nil, "%s refused (%s): %s", p.Title, no.code(), message))
	res := p.result([]byte(Printable(string(text), maxRefusal)))
	res.IsError, res.Body = true, append(bytes.TrimSuffix(res.Body, []byte("}")), `,"isError":true}`...)
	return res
}

// why is a refusal in full, without the credential.
func (p *performance) why(no *Refusal) string {
	return Printable(string(p.clean([]byte(no.Error()))), maxRefusal)
}

// result makes a result of tools/call of a text without the credential; nil:
// none.
func (p *performance) result(text []byte) action.Result {
	res := action.Result{Secrets: p.secrets, Integration: p.in.ID}
	if text != nil {
		body := jsonlex.Quote([]byte(`{"content":[{"type":"text","text":`), text)
		res.Body = append(body, `}]}`...)
	}
	return res
}

func (p *performance) clean(text []byte) []byte {
	return redact.NewReplacer(p.secrets...).Replace(text)
}

// undone is an error of what comes before any request of a module: the service
// did nothing, whatever went wrong.
func undone(err error) error {
	var e *action.Error
	switch {
	case errors.Is(err, action.ErrUnavailable):
		return err
	case errors.As(err, &e):
		return &action.Error{Kind: action.ErrUnavailable, Code: e.Code, Message: e.Message, RetryAfter: e.RetryAfter, Err: err}
	}
	return fmt.Errorf("%w: %w", action.ErrUnavailable, err)
}
