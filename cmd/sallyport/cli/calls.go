package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
)

type callsCommand struct {
	clientFlags
	api.Paging
	Status  []action.Status `env:"-" placeholder:"STATUS" help:"Filter by status, comma-separated: pending, approved, executing, completed, failed, denied, expired."`
	Session string          `env:"-" placeholder:"ID" help:"Only calls of this session."`
	Source  string          `env:"-" help:"Only calls to this source: a provider, or the slug, name or ID of a connector."`
	Action  string          `env:"-" help:"Only calls of this action; SOURCE:ACTION also sets the source."`
	Since   string          `env:"-" type:"moment" placeholder:"TIME" help:"Only calls since this time, such as 24h or 2026-01-02T15:04:05Z."`
}

func (*callsCommand) route() api.Operation { return api.ListInvocations.Operation }

// Run lists the calls of the whole organization, newest first.
func (c *callsCommand) Run(ctx context.Context, std *command.Streams) error {
	if err := checkStatuses(c.Status); err != nil {
		return err
	}
	server, err := c.connect()
	if err != nil {
		return err
	}
	c.Source, c.Action = splitAction(c.Source, c.Action)
	calls, raw, err := Fetch(ctx, server, api.ListInvocations, api.ListInvocationsInput{
		Paging:        c.Paging,
		CallFilters:   api.CallFilters{Status: c.Status, Source: c.Source, Action: c.Action, From: c.Since},
		CallerFilters: api.CallerFilters{Session: c.Session},
	})
	if err != nil {
		return err
	}
	if len(calls.Items) == 0 {
		if err := server.checkSession(ctx, c.Session); err != nil {
			return err
		}
	}
	return c.print(std, raw, func(w io.Writer) {
		if len(calls.Items) == 0 && calls.NextCursor == "" {
			fmt.Fprintln(w, "no matching calls")
			return
		}
		names := server.loadLabels(ctx, actorLists()...)
		printTable(w, "ID CALL RISK STATUS WHY DECIDED_BY SESSION CREATED", calls.Items, func(v *api.InvocationView) []string {
			i := &v.Invocation
			return []string{i.ID, callName(i), string(i.Risk), string(i.Status), failureCode(i), names.name(i.ApprovedBy), i.Session, relativeTime(&i.CreatedAt)}
		})
		if calls.LookedBackTo != nil {
			printLine(w, "searched calls back to "+relativeTime(calls.LookedBackTo))
		}
		printNextPage(w, calls.NextCursor)
	})
}

// checkStatuses rejects unknown statuses.
func checkStatuses(all []action.Status) error {
	for _, status := range all {
		if !status.Valid() {
			return command.UsageErrorf("%q is not a status. Use pending, approved, executing, completed, failed (which includes calls whose outcome is unknown), denied or expired", string(status))
		}
	}
	return nil
}

// splitAction splits SOURCE:ACTION, the form in which calls are listed.
func splitAction(source, name string) (of, bare string) {
	if i := strings.LastIndexByte(name, ':'); i > 0 && (source == "" || source == name[:i]) {
		return name[:i], name[i+1:]
	}
	return source, name
}

// checkSession rejects an unknown session: an empty list would suggest that it
// made no calls.
func (c *Client) checkSession(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	_, _, err := Fetch(ctx, c, api.GetSession, api.ByID{ID: id})
	return err
}

// failureCode returns the code of a call that was denied or failed.
func failureCode(i *action.Invocation) string {
	switch {
	case i.Error != nil && i.Status == action.StatusFailed:
		return i.Error.Label()
	case i.Status == action.StatusDenied:
		return i.DeniedReason
	}
	return ""
}

// callContext has the integrations that a list of calls refers to.
type callContext struct {
	integrations []api.IntegrationView
}

// callContext loads the context of calls. It ignores errors; an ID stands in
// for what the caller cannot read.
func (c *Client) callContext(ctx context.Context, calls ...api.InvocationView) *callContext {
	w := &callContext{}
	if slices.ContainsFunc(calls, func(i api.InvocationView) bool { return i.Integration != "" }) {
		all, _, _ := Fetch(ctx, c, api.ListIntegrations, api.None{})
		w.integrations = all.Items
	}
	return w
}

// show prints the summary, the integration and the session of a call. A
// connector's call has no summary; its params follow.
func (w *callContext) show(out io.Writer, i *api.InvocationView) {
	if i.Summary != "" && !strings.HasPrefix(i.Source, "connector:") {
		printLine(out, "    "+i.Summary)
	}
	if i.Integration != "" {
		printLine(out, "    for "+w.accountLabel(i.Integration))
	}
	if i.SessionCreatedBy != "" {
		title, group := "", ""
		if i.SessionTitle != "" {
			title = " " + i.SessionTitle
		}
		if i.Group != "" {
			group = ", group " + i.Group
		}
		printLine(out, "    in the session"+title+" of "+creatorLabel(&i.CallerView)+group)
	}
}

// accountLabel names an integration and its account, or gives its ID if it is
// private to another user.
func (w *callContext) accountLabel(id string) string {
	i := slices.IndexFunc(w.integrations, func(in api.IntegrationView) bool { return in.ID == id })
	if i < 0 {
		return "integration " + id
	}
	return integrationName(&w.integrations[i]) + ", account " + accountName(&w.integrations[i])
}

// ofAutomation is the prefix of the creator of a session that belongs to a run.
const ofAutomation = "automation:"

// creatorLabel names the user or automation that created a session.
func creatorLabel(s *api.CallerView) string {
	switch {
	case strings.HasPrefix(s.SessionCreatedBy, ofAutomation) && s.SessionCreator != "":
		return "automation " + s.SessionCreator
	case strings.HasPrefix(s.SessionCreatedBy, ofAutomation):
		return s.SessionCreatedBy
	case s.SessionCreator != "":
		return s.SessionCreator + " (user " + s.SessionCreatedBy + ")"
	}
	return "user " + s.SessionCreatedBy
}

// labels are names by ID.
type labels map[string]string

// namedItem is the part of a list item that labels need.
type namedItem struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// loadLabels loads the names from lists. It ignores errors; an ID stands in for
// a missing name.
func (c *Client) loadLabels(ctx context.Context, lists ...api.Operation) labels {
	all := make(labels)
	for _, list := range lists {
		found, _, _ := Fetch(ctx, c, api.Route[api.None, api.List[namedItem]]{Operation: list}, api.None{})
		for _, one := range found.Items {
			all[one.ID] = one.Name
		}
	}
	return all
}

// policyKey replaces the connector ID of a policy key by its name.
func (n labels) policyKey(key string) string {
	id, action, _ := strings.Cut(strings.TrimPrefix(key, "connector:"), ":")
	if n[id] == "" {
		return key
	}
	return n[id] + ":" + action
}

// name returns the name for an ID. IDs of keys have the form "key:ID"; those of
// automations without a user "automation:ID".
func (n labels) name(id string) string {
	kind, bare, _ := strings.Cut(id, ":")
	if name := n[bare]; name != "" {
		return kind + " " + name
	}
	return cmp.Or(n[id], id)
}

// runActorLists returns the lists of workers, triggers and schedules.
func runActorLists() []api.Operation {
	return actorLists(api.ListTriggers.Operation, api.ListSchedules.Operation)
}

// actorLists returns the lists of users and keys, followed by others.
func actorLists(others ...api.Operation) []api.Operation {
	return append([]api.Operation{api.ListUsers.Operation, api.ListKeys.Operation}, others...)
}
