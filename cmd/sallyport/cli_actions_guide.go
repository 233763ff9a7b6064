package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

type actionsGuide struct {
	inSession
	Source string `arg:"" optional:"" help:"Id or name of a source (default: all of the session's)."`
	Action string `env:"-" placeholder:"ACTION" help:"Only this action: its name at the source, or that of its tool."`
	Write  string `env:"-" type:"path" placeholder:"DIR" help:"Write actions-guide.md into this folder instead of printing it."`
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
	path := "/guide"
	if c.Source != "" {
		path += "/" + url.PathEscape(c.Source)
	}
	query := url.Values{}
	if c.Action != "" {
		query.Set("action", c.Action)
	}
	var guide struct {
		Markdown string `json:"markdown"`
	}
	raw, err := a.get(ctx, a.path(path), query, &guide)
	if err != nil {
		return err
	}
	if c.Write != "" {
		return writeGuide(std, c.Write, guide.Markdown)
	}
	return c.print(std, raw, func(w io.Writer) { page(w, guide.Markdown) })
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
