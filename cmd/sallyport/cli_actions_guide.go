package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"sallyport/api"
)

type actionsGuide struct {
	inSession
	Source string `arg:"" optional:"" help:"ID or name of a source (default: all sources of the session)."`
	api.OfAction
	Write string `env:"-" type:"path" placeholder:"DIR" help:"Write actions-guide.md to this folder instead of printing it."`
}

// guideFile is what the guide is called in the folder of --write.
const guideFile = "actions-guide.md"

func (c *actionsGuide) Run(ctx context.Context, std *stdio) error {
	if c.Write != "" && (c.Source != "" || c.Action != "") {
		return wrongUse("--write writes the guide of all the session's actions; leave out SOURCE and --action")
	}
	a, err := c.connect(ctx, std)
	if err != nil {
		return err
	}
	_, guide, raw, err := c.read(ctx, a)
	if err != nil {
		return err
	}
	if c.Write != "" {
		return writeGuide(std, c.Write, guide.Markdown)
	}
	return c.print(std, raw, func(w io.Writer) { page(w, guide.Markdown) })
}

func (c *actionsGuide) read(ctx context.Context, a *agentClient) (int, *api.GuideView, json.RawMessage, error) {
	if c.Source == "" {
		return fetchAs(ctx, a, api.GetGuide, api.GetGuideInput{InSession: a.in(), OfAction: c.OfAction})
	}
	return fetchAs(ctx, a, api.GetSourceGuide, api.GetSourceGuideInput{InSession: a.in(), OfAction: c.OfAction, Source: c.Source})
}

func writeGuide(std *stdio, folder, text string) error {
	if strings.HasSuffix(folder, ".md") {
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			return wrongUse("--write names a folder, in which the guide is called %s; leave out %s", guideFile, visible(filepath.Base(folder)))
		}
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return unwritable(folder, err)
	}
	path := filepath.Join(folder, guideFile)
	if err := writeWhole(path, []byte(text)); err != nil {
		return err
	}
	said("the guide is in " + path)(std.Out)
	return nil
}

// page shows text of several lines, each made harmless.
func page(w io.Writer, text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintln(w, visible(strings.TrimRight(line, "\r\n")))
	}
}
