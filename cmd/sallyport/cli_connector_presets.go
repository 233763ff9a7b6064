package main

import (
	"context"
	"io"
	"strings"

	"sallyport/api"
)

type connectorPresets struct{ remote }

func (*connectorPresets) route() api.Operation { return api.ListPresets.Operation }

func (c *connectorPresets) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.ListPresets, api.None{}, func(w io.Writer, presets *api.List[api.Preset]) {
		for i := range presets.Items {
			p := &presets.Items[i]
			said(p.Name + "  " + p.Title + "  " + p.URL)(w)
			said("    takes: " + strings.Join(p.Auth, " or ") + ". " + p.Hint)(w)
			if len(p.Unsure) > 0 {
				said("    check in its documentation: " + strings.Join(p.Unsure, ", "))(w)
			}
			for _, v := range p.Variants {
				said("    --variant " + v.Name + ": " + v.Title)(w)
			}
		}
	})
}
