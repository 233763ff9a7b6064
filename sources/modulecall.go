package sources

import (
	"bytes"
	"cmp"
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

// bindFunc returns the function that determines the integration of a call
// before an approval is requested.
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
		return action.Binding{Integration: in.ID, Revision: fmt.Sprintf("%s %d", in.ID, in.Revision), Production: act.production(in, params)}, nil
	}
}

// production says why a call for the integration changes production; empty: it
// does not.
func (a *ModuleAction) production(in action.Integration, params json.RawMessage) string {
	if a.Production == nil {
		return ""
	}
	return Printable(a.Production(in.Settings, params), maxRefusalText)
}

// integrationFor returns the integration of a call that is about to run. If the
// call was approved for another integration, it returns an error.
func (s *service) integrationFor(ctx context.Context, caller action.Caller, act *ModuleAction, params json.RawMessage) (in action.Integration, err error) {
	who, err := s.catalog.Session(ctx, caller.Session())
	if err != nil {
		return in, err
	}
	in, err = s.chooseIntegration(ctx, who, act, params)
	if approved := caller.Integration(); err == nil && approved != "" && approved != in.ID {
		return in, action.Errorf(action.ErrUnavailable, FaultConfig, "The call would now run for another integration of %s than the one it was approved for. Call again to request a new approval.", s.Title)
	}
	return in, err
}

// chooseIntegration returns the integration of a call. Policy has been
// evaluated by then, but the integration depends on the params, which only the
// module understands.
func (s *service) chooseIntegration(ctx context.Context, who *action.Session, act *ModuleAction, params json.RawMessage) (in action.Integration, err error) {
	t := s.catalog.tenant(who.Organization)
	if err := t.load(ctx, false); err != nil {
		return in, err
	}
	t.mu.Lock()
	all := t.integrations
	t.mu.Unlock()
	if in, err = s.boundIntegration(who, all, params); err != nil || !act.AsUser {
		return in, err
	}
	// A user's own connection replaces the integration if it reaches the same
	// place. What an admin permits there applies to every user.
	if own, ok := who.OwnConnection(all, s.ID); ok && own.BaseURL == in.BaseURL && (!s.Workspace || own.Account == in.Account) {
		own.Settings, own.TimeoutSeconds = in.Settings, in.TimeoutSeconds
		return own, nil
	}
	return in, nil
}

// boundIntegration returns the session's integration that the params refer to.
func (s *service) boundIntegration(who *action.Session, all []action.Integration, params json.RawMessage) (in action.Integration, err error) {
	bound := who.Bound(all, s.ID)
	active := slices.DeleteFunc(slices.Clone(bound), func(in action.Integration) bool { return in.Status != action.IntegrationActive })
	switch {
	case len(bound) == 0:
		return in, action.Errorf(action.ErrUnavailable, FaultConfig, "The session is not connected to %s. Tell the user that a session with an integration of it is required.", s.Title)
	case len(active) == 0:
		return in, s.unusableError(bound)
	case s.Choose != nil && len(bound) > 1:
		return s.moduleChoice(bound, params)
	case len(active) == 1:
		return active[0], nil
	}
	return in, action.Errorf(action.ErrUnavailable, FaultConfig, "The session is connected to several integrations of %s, but its actions need exactly one. Tell the user that a session with one of them is required.", s.Title)
}

// moduleChoice lets the module select the integration by the params. Inactive
// ones can be selected, too: a call for one of them is not for any other.
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

// integrationName returns the display name of an integration. It hides the name
// of a private one.
func integrationName(in action.Integration) string {
	if in.Owner() != "" {
		return "a private integration"
	}
	return quote(in.Name)
}

// joinEach joins a text for each of the first few.
func joinEach[T any](all []T, say func(T) string) string {
	var parts []string
	for _, in := range all[:min(len(all), maxListed)] {
		parts = append(parts, say(in))
	}
	if more := len(all) - maxListed; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

// maxRefusalText bounds the text of a refusal, in characters.
const maxRefusalText = 600

// run returns the function that runs an action of the module, for the
// organization of the calling session.
func (s *service) run(act *ModuleAction) action.Run {
	return func(ctx context.Context, params json.RawMessage, caller action.Caller) (action.Result, error) {
		in, err := s.integrationFor(ctx, caller, act, params)
		if err == nil && !caller.Production() && act.production(in, params) != "" { // decided before the settings changed, or while they could not be read
			err = action.Errorf(action.ErrUnavailable, FaultConfig, "The call changes production at %s, and was not decided as such. Call again.", s.Title)
		}
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

	secrets []string // used so far
}

// run executes the call, and retries once if the service refused the credential
// and there is a new one by then.
func (p *moduleCall) run(ctx context.Context) (action.Result, error) {
	out, token, err := p.attempt(ctx)
	if no := asRefusal(err); no != nil && no.Credential {
		again, lost := p.catalog.CredentialRefused(ctx, p.integration, token, string(p.redact([]byte(no.code()))))
		switch {
		case lost != nil && !action.Public(lost).Persistent(): // otherwise the refusal says it, with the service's own code
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
	if _, ok := Members(out); !ok {
		return p.textResult(nil), action.NewError("module_failed", p.Title)
	}
	return p.textResult(p.redact(out)), nil // a service may echo the credential
}

// code returns the service's error code, or the HTTP status if there is none.
func (r *Refusal) code() string { return cmp.Or(r.Code, strconv.Itoa(r.Status)) }

// asRefusal returns the refusal in err: that of the service, or one for invalid
// params, which cause no request. Nil: err is something else.
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

// attempt executes the call with the current credential.
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

// refusedResult returns a refusal as an error result. The service's own text is
// only logged.
func (p *moduleCall) refusedResult(no *Refusal) action.Result {
	p.catalog.Log.Info("a service refused a call", "provider", p.ID, "action", p.action.Name, "integration", p.integration.ID, "why", Printable(string(p.redact([]byte(no.Error()))), maxRefusalText))
	message := no.Message
	fault := ""
	if no.Credential {
		fault = FaultAuth
		whose, who := integrationName(p.integration), "a person"
		if p.integration.User != "" {
			whose, who = "the user's own connection", "they"
		}
		message = fmt.Sprintf("It no longer accepts the credential of %s. Do not repeat the call: tell the user that %s must connect %s again.", whose, who, p.Title)
	}
	// Redact before truncating: half a credential would not be recognized.
	text := p.redact(fmt.Appendf(nil, "%s refused (%s): %s", p.Title, no.code(), message))
	res := p.textResult([]byte(Printable(string(text), maxRefusalText)))
	res.Fault, res.IsError, res.Body = fault, true, append(bytes.TrimSuffix(res.Body, []byte("}")), `,"isError":true}`...)
	return res
}

// textResult returns a tools/call result with the text, which no longer holds
// the credential. Nil: an empty result.
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

// notExecuted wraps an error that occurs before any request of a module:
// whatever went wrong, the service did nothing.
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
