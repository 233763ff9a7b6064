package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/internal/nearest"
)

// reportEnv tells who asks for what. Descriptions and suggestions are the
// agent's own words.
func reportEnv(w io.Writer, r *action.EnvRequest) {
	said(fmt.Sprintf("%s  session %s asks for %s", r.ID, r.Session, number(len(r.Keys), "environment variable")))(w)
	for _, k := range r.Keys {
		text := "    " + k.Key
		if !k.Needed() {
			text += " (may be left out)"
		}
		said(text)(w)
		if k.Description != "" {
			said("      the agent says: " + k.Description)(w)
		}
		for _, s := range k.Suggestions {
			text := "      the agent suggests: " + s.Label
			if s.Instructions != "" {
				text += ": " + s.Instructions
			}
			if s.Value != "" {
				text += " = " + s.Value
			}
			said(text)(w)
		}
	}
	at := "    asked " + since(&r.CreatedAt)
	if r.Status == action.EnvPending {
		said(at + ", expires " + since(&r.ExpiresAt))(w)
		return
	}
	text := at + ", " + string(r.Status)
	if r.DecidedBy != "" {
		text += " (by " + r.DecidedBy + ")"
	}
	if r.Note != "" {
		text += ": " + r.Note
	}
	said(text)(w)
}

// envWarning is what the page says, too.
const envWarning = "! The agent can read what you enter, and so can everything that runs in its sandbox. Give it only what it may have: keys of test accounts, with as few rights as will do."

func (r *remote) howToGive(w io.Writer) {
	said(envWarning)(w)
	said(fmt.Sprintf("answer with: %s (the value on standard input) or: %s, or: %s",
		r.hint("env", "answer", "ID", "NAME"), r.hint("env", "answer", "ID", "--values", "FILE"), r.hint("env", "refuse", "ID", "--reason", "TEXT")))(w)
}

type envRequests struct {
	remote
	api.ListEnvRequestsInput
}

func (*envRequests) route() api.Operation { return api.ListEnvRequests.Operation }

func (c *envRequests) Run(ctx context.Context, std *stdio) error {
	in := c.ListEnvRequestsInput
	in.Status = anyStatus(c.Status)
	return perform(ctx, &c.remote, std, api.ListEnvRequests, in, func(w io.Writer, all *api.List[action.EnvRequest]) {
		if len(all.Items) == 0 {
			noRequests(w, string(c.Status), "an answer")
		}
		for i := range all.Items {
			reportEnv(w, &all.Items[i])
		}
		more(w, all.NextCursor)
		if len(all.Items) > 0 && c.Status == action.EnvPending {
			c.howToGive(w)
		}
	})
}

// theEnvRequest names one.
type theEnvRequest struct {
	remote
	ID string `arg:"" help:"ID of the request; see sallyport env requests."`
}

type envAnswer struct {
	theEnvRequest
	Name   string `arg:"" optional:"" help:"Variable whose value is on standard input (default: the only one requested)."`
	Values string `env:"-" placeholder:"FILE|-" help:"JSON object of values, {\"NAME\": \"value\"}, in a file or - for standard input."`
}

// Run shows who asks for what and who reads the answer, before it takes one.
// Values are no arguments: a command line can be read by every user of the
// machine.
func (c *envAnswer) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	request, _, err := fetch(ctx, server, api.GetEnvRequest, api.ByID{ID: c.ID})
	if err != nil {
		return err
	}
	reportEnv(std.Err, request)
	if request.Status == action.EnvPending {
		said(envWarning)(std.Err)
		if c.Name != "" { // before a value is typed
			if err := asksFor(request, c.Name); err != nil {
				return err
			}
		}
	}
	values, err := c.values(std, request)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err == nil && request.Status == action.EnvPending {
			err = asksFor(request, name)
		}
	}
	if err != nil {
		return err
	}
	in := api.ByIDWith[api.EnvAnswer]{ByID: api.ByID{ID: c.ID}, Body: api.EnvAnswer{Values: values}}
	return perform(ctx, &c.remote, std, api.AnswerEnvRequest, in, func(w io.Writer, r *action.EnvRequest) {
		said(fmt.Sprintf("gave %s to session %s; its sandbox takes them once, with sallyport env pull; they are wiped %s",
			strings.Join(slices.Sorted(maps.Keys(values)), ", "), r.Session, since(&r.ExpiresAt)))(w)
	})
}

// envNames are the names that are asked for.
func envNames(r *action.EnvRequest) []string {
	names := make([]string, len(r.Keys))
	for i, k := range r.Keys {
		names[i] = k.Key
	}
	return names
}

// asksFor refuses a name that is not asked for.
func asksFor(r *action.EnvRequest, name string) error {
	names := envNames(r)
	if slices.Contains(names, name) {
		return nil
	}
	if near := nearest.Near(name, names); len(near) > 0 && len(names) > 1 {
		return wrongUse("the request asks for %s, and not for %s; did you mean %s?", strings.Join(names, ", "), visible(name), strings.Join(near, ", "))
	}
	return wrongUse("the request asks for %s, and not for %s", strings.Join(names, ", "), visible(name))
}

// values reads what is entered.
func (c *envAnswer) values(std *stdio, asked *action.EnvRequest) (map[string]string, error) {
	switch {
	case c.Values != "" && c.Name != "":
		return nil, wrongUse("say NAME and pass its value on standard input, or give --values, not both")
	case c.Values != "":
		return c.file(std)
	case c.Name == "" && len(asked.Keys) != 1:
		return nil, wrongUse("several variables are asked for; give them as --values FILE, a JSON object {\"NAME\": \"value\"}")
	case c.Name == "":
		c.Name = asked.Keys[0].Key
	}
	value, err := readSecret(std, "env answer "+c.ID+" "+word(c.Name))
	return map[string]string{c.Name: value}, err
}

// file reads an object of texts. What is wrong with it is told without it.
func (c *envAnswer) file(std *stdio) (values map[string]string, err error) {
	in := std.In
	if c.Values != "-" {
		f, err := os.Open(c.Values)
		if err != nil {
			return nil, fmt.Errorf("reading the values: %w", err)
		}
		defer f.Close()
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, specLimit))
	if err != nil {
		return nil, fmt.Errorf("reading the values: %w", err)
	}
	if json.Unmarshal(raw, &values) != nil || len(values) == 0 {
		return nil, errors.New(`the values are no object of texts; write {"NAME": "value"}`)
	}
	return values, nil
}

type envRefuse struct {
	theEnvRequest
	api.EnvRefusal
}

func (c *envRefuse) Run(ctx context.Context, std *stdio) error {
	in := api.ByIDWith[*api.EnvRefusal]{ByID: api.ByID{ID: c.ID}, Body: &c.EnvRefusal}
	return perform(ctx, &c.remote, std, api.RefuseEnvRequest, in, func(w io.Writer, r *action.EnvRequest) {
		said(fmt.Sprintf("refused %s to session %s", strings.Join(envNames(r), ", "), r.Session))(w)
	})
}
