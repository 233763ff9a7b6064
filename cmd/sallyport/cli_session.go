package main

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
	"sallyport/internal/agent"
	"sallyport/internal/nearest"
)

type sessionCommand struct {
	Create sessionCreate `cmd:"" help:"Create a session and print its token once."`
	List   sessionList   `cmd:"" help:"List sessions."`
	Show   sessionShow   `cmd:"" help:"Show a session."`
	Rename sessionRename `cmd:"" help:"Change the title or idle timeout of a session."`
	Pause  sessionPause  `cmd:"" help:"Pause a session: new calls are refused, pending calls stay."`
	Resume sessionResume `cmd:"" help:"Resume a paused session."`
	Stop   sessionStop   `cmd:"" help:"Stop a session; pending calls are withdrawn."`
	Fail   sessionFail   `cmd:"" help:"Mark a session as failed and stop it."`
	Revoke sessionRevoke `cmd:"" help:"Stop a session, whatever its status; its token stops working at once."`
}

type sessionCreate struct {
	remote
	api.NewSession
	PromptFile string `field:"prompt" type:"path" env:"-" placeholder:"FILE" help:"File with a system prompt (default: the prompt of the session type)."`
}

// Run prints JSON in any case, and before all else: a token is for a program to
// take.
func (c *sessionCreate) Run(ctx context.Context, std *stdio) error {
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
		if c.Connections, err = server.bindable(ctx, c.Connections); err != nil {
			return err
		}
	}
	made, raw, err := c.mint(ctx, server)
	if raw != nil {
		err = errors.Join(std.printJSON(raw), err)
	}
	if err != nil || c.JSON { // then all is in what the server said
		return err
	}
	for _, l := range made.LeftOut {
		said("note: left out " + leftOut(l))(std.Err)
	}
	if c.Group != "" {
		c.groupless(ctx, std, server)
	}
	switch {
	case len(c.Connections) == 0 && c.Automation == "":
		c.blind(ctx, std, server)
	default:
		server.unusable(ctx, std, made.SessionID)
	}
	if made.MCPURL != "" {
		said("for the agent's shell: export SALLYPORT_URL=" + word(gatewayOf(made.MCPURL)) + " " + agent.TokenVariable + "=TOKEN")(std.Err)
	}
	return nil
}

// mint makes the session, with a key, so that one whose token was lost on the
// way is not lost.
func (c *sessionCreate) mint(ctx context.Context, server *client) (*api.MintedSession, json.RawMessage, error) {
	in := api.CreateSessionInput{Body: c.NewSession}
	key := c.IdempotencyKey
	if key == "" {
		key = "cli-" + rand.Text()
		in.Key = key
	}
	made, raw, err := fetch(ctx, server, api.CreateSession, in)
	p := new(problem)
	if err != nil && raw == nil && (!errors.As(err, &p) || p.Status >= http.StatusInternalServerError) && !errors.As(err, new(nobody)) {
		err = fmt.Errorf("%w; whether the session was made is not known: the same command with --idempotency-key %s gets it with its token, and never makes a second one", err, key)
	}
	return made, raw, err
}

// gatewayOf is the gateway's own URL, of that for MCP.
func gatewayOf(mcp string) string { return strings.TrimSuffix(strings.TrimRight(mcp, "/"), "/mcp") }

// blind says that the session sees no integration, where there are some.
func (c *sessionCreate) blind(ctx context.Context, std *stdio, server *client) {
	all, _, _ := fetch(ctx, server, api.ListIntegrations, api.None{}) // the session is minted, which alone was asked for
	n := 0
	for _, in := range all.Items {
		if in.Usable && in.User == "" {
			n++
		}
	}
	if n > 0 {
		said(fmt.Sprintf("note: this session sees none of %s; mint one with --connect REF or --connect all to have its agent use them", number(n, "integration")))(std.Err)
	}
}

// groupless says that the session's group has no capability, where others have
// some: the name may be mistaken, and the session may call nothing.
func (c *sessionCreate) groupless(ctx context.Context, std *stdio, server *client) {
	all, _, _ := fetch(ctx, server, api.ListCapabilities, api.ListCapabilitiesInput{}) // the session is minted, which alone was asked for
	var groups []string
	for _, row := range all.Items {
		if row.Group == c.Group {
			return
		}
		groups = append(groups, row.Group)
	}
	if len(groups) > 0 {
		said(fmt.Sprintf("note: group %s has no capability, so that this session's calls of services are denied; sallyport capability list shows who has one.%s",
			c.Group, nearest.Sentence(c.Group, groups)))(std.Err)
	}
}

type sessionList struct {
	remote
	api.ListSessionsInput
}

func (*sessionList) route() api.Operation { return api.ListSessions.Operation }

func (c *sessionList) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.ListSessions, c.ListSessionsInput, func(w io.Writer, all *api.List[api.SessionView]) {
		names := c.labels(ctx, actors(api.ListAutomations.Operation)...)
		cells("SESSION KIND TYPE TITLE BY CREATED STATUS EXPIRES INTEGRATIONS", func(s *api.SessionView) []string {
			return []string{s.ID, string(s.Kind), string(s.Type), s.Title, names.of(s.CreatedBy), since(&s.CreatedAt), sessionLife(s), since(s.ExpiresAt), sessionSees(s)}
		})(w, all)
	})
}

// sessionSees tells how many integrations its agent may use.
func sessionSees(s *api.SessionView) string {
	if slices.Equal(s.Connections, []string{action.AllConnections}) {
		return action.AllConnections
	}
	return strconv.Itoa(len(s.Connections))
}

// sessionLife is where the session is, and since when where that is an end.
func sessionLife(s *api.SessionView) string {
	switch {
	case s.RevokedAt != nil:
		return string(s.Status) + " " + since(s.RevokedAt)
	case s.ExpiresAt != nil && !s.ExpiresAt.After(time.Now()):
		return "over"
	}
	return string(s.Status)
}

func said(text string) func(io.Writer) {
	return func(w io.Writer) { fmt.Fprintln(w, visible(text)) }
}
