package main

import (
	"context"
	"io"
	"strings"
)

type connectorPresets struct{ remote }

// presetRow is a known server.
type presetRow struct {
	Name     string   `json:"name"`
	Title    string   `json:"title"`
	URL      string   `json:"url"`
	Auth     []string `json:"auth"`
	Hint     string   `json:"hint"`
	Unsure   []string `json:"unsure"`
	Variants []struct {
		Name  string `json:"name"`
		Title string `json:"title"`
	} `json:"variants"`
}

func (c *connectorPresets) Run(ctx context.Context, std *stdio) error {
	return show(ctx, &c.remote, std, "/api/v1/connectors/presets", nil, func(w io.Writer, presets *list[presetRow]) {
		for _, p := range presets.Items {
			p.report(w)
		}
	})
}

func (p *presetRow) report(w io.Writer) {
	said(p.Name + "  " + p.Title + "  " + p.URL)(w)
	said("    takes: " + strings.Join(p.Auth, " or ") + ". " + p.Hint)(w)
	if len(p.Unsure) > 0 {
		said("    check in its documentation: " + strings.Join(p.Unsure, ", "))(w)
	}
	for _, v := range p.Variants {
		said("    --variant " + v.Name + ": " + v.Title)(w)
	}
}
