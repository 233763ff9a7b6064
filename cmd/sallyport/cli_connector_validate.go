package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"sallyport/action"
)

type connectorValidate struct {
	remote
	connectorFields
	Name string `arg:"" name:"name|url" help:"Name, slug or id of a connector, or the URL of a server that is none yet."`
}

// connectorCheck is how a server was when it was asked.
type connectorCheck struct {
	Protocol  string `json:"protocol_version"`
	Resources int    `json:"resource_count"`
	Templates int    `json:"template_count"`
	Prompts   int    `json:"prompt_count"`
	Diagnosis *struct {
		Code string `json:"code"`
	} `json:"diagnosis"`
	Steps []struct {
		Name   string  `json:"name"`
		TookMS float64 `json:"took_ms"`
		Detail string  `json:"detail"`
		Failed bool    `json:"failed"`
	} `json:"steps"`
	Tools  []toolRow `json:"tools"`
	Beside []toolRow `json:"beside"`
}

// toolRow is a tool of a connector, or how its resources are read and its
// prompts gotten.
type toolRow struct {
	Name string      `json:"name"`
	Tool string      `json:"tool"`
	Risk action.Risk `json:"risk"`
	Mode action.Mode `json:"mode"`
}

// Run asks the server and fails when it cannot be used.
func (c *connectorValidate) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	fields, err := c.body(std, nil)
	if err != nil {
		return err
	}
	path, body := connectorPath(c.Name)+"/validate", any(nil)
	if strings.Contains(c.Name, "://") {
		fields["url"] = c.Name
		path, body = "/api/v1/connectors/validate", fields
	} else if len(fields) > 0 {
		return wrongUse("the flags of a connector go with a URL; connector %s has its own, see: %s", visible(c.Name), visible(c.hint("connector", "update", "--help")))
	}
	var state connectorRow
	raw, err := server.change(ctx, http.MethodPost, path, body, &state)
	if err != nil {
		return err
	}
	if body != nil {
		state.unnamed()
	}
	if err := c.print(std, raw, state.report); err != nil || state.Error == "" {
		return err
	}
	return fmt.Errorf("%s cannot be used: %s", visible(c.Name), visible(state.fault()))
}

// unnamed has a slug to be chosen in the names that agents will see.
func (c *connectorRow) unnamed() {
	for i, t := range c.Tools {
		c.Tools[i].Tool = "<slug>_" + strings.TrimPrefix(t.Tool, c.Slug+"_")
	}
}

// report tells how a server was reached and what it offers.
func (c *connectorRow) report(w io.Writer) {
	for _, s := range c.Steps {
		switch {
		case s.Failed:
			s.Detail = strings.TrimSpace("FAILED " + s.Detail)
		case s.TookMS == 0:
			continue // it was not needed
		}
		said(strings.TrimRight(fmt.Sprintf("%-18s %8.1f ms  %s", s.Name, s.TookMS, s.Detail), " "))(w)
	}
	for _, warning := range c.Warnings {
		said("warning: " + warning)(w)
	}
	if c.Error != "" {
		return
	}
	said(fmt.Sprintf("MCP %s: %s, %s, %s, %s", cmp.Or(c.Protocol, "of an unknown version"),
		number(len(c.Tools), "tool"), number(c.Resources, "resource"), number(c.Templates, "resource template"), number(c.Prompts, "prompt")))(w)
	rows := make([][]string, 0, len(c.Tools)+len(c.Beside))
	for _, t := range append(c.Tools, c.Beside...) {
		rows = append(rows, []string{t.Name, t.Tool, string(t.Risk), string(t.Mode)})
	}
	table(w, []string{"ACTION", "TOOL AS AGENTS SEE IT", "RISK", "MODE"}, rows)
}
