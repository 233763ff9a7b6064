package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

type sessionShow struct {
	remote
	ID string `arg:"" help:"Id of the session."`
}

// Run prints one session.
func (c *sessionShow) Run(ctx context.Context, std *stdio) error {
	return show(ctx, &c.remote, std, sessionPath(c.ID), nil, func(w io.Writer, s *sessionRow) {
		s.CreatedBy = c.labels(ctx, usersPath, keysPath).of(s.CreatedBy)
		writeSession(w, s)
	})
}

func sessionPath(id string) string { return "/api/v1/sessions/" + url.PathEscape(id) }

// writeSession prints what the session is, a line each.
func writeSession(w io.Writer, s *sessionRow) {
	for _, line := range [][2]string{
		{"session", s.ID},
		{"title", s.Title},
		{"status", s.life()},
		{"why", s.EndedNote},
		{"kind", s.Kind + ", " + s.Type},
		{"group", s.Group},
		{"task", s.Task},
		{"automation", s.Automation},
		{"made", strings.TrimSpace(since(s.CreatedAt) + " by " + s.CreatedBy)},
		{"expires", since(s.ExpiresAt)},
		{"last used", since(s.LastSeenAt)},
		{"idle timeout", s.Idle},
		{"tools", s.Tools},
		{"model", s.Model},
		{"integrations", s.sees()},
	} {
		if line[1] != "" && line[1] != "-" {
			fmt.Fprintf(w, "%-13s %s\n", line[0], visible(line[1]))
		}
	}
	if s.Prompt != "" {
		fmt.Fprintf(w, "%-13s its own, %d bytes; --json shows it\n", "prompt", len(s.Prompt))
	}
	for _, l := range s.LeftOut {
		fmt.Fprintf(w, "%-13s %s\n", "left out", visible(l.words()))
	}
}

// leftOut is an integration that a session was not bound to.
type leftOut struct {
	Integration string `json:"integration"`
	Name        string `json:"name"`
	Reason      string `json:"reason"`
}

func (l leftOut) words() string { return l.Name + " (" + l.Integration + "): " + l.Reason }

type sessionRename struct {
	remote
	ID    string  `arg:"" help:"Id of the session."`
	Title *string `arg:"" optional:"" help:"What people see of it from now on."`
	Idle  *string `name:"idle-timeout" placeholder:"D" help:"After how long a silence it is stopped, such as 30m, or never; empty: the gateway's setting."`
}

// Run changes what is given.
func (c *sessionRename) Run(ctx context.Context, std *stdio) error {
	body := map[string]any{}
	if c.Title != nil {
		body["title"] = *c.Title
	}
	if c.Idle != nil {
		body["idle_timeout"] = *c.Idle
	}
	if len(body) == 0 {
		return wrongUse("nothing is to change: give a TITLE, or --idle-timeout")
	}
	return alter(ctx, &c.remote, std, http.MethodPatch, sessionPath(c.ID), body, writeSession)
}

// sessionStep are the words of a command that moves a session.
type sessionStep struct {
	remote
	ID string `arg:"" help:"Id of the session."`
}

func (c *sessionStep) take(ctx context.Context, std *stdio, step string, body any) error {
	return alter(ctx, &c.remote, std, http.MethodPost, sessionPath(c.ID)+"/"+step, body, func(w io.Writer, s *sessionRow) {
		text := fmt.Sprintf("session %s is %s now", s.ID, s.Status)
		switch {
		case s.Withdrew == 1:
			text += "; 1 held call was withdrawn"
		case s.Withdrew > 1:
			text += fmt.Sprintf("; %d held calls were withdrawn", s.Withdrew)
		}
		said(text)(w)
	})
}

type sessionPause struct{ sessionStep }

// Run has the session begin no calls.
func (c *sessionPause) Run(ctx context.Context, std *stdio) error {
	return c.take(ctx, std, "pause", nil)
}

type sessionResume struct{ sessionStep }

// Run ends a pause.
func (c *sessionResume) Run(ctx context.Context, std *stdio) error {
	return c.take(ctx, std, "resume", nil)
}

type sessionStop struct {
	sessionStep
	Note string `help:"Why, for people."`
}

// Run ends the session.
func (c *sessionStop) Run(ctx context.Context, std *stdio) error {
	return c.take(ctx, std, "stop", given{"note": c.Note}.set())
}

type sessionFail struct {
	sessionStep
	Note string `help:"Why, for people."`
}

// Run ends the session as one that failed.
func (c *sessionFail) Run(ctx context.Context, std *stdio) error {
	return c.take(ctx, std, "fail", given{"note": c.Note}.set())
}
