package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

// theSession names one.
type theSession struct {
	remote
	ID string `arg:"" help:"ID of the session."`
}

type sessionShow struct{ theSession }

// Run prints one session.
func (c *sessionShow) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.GetSession, api.ByID{ID: c.ID}, func(w io.Writer, s *api.SessionView) {
		s.CreatedBy = c.labels(ctx, actors()...).of(s.CreatedBy)
		writeSession(w, s)
	})
}

// writeSession prints what the session is, a line each.
func writeSession(w io.Writer, s *api.SessionView) {
	for _, line := range [][2]string{
		{"session", s.ID},
		{"title", s.Title},
		{"status", sessionLife(s)},
		{"why", s.EndedNote},
		{"kind", string(s.Kind) + ", " + string(s.Type)},
		{"group", s.Group},
		{"task", s.Task},
		{"automation", s.Automation},
		{"made", strings.TrimSpace(since(&s.CreatedAt) + " by " + s.CreatedBy)},
		{"expires", since(s.ExpiresAt)},
		{"last used", since(s.LastSeenAt)},
		{"idle timeout", s.Idle},
		{"tools", string(s.Tools)},
		{"model", s.Model},
		{"integrations", sessionSees(s)},
	} {
		if line[1] != "" && line[1] != "-" {
			fmt.Fprintf(w, "%-13s %s\n", line[0], visible(line[1]))
		}
	}
	if s.Prompt != "" {
		fmt.Fprintf(w, "%-13s its own, %d bytes; --json shows it\n", "prompt", len(s.Prompt))
	}
	for _, l := range s.LeftOut {
		fmt.Fprintf(w, "%-13s %s\n", "left out", visible(leftOut(l)))
	}
}

// leftOut tells of an integration that a session was not bound to.
func leftOut(l action.LeftOut) string { return l.Name + " (" + l.Integration + "): " + l.Reason }

type sessionRename struct {
	theSession
	api.SessionChange
}

// Run changes what is given.
func (c *sessionRename) Run(ctx context.Context, std *stdio) error {
	if c.SessionChange == (api.SessionChange{}) {
		return wrongUse("nothing is to change: give a TITLE, or --idle-timeout")
	}
	return perform(ctx, &c.remote, std, api.UpdateSession, api.ByIDWith[api.SessionChange]{ByID: api.ByID{ID: c.ID}, Body: c.SessionChange}, writeSession)
}

// sessionMoved says where the session is after a step, and what that withdrew.
func sessionMoved(w io.Writer, s *api.SessionView) {
	text := fmt.Sprintf("session %s is %s now", s.ID, s.Status)
	switch {
	case s.Withdrew == 1:
		text += "; 1 held call was withdrawn"
	case s.Withdrew > 1:
		text += fmt.Sprintf("; %d held calls were withdrawn", s.Withdrew)
	}
	said(text)(w)
}

type sessionPause struct{ theSession }

// Run has the session begin no calls.
func (c *sessionPause) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.PauseSession, api.ByID{ID: c.ID}, sessionMoved)
}

type sessionResume struct{ theSession }

// Run ends a pause.
func (c *sessionResume) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.ResumeSession, api.ByID{ID: c.ID}, sessionMoved)
}

// sessionEnd are the words of a command that ends a session.
type sessionEnd struct {
	theSession
	api.SessionEnd
}

func (c *sessionEnd) input() api.ByIDWith[*api.SessionEnd] {
	return api.ByIDWith[*api.SessionEnd]{ByID: api.ByID{ID: c.ID}, Body: &c.SessionEnd}
}

type sessionStop struct{ sessionEnd }

// Run ends the session.
func (c *sessionStop) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.StopSession, c.input(), sessionMoved)
}

type sessionFail struct{ sessionEnd }

// Run ends the session as one that failed.
func (c *sessionFail) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.FailSession, c.input(), sessionMoved)
}

type sessionRevoke struct{ theSession }

func (c *sessionRevoke) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.RevokeSession, api.ByID{ID: c.ID}, done("session "+c.ID+" is revoked"))
}
