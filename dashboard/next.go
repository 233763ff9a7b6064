package dashboard

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

// nextRoutes returns the routes that errors refer to, and a verb for each that
// does not list things.
func nextRoutes() (routes map[action.Operation]api.Operation, does map[action.Operation]string) {
	routes = map[action.Operation]api.Operation{
		"list invocations":         api.ListInvocations.Operation,
		"list grants":              api.ListGrants.Operation,
		"list grant requests":      api.ListGrantRequests.Operation,
		"decide grant request":     api.ApproveGrantRequest.Operation,
		"list modes":               api.ListModes.Operation,
		"list quotas":              api.ListQuotas.Operation,
		"list capabilities":        api.ListCapabilities.Operation,
		"list gates":               api.ListGates.Operation,
		"list sessions":            api.ListSessions.Operation,
		"list users":               api.ListUsers.Operation,
		"create sign-in link":      api.CreateLoginLink.Operation,
		"list API keys":            api.ListKeys.Operation,
		"list secrets":             api.ListSecrets.Operation,
		"list connectors":          api.ListConnectors.Operation,
		"list integrations":        api.ListIntegrations.Operation,
		"list provider apps":       api.ListApps.Operation,
		"set provider app":         api.PutApp.Operation,
		"list automations":         api.ListAutomations.Operation,
		"list triggers":            api.ListTriggers.Operation,
		"list schedules":           api.ListSchedules.Operation,
		"list events":              api.ListInboundEvents.Operation,
		"show event":               api.GetInboundEvent.Operation,
		"list deliveries":          api.ListDeliveries.Operation,
		"list runs":                api.ListRuns.Operation,
		"list outbox":              api.ListOutbox.Operation,
		"set run endpoint":         api.PutRunEndpoint.Operation,
		"list env requests":        api.ListEnvRequests.Operation,
		"list setups":              api.ListSetups.Operation,
		"set notification channel": api.PutNotify.Operation,

		"list routes": {Method: "GET", Path: "/api/v1/openapi.json"},
	}
	does = map[action.Operation]string{
		"list routes": "lists the routes", "show event": "has what is left", "set notification channel": "sets them up",
		"set run endpoint": "sets one", "set provider app": "registers it", "create sign-in link": "creates one",
		"decide grant request": "approves it",
	}
	return routes, does
}

// withNext adds the route that helps to resolve an error. Agents are told of their
// own routes only.
func withNext(p *Principal, err error) error {
	e := action.Public(err)
	see := action.Declared(e.Code).See
	routes, does := nextRoutes()
	next, out := routes[see], *e
	if p.Session != nil {
		switch see {
		case "list actions":
			next = api.ListAvailableActions.Operation
		case "list invocations":
			next = api.ListSessionInvocations.Operation
		default:
			return err
		}
		if e.Code == "no_such_source" { // agents do not learn which other sources exist
			out.Message = "No source is called so."
		}
		next.Path = strings.Replace(next.Path, "{session}", p.Session.ID, 1)
	}
	if next.Path == "" {
		return err
	}
	if len(e.Values) > 0 { // the first value identifies the resource
		next.Path = regexp.MustCompile(`\{\w+\}`).ReplaceAllLiteralString(next.Path, url.PathEscape(fmt.Sprint(e.Values[0])))
	}
	out.Message += " " + next.Method + " " + next.Path + " " + cmp.Or(does[see], "lists them") + "."
	return &out
}
