package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
	"sallyport/internal/agent"
	"sallyport/internal/shell"
	"sallyport/internal/suggest"
)

type sessionCommand struct {
	Create sessionCreate                                             `cmd:"" help:"Create a session and print its token once."`
	List   request[api.ListSessionsInput, api.List[api.SessionView]] `cmd:"" help:"List sessions."`
	Show   request[api.ByID, api.SessionView]                        `cmd:"" help:"Show a session."`
	Rename sessionRename                                             `cmd:"" help:"Change the title or idle timeout of a session."`
	Pause  request[api.ByID, api.SessionView]                        `cmd:"" help:"Pause a session: new calls are refused, pending calls stay."`
	Resume request[api.ByID, api.SessionView]                        `cmd:"" help:"Resume a paused session."`
	Stop   request[api.ByIDWith[*api.SessionEnd], api.SessionView]   `cmd:"" help:"Stop a session; pending calls are withdrawn."`
	Fail   request[api.ByIDWith[*api.SessionEnd], api.SessionView]   `cmd:"" help:"Mark a session as failed and stop it."`
	Revoke request[api.ByID, api.None]                               `cmd:"" help:"Stop a session, whatever its status; its token stops working at once."`
}

type sessionCreate struct {
	clientFlags
	api.NewSession
	PromptFile string `field:"prompt" type:"path" env:"-" placeholder:"FILE" help:"File with a system prompt (default: the prompt of the session type)."`
}

// Run always prints JSON, and prints it before anything else, because programs
// read the token.
func (c *sessionCreate) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	if c.PromptFile != "" {
		text, err := os.ReadFile(c.PromptFile)
		if err != nil {
			return fmt.Errorf("reading the prompt: %w", err)
		}
		c.Prompt = string(text)
	}
	if len(c.Connections) > 0 {
		if c.Connections, err = server.integrationIDs(ctx, c.Connections); err != nil {
			return err
		}
	}
	created, raw, err := c.create(ctx, server)
	if raw != nil {
		err = errors.Join(std.PrintJSON(raw), err)
	}
	if err != nil || c.JSON { // the JSON has all of it
		return err
	}
	for _, l := range created.LeftOut {
		printLine(std.Err, "note: not connected: "+leftOutText(l))
	}
	switch {
	case c.Group != "":
		c.noteNoCapability(ctx, std, server)
	case created.Group != "":
		printLine(std.Err, "note: the capabilities of group "+created.Group+" limit this session; see them with: "+c.hint("capability", "show", created.Group))
	}
	switch {
	case len(c.Connections) == 0 && c.Automation == "":
		c.noteNoIntegrations(ctx, std, server)
	default:
		server.warnDeniedProviders(ctx, std, created.SessionID)
	}
	if created.MCPURL != "" {
		printLine(std.Err, "for the agent's shell: export SALLYPORT_URL="+shell.Quote(gatewayURL(created.MCPURL))+" "+agent.TokenVariable+"=TOKEN")
	}
	return nil
}

// create creates the session with an idempotency key, so that a retry returns a
// token whose response was lost.
func (c *sessionCreate) create(ctx context.Context, server *Client) (*api.MintedSession, json.RawMessage, error) {
	in := api.CreateSessionInput{Body: c.NewSession}
	in.Body.Client = "cli"
	key := c.IdempotencyKey
	if key == "" {
		key = "cli-" + rand.Text()
		in.Key = key
	}
	created, raw, err := Fetch(ctx, server, api.CreateSession, in)
	p := new(problem)
	if err != nil && raw == nil && (!errors.As(err, &p) || p.Status >= http.StatusInternalServerError) && !errors.As(err, new(UnreachableError)) {
		err = fmt.Errorf("%w; the session may have been created. Run the same command with --idempotency-key %s to get it with its token: no second session is created", err, key)
	}
	return created, raw, err
}

// gatewayURL returns the base URL of an MCP endpoint.
func gatewayURL(mcp string) string { return strings.TrimSuffix(strings.TrimRight(mcp, "/"), "/mcp") }

// noteNoIntegrations prints a note if the session has no integrations although
// some exist.
func (c *sessionCreate) noteNoIntegrations(ctx context.Context, std *command.Streams, server *Client) {
	all, _, _ := Fetch(ctx, server, api.ListIntegrations, api.None{}) // only for a note; the session exists
	n := 0
	for _, in := range all.Items {
		if in.Usable && in.User == "" {
			n++
		}
	}
	if n > 0 {
		printLine(std.Err, fmt.Sprintf("note: this session cannot use any of %s; to allow it, create a session with --connect REF or --connect all", command.Plural(n, "integration")))
	}
}

// noteNoCapability prints a note if the group has no capability although others
// do: the name may be misspelled, and all calls may be denied.
func (c *sessionCreate) noteNoCapability(ctx context.Context, std *command.Streams, server *Client) {
	all, _, _ := Fetch(ctx, server, api.ListCapabilities, api.ListCapabilitiesInput{}) // only for a note; the session exists
	var groups []string
	for _, row := range all.Items {
		if row.Group == c.Group {
			return
		}
		groups = append(groups, row.Group)
	}
	if len(groups) > 0 {
		printLine(std.Err, fmt.Sprintf("note: group %s has no capability, so calls of this session to services are denied; see sallyport capability list.%s",
			c.Group, suggest.Sentence(c.Group, groups)))
	}
}

// sessionIntegrations returns how many integrations the session can use.
func sessionIntegrations(s *api.SessionView) string {
	if slices.Equal(s.Connections, []string{action.AllConnections}) {
		return action.AllConnections
	}
	return strconv.Itoa(len(s.Connections))
}

// sessionStatus describes the status of the session, with the time of its end.
func sessionStatus(s *api.SessionView) string {
	switch {
	case s.RevokedAt != nil:
		return string(s.Status) + " " + relativeTime(s.RevokedAt)
	case s.ExpiresAt != nil && !s.ExpiresAt.After(time.Now()):
		return "over"
	}
	return string(s.Status)
}

// sessionRef is the argument that names a session.
type sessionRef struct {
	clientFlags
	ID string `arg:"" help:"ID of the session."`
}

// writeSession prints the fields of the session, one per line.
func writeSession(w io.Writer, s *api.SessionView) {
	for _, line := range [][2]string{
		{"session", s.ID},
		{"title", s.Title},
		{"status", sessionStatus(s)},
		{"why", s.EndedNote},
		{"kind", string(s.Kind) + ", " + string(s.Type)},
		{"group", s.Group},
		{"task", s.Task},
		{"automation", s.Automation},
		{"created", strings.TrimSpace(relativeTime(&s.CreatedAt) + " by " + s.CreatedBy)},
		{"expires", relativeTime(s.ExpiresAt)},
		{"last used", relativeTime(s.LastSeenAt)},
		{"idle timeout", s.Idle},
		{"tools", string(s.Tools)},
		{"model", s.Model},
		{"integrations", sessionIntegrations(s)},
	} {
		if line[1] != "" && line[1] != "-" {
			fmt.Fprintf(w, "%-13s %s\n", line[0], command.Printable(line[1]))
		}
	}
	if s.Prompt != "" {
		fmt.Fprintf(w, "%-13s custom, %d bytes; see --json\n", "prompt", len(s.Prompt))
	}
	for _, l := range s.LeftOut {
		fmt.Fprintf(w, "%-13s %s\n", "not connected", command.Printable(leftOutText(l)))
	}
}

// leftOutText describes an integration that the session was not bound to.
func leftOutText(l action.LeftOut) string { return l.Name + " (" + l.Integration + "): " + l.Reason }

type sessionRename struct {
	sessionRef
	api.SessionChange
}

func (c *sessionRename) Run(ctx context.Context, std *command.Streams) error {
	if c.SessionChange == (api.SessionChange{}) {
		return command.UsageErrorf("nothing to change: pass a TITLE or --idle-timeout")
	}
	return perform(ctx, &c.clientFlags, std, api.UpdateSession, api.ByIDWith[api.SessionChange]{ByID: api.ByID{ID: c.ID}, Body: c.SessionChange}, writeSession)
}

// showSessionStatus prints the new status and the number of calls withdrawn.
func showSessionStatus(w io.Writer, s *api.SessionView) {
	text := fmt.Sprintf("session %s is now %s", s.ID, s.Status)
	switch {
	case s.Withdrew == 1:
		text += "; 1 pending call was withdrawn"
	case s.Withdrew > 1:
		text += fmt.Sprintf("; %d pending calls were withdrawn", s.Withdrew)
	}
	printLine(w, text)
}

// warnDeniedProviders prints a note for each connected provider that policy
// denies to the session. It ignores errors because the session exists.
func (c *Client) warnDeniedProviders(ctx context.Context, std *command.Streams, session string) {
	s, _, err := Fetch(ctx, c, api.GetSession, api.ByID{ID: session})
	if err != nil || len(s.Connections) == 0 {
		return
	}
	all, _, err := Fetch(ctx, c, api.ListIntegrations, api.None{})
	if err != nil {
		return
	}
	providers, _, _ := Fetch(ctx, c, api.ListProviders, api.None{})
	for _, p := range providers.Items {
		if len(p.Actions) == 0 || !boundTo(s, p.ID, all.Items) {
			continue
		}
		query := api.Asked{Session: session, Action: "module:" + p.ID + ":" + p.Actions[0].Name}
		if explanation, _, err := Fetch(ctx, c, api.ExplainPolicy, query); err == nil && explanation.Mode == action.ModeDeny && explanation.Source == action.LayerCeiling {
			printLine(std.Err, fmt.Sprintf("note: this session cannot use %s: %s", p.ID, explanation.Reason))
		}
	}
}

// boundTo reports whether the session is bound to an integration of the
// provider.
func boundTo(s *api.SessionView, provider string, all []api.IntegrationView) bool {
	allBound := slices.Equal(s.Connections, []string{action.AllConnections})
	return slices.ContainsFunc(all, func(in api.IntegrationView) bool {
		return in.Provider == provider && in.User == "" && (slices.Contains(s.Connections, in.ID) || allBound && in.Visibility == action.VisibleOrganization)
	})
}

func sessionRow(names labels, s *api.SessionView) []string {
	return []string{s.ID, string(s.Kind), string(s.Type), s.Title, names.name(s.CreatedBy), relativeTime(&s.CreatedAt), sessionStatus(s), relativeTime(s.ExpiresAt), sessionIntegrations(s)}
}

func showSession(ctx context.Context, w io.Writer, c *clientFlags, s *api.SessionView) {
	s.CreatedBy = c.loadLabels(ctx, actorLists()...).name(s.CreatedBy)
	writeSession(w, s)
}
