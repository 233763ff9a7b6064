package sources

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sallyport/action"
	"sallyport/internal/jsonlex"
	"sallyport/internal/redact"
)

// bindFunc returns what tells for which integration a call would run, before a
// person is asked about it.
func (s *service) bindFunc(act *ModuleAction) func(context.Context, *action.Session, json.RawMessage) (action.Binding, error) {
	return func(ctx context.Context, who *action.Session, params json.RawMessage) (action.Binding, error) {
		in, err := s.chooseIntegration(ctx, who, act, params)
		if err != nil {
			return action.Binding{}, err
		}
		if act.Guard != nil {
			if no := asRefusal(act.Guard(in.Settings, params)); no != nil {
				return action.Binding{}, action.Errorf(action.ErrForbidden, no.Code, "%s: %s", s.Title, Printable(no.Message, maxRefusalText))
			}
		}
		return action.Binding{Integration: in.ID, Revision: fmt.Sprintf("%s %d", in.ID, in.Revision)}, nil
	}
}

// integrationFor is the integration of a call that runs, which is the one that a person
// approved it for, if he was asked.
func (s *service) integrationFor(ctx context.Context, caller action.Caller, act *ModuleAction, params json.RawMessage) (in action.Integration, err error) {
	who, err := s.catalog.Session(ctx, caller.Session())
	if err != nil {
		return in, err
	}
	in, err = s.chooseIntegration(ctx, who, act, params)
	if approved := caller.Integration(); err == nil && approved != "" && approved != in.ID {
		return in, action.Errorf(action.ErrUnavailable, FaultConfig, "The call would now run for another integration of %s than the one it was approved for; call again to have it approved anew.", s.Title)
	}
	return in, err
}

// chooseIntegration returns the integration that a call is for. Policy looked before; but
// only here are the params known.
func (s *service) chooseIntegration(ctx context.Context, who *action.Session, act *ModuleAction, params json.RawMessage) (in action.Integration, err error) {
	t := s.catalog.tenant(who.Organization)
	if err := t.load(ctx, false); err != nil {
		return in, err
	}
	all := t.currentIntegrations()
	if in, err = s.boundIntegration(who, all, params); err != nil || !act.AsUser {
		return in, err
	}
	if own, ok := who.OwnConnection(all, s.ID); ok && s.substitutes(own, in) {
		return onBehalf(own, in), nil
	}
	return in, nil
}

// substitutes reports whether a user's own connection reaches what the integration
// does that his session is bound to.
func (s *service) substitutes(own, in action.Integration) bool {
	return own.BaseURL == in.BaseURL && (!s.Workspace || own.Account == in.Account)
}

// onBehalf is a user's own connection in the place of the integration that his
// session is bound to. What an admin allows there holds for whoever acts.
func onBehalf(own, in action.Integration) action.Integration {
	own.Settings, own.TimeoutSeconds = in.Settings, in.TimeoutSeconds
	return own
}

// boundIntegration returns the one of the session's integrations that the params mean.
func (s *service) boundIntegration(who *action.Session, all []action.Integration, params json.RawMessage) (in action.Integration, err error) {
	bound := who.Bound(all, s.ID)
	active := slices.DeleteFunc(slices.Clone(bound), func(in action.Integration) bool { return in.Status != action.IntegrationActive })
	switch {
	case len(bound) == 0:
		return in, action.Errorf(action.ErrUnavailable, FaultConfig, "The session is not connected to %s; tell the user that it takes a session that is.", s.Title)
	case len(active) == 0:
		return in, s.unusableError(bound)
	case s.Choose != nil && len(bound) > 1:
		return s.moduleChoice(bound, params)
	case len(active) == 1:
		return active[0], nil
	}
	return in, action.Errorf(action.ErrUnavailable, FaultConfig, "The session is connected to several integrations of %s, and its actions are for one; tell the user that it takes a session with one of them.", s.Title)
}

// moduleChoice has the module tell by the params which one is meant. Dead ones are
// asked for, too: what is for one of them is for no other.
func (s *service) moduleChoice(bound []action.Integration, params json.RawMessage) (in action.Integration, err error) {
	i := s.Choose(params, bound)
	switch {
	case i < 0 || i >= len(bound):
		return in, action.NewError("ambiguous_integration", s.Title, joinEach(bound, integrationName))
	case bound[i].Status != action.IntegrationActive:
		return in, s.unusableError(bound[i : i+1])
	}
	return bound[i], nil
}

// unusableError says why none of a session's integrations can be used.
func (s *service) unusableError(bound []action.Integration) error {
	return action.Errorf(action.ErrUnavailable, FaultReconnect, "%s cannot be used: %s. Tell the user that a person must connect it again.", s.Title,
		joinEach(bound, func(in action.Integration) string {
			why := fmt.Sprintf("%s is %s", integrationName(in), in.Status)
			if in.Reason != "" {
				why += " (" + Printable(strings.TrimRight(in.Reason, ". "), maxRefusalText/3) + ")"
			}
			return why
		}))
}

// integrationName is what people call an integration. Who looks at a call learns no name
// of a private one.
func integrationName(in action.Integration) string {
	if in.Owner() != "" {
		return "a private integration"
	}
	return quote(in.Name)
}

// joinEach says something of each of a few integrations.
func joinEach(all []action.Integration, say func(action.Integration) string) string {
	var parts []string
	for _, in := range all[:min(len(all), maxListed)] {
		parts = append(parts, say(in))
	}
	if more := len(all) - maxListed; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

// maxRefusalText is how much of a refusal is told, in characters.
const maxRefusalText = 600

// run returns what runs an action of the module, for whichever organization the
// session is of.
func (s *service) run(act *ModuleAction) action.Run {
	return func(ctx context.Context, params json.RawMessage, caller action.Caller) (action.Result, error) {
		in, err := s.integrationFor(ctx, caller, act, params)
		if err != nil {
			return action.Result{}, notExecuted(err)
		}
		ctx, stop := context.WithTimeout(ctx, s.catalog.callTimeout(in))
		defer stop()
		return (&moduleCall{service: s, action: act, integration: in, params: params}).run(ctx)
	}
}

// moduleCall is one call of a module for an integration.
type moduleCall struct {
	*service
	action      *ModuleAction
	integration action.Integration
	params      json.RawMessage

	secrets []string // that were used
}

// run does it, and once more where the service did not take the credential
// and there is another one by now.
func (p *moduleCall) run(ctx context.Context) (action.Result, error) {
	out, token, err := p.attempt(ctx)
	if no := asRefusal(err); no != nil && no.Credential {
		again, lost := p.catalog.CredentialRefused(ctx, p.integration, token, string(p.redact([]byte(no.code()))))
		switch {
		case lost != nil && !needsPerson(lost):
			return p.textResult(nil), notExecuted(lost)
		case lost == nil && again:
			out, _, err = p.attempt(ctx)
		}
	}
	if no := asRefusal(err); no != nil {
		return p.refusedResult(no), nil
	}
	if err != nil {
		return p.textResult(nil), err
	}
	return p.result(out)
}

// code is the service's own, or the status where it has none.
func (r *Refusal) code() string {
	if r.Code == "" {
		return strconv.Itoa(r.Status)
	}
	return r.Code
}

// asRefusal returns why nothing was done, nil where that is not so: a service's
// no, or params that lead to no request.
func asRefusal(err error) (no *Refusal) {
	var e *action.Error
	if errors.As(err, &no) {
		return no
	}
	if errors.As(err, &e) && errors.Is(e.Kind, action.ErrInvalid) {
		return &Refusal{Code: e.Code, Message: e.Message}
	}
	return nil
}

// needsPerson tells whether the keeper of the credential says what the refusal says
// too, which has the service's own code beside it: that it takes a person.
func needsPerson(err error) bool {
	var e *action.Error
	return errors.As(err, &e) && e.Lasting()
}

// attempt does it with the credential as it is now.
func (p *moduleCall) attempt(ctx context.Context) (out json.RawMessage, token string, err error) {
	conn, err := p.catalog.Connect(ctx, p.integration)
	if err != nil {
		return nil, "", notExecuted(err)
	}
	if conn.Token != "" {
		p.secrets = append(p.secrets, conn.Token)
	}
	conn.Settings = p.integration.Settings
	out, err = p.action.Run(ctx, conn, p.params)
	return out, conn.Token, err
}

// result is the result of what the module returned. A service may repeat the
// credential in what it says.
func (p *moduleCall) result(out json.RawMessage) (action.Result, error) {
	if _, ok := Members(out); !ok {
		return p.textResult(nil), action.NewError("module_failed", p.Title)
	}
	return p.textResult(p.redact(out)), nil
}

// refusedResult is the result of a refusal, which is an answer too. What the service
// itself says is for people.
func (p *moduleCall) refusedResult(no *Refusal) action.Result {
	p.catalog.Log.Info("a service refused a call", "provider", p.ID, "action", p.action.Name, "integration", p.integration.ID, "why", p.refusalText(no))
	message := no.Message
	if no.Credential {
		whose, who := integrationName(p.integration), "a person"
		if p.integration.User != "" {
			whose, who = "the user's own connection", "he himself"
		}
		message = fmt.Sprintf("It does not take the credential of %s any more. Do not repeat the call: tell the user that %s must connect %s again.", whose, who, p.Title)
	}
	// Cleaned before it is cut: half a credential would not be found.
	text := p.redact(fmt.Appendf(nil, "%s refused (%s): %s", p.Title, no.code(), message))
	res := p.textResult([]byte(Printable(string(text), maxRefusalText)))
	res.IsError, res.Body = true, append(bytes.TrimSuffix(res.Body, []byte("}")), `,"isError":true}`...)
	return res
}

// refusalText is a refusal in full, without the credential.
func (p *moduleCall) refusalText(no *Refusal) string {
	return Printable(string(p.redact([]byte(no.Error()))), maxRefusalText)
}

// textResult makes a result of tools/call of a text without the credential; nil:
// none.
func (p *moduleCall) textResult(text []byte) action.Result {
	res := action.Result{Secrets: p.secrets, Integration: p.integration.ID}
	if text != nil {
		body := jsonlex.Quote([]byte(`{"content":[{"type":"text","text":`), text)
		res.Body = append(body, `}]}`...)
	}
	return res
}

func (p *moduleCall) redact(text []byte) []byte {
	return redact.NewReplacer(p.secrets...).Replace(text)
}

// notExecuted is an error of what comes before any request of a module: the service
// did nothing, whatever went wrong.
func notExecuted(err error) error {
	var e *action.Error
	switch {
	case errors.Is(err, action.ErrUnavailable):
		return err
	case errors.As(err, &e):
		return &action.Error{Kind: action.ErrUnavailable, Code: e.Code, Message: e.Message, RetryAfter: e.RetryAfter, Err: err}
	}
	return fmt.Errorf("%w: %w", action.ErrUnavailable, err)
}
