package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"sallyport/internal/envfile"
)

type envCommand struct {
	Requests envRequests `cmd:"" help:"List requests for environment variables."`
	Answer   envAnswer   `cmd:"" help:"Send the requested values to an agent, which can read them."`
	Refuse   envRefuse   `cmd:"" help:"Refuse a request, with a reason."`

	Pull  envPull  `cmd:"" help:"For agents: fetch the values entered for this session, once, and write them to a file."`
	Apply envApply `cmd:"" help:"In a sandbox: write the env files of a specification from the environment and the pulled values."`
	Scrub envScrub `cmd:"" help:"In a sandbox: remove the files that env apply wrote."`
}

// envSpec are the flags of commands that work on files of a workspace.
type envSpec struct {
	Spec      string `required:"" env:"-" placeholder:"FILE|JSON|-" help:"Specification as JSON, a file, or - for standard input; the format of save_env_files."`
	Workspace string `default:"." type:"path" placeholder:"DIR" help:"Folder of the workspace (default: current folder)."`
	JSON      bool   `help:"Print the result as JSON."`
}

// specLimit is far above any specification; it keeps a wrong file out.
const specLimit = 1 << 20

func (c *envSpec) files(std *stdio) ([]envfile.File, error) {
	text := strings.TrimSpace(c.Spec)
	if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
		return envfile.Parse([]byte(text))
	}
	in := std.In
	if text != "-" {
		f, err := os.Open(text)
		if err != nil {
			return nil, fmt.Errorf("reading the specification: %w", err)
		}
		defer f.Close()
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, specLimit))
	if err != nil {
		return nil, fmt.Errorf("reading the specification: %w", err)
	}
	return envfile.Parse(raw)
}

// done prints what became of which files.
func (c *envSpec) done(std *stdio, became map[string][]string) error {
	if c.JSON {
		raw, err := json.Marshal(became)
		if err != nil {
			return err
		}
		return std.printJSON(raw)
	}
	for _, what := range []string{"written", "removed", "left"} {
		for _, name := range became[what] {
			text := what + " " + name
			if what == "left" {
				text += ": it was not written by sallyport env apply"
			}
			said(text)(std.Out)
		}
	}
	return nil
}

// pulledFile is where env pull writes, unless it is told otherwise.
const pulledFile = "/tmp/.sallyport_env.json"

type envApply struct {
	envSpec
	Values  string `type:"path" placeholder:"FILE" help:"File written by env pull; its values override the environment (default: /tmp/.sallyport_env.json)."`
	Replace bool   `help:"Replace existing files that env apply did not write."`
}

func (c *envApply) Run(std *stdio) error {
	list, err := c.files(std)
	if err != nil {
		return err
	}
	over, err := readValues(cmp.Or(c.Values, pulledFile))
	if over == nil && err == nil && c.Values != "" {
		err = fmt.Errorf("there is no file %s; name what sallyport env pull wrote, or leave --values out", visible(c.Values))
	}
	if err != nil {
		return err
	}
	if err := envfile.Apply(c.Workspace, list, envfile.Values(list, os.LookupEnv, over), c.Replace); err != nil {
		return err
	}
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name()
	}
	return c.done(std, map[string][]string{"written": names})
}

type envScrub struct{ envSpec }

func (c *envScrub) Run(std *stdio) error {
	list, err := c.files(std)
	if err != nil {
		return err
	}
	removed, left, err := envfile.Scrub(c.Workspace, list)
	if err != nil {
		return err
	}
	return c.done(std, map[string][]string{"removed": nonEmpty(removed), "left": nonEmpty(left)})
}

func nonEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// readValues reads what env pull wrote; there need not be any. A file that
// others can write or read is not its.
func readValues(name string) (map[string]string, error) {
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s is not a file for its owner alone (mode 0600), as sallyport env pull writes it; look at it, then remove it", name)
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var values map[string]string
	if json.Unmarshal(raw, &values) != nil { // whose error could show some
		return nil, fmt.Errorf("%s is not an object of texts, as sallyport env pull writes it; remove it and pull again", name)
	}
	return values, nil
}
