package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
)

type grantCommand struct {
	Create   grantCreate                                             `cmd:"" set:"of_grant=" aliases:"set" help:"Pre-approve calls. Without flags the grant has no limits; set --session, --max-calls or --expires."`
	List     request[api.ListGrantsInput, api.List[api.GrantView]]   `cmd:"" help:"List grants."`
	Remove   request[api.ByID, api.GrantView]                        `cmd:"" aliases:"revoke" help:"Revoke a grant; takes effect at the next call."`
	Requests grantRequests                                           `cmd:"" help:"List grant requests of agents."`
	Approve  grantApprove                                            `cmd:"" set:"of_grant=" help:"Approve a grant request, as requested or narrower."`
	Deny     request[api.ByIDWith[*api.Refusal], api.RequestOutcome] `cmd:"" help:"Deny a grant request."`
}

// termsText describes the calls that the terms cover.
func termsText(t *action.Terms, name string) string {
	source, text := sourceName(name, t.Source), ""
	switch {
	case t.Any && t.Source == "":
		text = "any action of any source that is not dangerous"
	case t.Any:
		text = "any action of " + source + " that is not dangerous"
	default:
		text = actionLabel(name, t.Source, t.Action)
	}
	for i, pointer := range slices.Sorted(maps.Keys(t.Pins)) {
		text += []string{" with ", " and "}[min(i, 1)] + pointer + "=" + string(t.Pins[pointer])
	}
	return text
}

// limitsText describes the call limit and the expiry of the terms.
func limitsText(t *action.Terms) string {
	calls := "any number of calls"
	if t.MaxCalls != nil {
		calls = command.Plural(*t.MaxCalls, "call")
	}
	return calls + "; " + expiryText(t.ExpiresAt)
}

// grantScope describes the sessions that the grant covers.
func grantScope(g *api.GrantView) string {
	if g.Scope == action.ScopeSession {
		return "session " + g.Session
	}
	return "all sessions"
}

// showGrant prints the grant and the command that revokes it.
func showGrant(w io.Writer, g *api.GrantView, r *clientFlags) {
	printLine(w, fmt.Sprintf("grant %s allows %s for %s: %s", g.ID, termsText(&g.Terms, g.Name), grantScope(g), limitsText(&g.Terms)))
	printLine(w, "revoke it with: "+r.hint("grant", "remove", g.ID))
}

type grantCreate struct {
	clientFlags
	grantLimits
	Key string `arg:"" optional:"" help:"source:action; name a connector by name, slug or ID."`
	api.NewGrant
	Pin []pin `sep:"none" env:"-" placeholder:"/PARAM=JSON" help:"Only calls with exactly this param value; repeat for more."`
}

func (c *grantCreate) Run(ctx context.Context, std *command.Streams) (err error) {
	in := c.NewGrant
	in.Scope = api.ScopeName(action.ScopeOrganization)
	if c.Session != "" {
		in.Scope = api.ScopeName(action.ScopeSession)
	}
	if in.Pins, err = pinsByParam(c.Pin); err != nil {
		return err
	}
	in.MaxCalls, in.Lifetime = c.grantLimits.MaxCalls, c.Expires.Lifetime
	if err = c.setAction(&in); err != nil {
		return err
	}
	return perform(ctx, &c.clientFlags, std, api.CreateGrant, api.Body[api.NewGrant]{Body: in}, func(w io.Writer, g *api.GrantView) {
		showGrant(w, g, &c.clientFlags)
		if flags := c.unsetLimits(); len(flags) > 0 {
			printLine(w, "to narrow it, remove it and create it again with "+strings.Join(flags, ", "))
		}
	})
}

// unsetLimits returns the flags that would narrow the grant.
func (c *grantCreate) unsetLimits() (flags []string) {
	if c.Session == "" {
		flags = append(flags, "--session ID")
	}
	if !c.Expires.isSet() {
		flags = append(flags, "--expires 8h")
	}
	if c.grantLimits.MaxCalls == nil {
		flags = append(flags, "--max-calls N")
	}
	return flags
}

// setAction validates the arguments and sets the actions that the grant covers.
func (c *grantCreate) setAction(in *api.NewGrant) error {
	switch {
	case c.Any && c.Key != "":
		return command.UsageErrorf("--any cannot be combined with an action; leave out %s or --any", command.Printable(c.Key))
	case c.Any:
		return nil
	case c.Key == "":
		return command.UsageErrorf("name an action: %s, or pass --any for every action that is not dangerous", command.Printable(c.hint("grant", "create", "SOURCE:ACTION")))
	case c.Source != "":
		return command.UsageErrorf("--source needs --any; name an action with its source, as SOURCE:ACTION")
	case strings.Contains(c.Key, "*"):
		return command.UsageErrorf("a grant cannot contain *; for every action that is not dangerous, pass --any --source SOURCE")
	}
	key, err := action.ParseKey(c.Key)
	if err != nil {
		return command.UsageErrorf("%s is not an action; write source:action, such as linear:create_issue", command.Printable(c.Key))
	}
	in.Source, in.Action = key.Source, key.Action
	return nil
}

func grantUsed(g *api.GrantView) string {
	if g.MaxCalls == nil {
		return fmt.Sprint(g.UsedCalls)
	}
	return fmt.Sprintf("%d of %d", g.UsedCalls, *g.MaxCalls)
}

func grantState(g *api.GrantView) string {
	switch {
	case g.RevokedAt != nil:
		return "revoked " + relativeTime(g.RevokedAt)
	case g.MaxCalls != nil && g.UsedCalls >= *g.MaxCalls:
		return "used up"
	}
	return expiryText(g.ExpiresAt)
}

// pinsByParam converts pins for the API. Two pins for one param are an error,
// because one would be lost.
func pinsByParam(pins []pin) (map[string]json.RawMessage, error) {
	by := make(map[string]json.RawMessage, len(pins))
	for _, p := range pins {
		if by[p.pointer] != nil {
			return nil, command.UsageErrorf("--pin %s is given twice; a param has one value", command.Printable(p.pointer))
		}
		by[p.pointer] = p.value
	}
	return by, nil
}

// showGrantRequest prints a request for a grant. The reason is the agent's own
// words.
func showGrantRequest(w io.Writer, r *api.RequestView) {
	scope := "the session"
	if r.Terms.Scope == action.ScopeOrganization {
		scope = "all sessions"
	}
	printLine(w, fmt.Sprintf("%s  session %s requests %s for %s: %s", r.ID, r.Session, termsText(&r.Terms, r.Name), scope, limitsText(&r.Terms)))
	if r.Reason != "" {
		printLine(w, "    reason given by the agent: "+r.Reason)
	}
	age := "    requested " + relativeTime(&r.CreatedAt)
	if r.Status == action.RequestPending {
		fmt.Fprintf(w, "%s, expires %s\n", age, relativeTime(&r.ExpiresAt))
		return
	}
	text := fmt.Sprintf("%s, %s", age, r.Status)
	if r.DecidedBy != "" {
		text += " by " + r.DecidedBy
	}
	if r.DecidedNote != "" {
		text += ": " + r.DecidedNote
	}
	printLine(w, text)
}

// printNoRequests prints the message for an empty list.
func printNoRequests(w io.Writer, status string) {
	if status == "pending" {
		fmt.Fprintln(w, "no pending requests")
		return
	}
	fmt.Fprintln(w, "no matching requests")
}

type grantRequests struct {
	clientFlags
	api.ListGrantRequestsInput
}

func (*grantRequests) route() api.Operation { return api.ListGrantRequests.Operation }

func (c *grantRequests) Run(ctx context.Context, std *command.Streams) error {
	in := c.ListGrantRequestsInput
	in.Status = statusFilter(c.Status)
	return perform(ctx, &c.clientFlags, std, api.ListGrantRequests, in, func(w io.Writer, all *api.List[api.RequestView]) {
		if len(all.Items) == 0 {
			printNoRequests(w, string(c.Status))
		}
		for i := range all.Items {
			showGrantRequest(w, &all.Items[i])
		}
		printNextPage(w, all.NextCursor)
		if len(all.Items) > 0 && c.Status == action.RequestPending {
			c.showGrantHint(w)
		}
	})
}

// grantRequestRef is the argument that names a request.
type grantRequestRef struct {
	clientFlags
	ID string `arg:"" help:"ID of the request; see sallyport grant requests."`
}

type grantApprove struct {
	grantRequestRef
	grantLimits
	api.Narrowing
	Pin []pin `sep:"none" env:"-" placeholder:"/PARAM=JSON" help:"Pin this param too; repeat for more."`
}

func (*grantApprove) route() api.Operation { return api.ApproveGrantRequest.Operation }

func (c *grantApprove) Run(ctx context.Context, std *command.Streams) (err error) {
	if c.Pins, err = pinsByParam(c.Pin); err != nil {
		return err
	}
	c.Narrowing.MaxCalls, c.Lifetime = c.grantLimits.MaxCalls, c.Expires.Lifetime
	in := api.ByIDWith[*api.Narrowing]{ByID: api.ByID{ID: c.ID}, Body: &c.Narrowing}
	return perform(ctx, &c.clientFlags, std, api.ApproveGrantRequest, in, func(w io.Writer, outcome *api.RequestOutcome) {
		if outcome.Grant != nil {
			showGrant(w, outcome.Grant, &c.clientFlags)
		}
	})
}

func grantRow(names labels, g *api.GrantView) []string {
	return []string{g.ID, termsText(&g.Terms, g.Name), grantScope(g), grantUsed(g), grantState(g), names.name(g.CreatedBy)}
}

func showDeniedRequest(w io.Writer, outcome *api.RequestOutcome) {
	r := &outcome.Request
	printLine(w, fmt.Sprintf("denied the request of session %[2]s: %[1]s", termsText(&r.Terms, r.Name), r.Session))
}
