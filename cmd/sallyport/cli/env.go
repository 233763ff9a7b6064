package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
	"sallyport/internal/envfile"
	"sallyport/internal/shell"
	"sallyport/internal/suggest"
)

type envCommand struct {
	Requests envRequests                                               `cmd:"" help:"List requests for environment variables."`
	Answer   envAnswer                                                 `cmd:"" help:"Send the requested values to an agent, which can read them."`
	Refuse   request[api.ByIDWith[*api.EnvRefusal], action.EnvRequest] `cmd:"" help:"Refuse a request, with a reason."`

	Pull  envPull  `cmd:"" help:"For agents: fetch the values entered for this session, once, and write them to a file."`
	Apply envApply `cmd:"" help:"In a sandbox: write the env files of the workspace, or of a specification, from its variables, the environment and the pulled values."`
	Scrub envScrub `cmd:"" help:"In a sandbox: remove the files that env apply wrote."`
}

// envSpecFlags are the flags of commands that work on the files of a workspace.
type envSpecFlags struct {
	agentFlags
	Spec      string `env:"-" placeholder:"FILE|JSON|-" help:"Specification as JSON, a file, or - for standard input; the format of save_env_files (default: that of the session's workspace)."`
	Workspace string `default:"." type:"path" placeholder:"DIR" help:"Folder of the workspace (default: current folder)."`
}

// specLimit is far above the size of any specification and catches a wrong
// file.
const specLimit = 1 << 20

func (c *envSpecFlags) files(ctx context.Context, std *command.Streams) ([]envfile.File, error) {
	text := strings.TrimSpace(c.Spec)
	if text == "" {
		a, err := c.connect(ctx, std)
		if err != nil {
			return nil, err
		}
		_, w, _, err := fetchAs(ctx, a, api.GetSessionWorkspace, a.sessionParam())
		if err != nil {
			return nil, err
		}
		return envfile.Parse(w.EnvFiles)
	}
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

// report prints the files of each result.
func (c *envSpecFlags) report(std *command.Streams, results map[string][]string) error {
	if c.JSON {
		raw, err := json.Marshal(results)
		if err != nil {
			return err
		}
		return std.PrintJSON(raw)
	}
	for _, what := range []string{"written", "removed", "left"} {
		for _, name := range results[what] {
			text := what + " " + name
			if what == "left" {
				text += ": it was not written by sallyport env apply"
			}
			printLine(std.Out, text)
		}
	}
	return nil
}

// pulledFile is the default file of env pull.
const pulledFile = "/tmp/.sallyport_env.json"

type envApply struct {
	envSpecFlags
	Values  string `type:"path" placeholder:"FILE" help:"File written by env pull; its values override the environment (default: /tmp/.sallyport_env.json)."`
	Replace bool   `help:"Replace existing files that env apply did not write."`
}

func (c *envApply) Run(ctx context.Context, std *command.Streams) error {
	list, err := c.files(ctx, std)
	if err != nil {
		return err
	}
	kept, err := c.variables(ctx, std)
	if err != nil {
		return err
	}
	over, err := readValues(cmp.Or(c.Values, pulledFile))
	if over == nil && err == nil && c.Values != "" {
		err = fmt.Errorf("there is no file %s; name a file that sallyport env pull wrote, or leave out --values", command.Printable(c.Values))
	}
	if err != nil {
		return err
	}
	maps.Copy(kept, over)
	if err := envfile.Apply(c.Workspace, list, envfile.MergeValues(list, os.LookupEnv, kept), c.Replace); err != nil {
		return err
	}
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name()
	}
	return c.report(std, map[string][]string{"written": names})
}

// variables returns the values of the variables of the session's workspace. With a
// specification of the caller's, there are none.
func (c *envApply) variables(ctx context.Context, std *command.Streams) (map[string]string, error) {
	if c.Spec != "" {
		return map[string]string{}, nil
	}
	a, err := c.connect(ctx, std)
	if err != nil {
		return nil, err
	}
	_, got, _, err := fetchAs(ctx, a, api.GetSessionVariables, a.sessionParam())
	if err != nil {
		return nil, err
	}
	return got.Values, nil
}

type envScrub struct{ envSpecFlags }

func (c *envScrub) Run(ctx context.Context, std *command.Streams) error {
	list, err := c.files(ctx, std)
	if err != nil {
		return err
	}
	removed, left, err := envfile.Scrub(c.Workspace, list)
	if err != nil {
		return err
	}
	return c.report(std, map[string][]string{"removed": nonNil(removed), "left": nonNil(left)})
}

func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// readValues reads the file that env pull wrote, if there is one. It rejects a
// file that other users can read or write.
func readValues(name string) (map[string]string, error) {
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s must be a file with mode 0600, as sallyport env pull creates it; check it, then remove it", name)
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var values map[string]string
	if json.Unmarshal(raw, &values) != nil { // the error could contain values
		return nil, fmt.Errorf("%s is not a JSON object of strings, as sallyport env pull writes it; remove it and pull again", name)
	}
	return values, nil
}

// showEnvRequest prints a request for variables. Descriptions and suggestions
// are the agent's own words.
func showEnvRequest(w io.Writer, r *action.EnvRequest) {
	printLine(w, fmt.Sprintf("%s  session %s requests %s", r.ID, r.Session, command.Plural(len(r.Keys), "environment variable")))
	for _, k := range r.Keys {
		text := "    " + k.Key
		if !k.Needed() {
			text += " (optional)"
		}
		printLine(w, text)
		if k.Description != "" {
			printLine(w, "      description by the agent: "+k.Description)
		}
		for _, s := range k.Suggestions {
			text := "      suggestion by the agent: " + s.Label
			if s.Instructions != "" {
				text += ": " + s.Instructions
			}
			if s.Value != "" {
				text += " = " + s.Value
			}
			printLine(w, text)
		}
	}
	age := "    requested " + relativeTime(&r.CreatedAt)
	if r.Status == action.EnvPending {
		printLine(w, age+", expires "+relativeTime(&r.ExpiresAt))
		return
	}
	text := age + ", " + string(r.Status)
	if r.DecidedBy != "" {
		text += " (by " + r.DecidedBy + ")"
	}
	if r.Note != "" {
		text += ": " + r.Note
	}
	printLine(w, text)
}

// envAnswerWarning is the warning that the dashboard shows too.
const envAnswerWarning = "! The agent and everything in its sandbox can read the values that you enter. Use keys of test accounts with minimal permissions."

type envRequests struct {
	clientFlags
	api.ListEnvRequestsInput
}

func (*envRequests) route() api.Operation { return api.ListEnvRequests.Operation }

func (c *envRequests) Run(ctx context.Context, std *command.Streams) error {
	in := c.ListEnvRequestsInput
	in.Status = statusFilter(c.Status)
	return perform(ctx, &c.clientFlags, std, api.ListEnvRequests, in, func(w io.Writer, all *api.List[action.EnvRequest]) {
		if len(all.Items) == 0 {
			printNoRequests(w, string(c.Status))
		}
		for i := range all.Items {
			showEnvRequest(w, &all.Items[i])
		}
		printNextPage(w, all.NextCursor)
		if len(all.Items) > 0 && c.Status == action.EnvPending {
			c.showEnvHint(w)
		}
	})
}

// envRequestRef is the argument that names a request.
type envRequestRef struct {
	clientFlags
	ID string `arg:"" help:"ID of the request; see sallyport env requests."`
}

type envAnswer struct {
	envRequestRef
	Name   string `arg:"" optional:"" help:"Variable whose value is on standard input (default: the only one requested)."`
	Values string `env:"-" placeholder:"FILE|-" help:"JSON object of values, {\"NAME\": \"value\"}, in a file or - for standard input."`
	Keep   bool   `help:"Keep the values as variables of the session's workspace, for its later sessions."`
}

// Run shows the request before it reads values. Values are not arguments
// because every user of the machine can read a command line.
func (c *envAnswer) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	request, _, err := Fetch(ctx, server, api.GetEnvRequest, api.ByID{ID: c.ID})
	if err != nil {
		return err
	}
	showEnvRequest(std.Err, request)
	if request.Status == action.EnvPending {
		printLine(std.Err, envAnswerWarning)
		if c.Name != "" { // fail before the user types a value
			if err := checkRequested(request, c.Name); err != nil {
				return err
			}
		}
	}
	values, err := c.values(std, request)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err == nil && request.Status == action.EnvPending {
			err = checkRequested(request, name)
		}
	}
	if err != nil {
		return err
	}
	in := api.ByIDWith[api.EnvAnswer]{ByID: api.ByID{ID: c.ID}, Body: api.EnvAnswer{Values: values, Keep: c.Keep}}
	return perform(ctx, &c.clientFlags, std, api.AnswerEnvRequest, in, func(w io.Writer, r *action.EnvRequest) {
		printLine(w, fmt.Sprintf("sent %s to session %s; its sandbox can fetch them once with sallyport env pull; they are deleted %s",
			strings.Join(slices.Sorted(maps.Keys(values)), ", "), r.Session, relativeTime(&r.ExpiresAt)))
	})
}

// requestedKeys returns the names of the requested variables.
func requestedKeys(r *action.EnvRequest) []string {
	names := make([]string, len(r.Keys))
	for i, k := range r.Keys {
		names[i] = k.Key
	}
	return names
}

// checkRequested rejects a variable that was not requested.
func checkRequested(r *action.EnvRequest, name string) error {
	names := requestedKeys(r)
	if slices.Contains(names, name) {
		return nil
	}
	if near := suggest.Similar(name, names); len(near) > 0 && len(names) > 1 {
		return command.UsageErrorf("%[2]s is not requested; the request is for %[1]s. Did you mean %[3]s?", strings.Join(names, ", "), command.Printable(name), strings.Join(near, ", "))
	}
	return command.UsageErrorf("%[2]s is not requested; the request is for %[1]s", strings.Join(names, ", "), command.Printable(name))
}

// values reads the values from standard input or from a file.
func (c *envAnswer) values(std *command.Streams, request *action.EnvRequest) (map[string]string, error) {
	switch {
	case c.Values != "" && c.Name != "":
		return nil, command.UsageErrorf("pass either NAME, with its value on standard input, or --values")
	case c.Values != "":
		return c.file(std)
	case c.Name == "" && len(request.Keys) != 1:
		return nil, command.UsageErrorf("several variables are requested; pass them with --values FILE, a JSON object {\"NAME\": \"value\"}")
	case c.Name == "":
		c.Name = request.Keys[0].Key
	}
	value, err := readSecret(std, "env answer "+c.ID+" "+shell.Quote(c.Name))
	return map[string]string{c.Name: value}, err
}

// file reads a JSON object of strings. Its errors do not contain values.
func (c *envAnswer) file(std *command.Streams) (values map[string]string, err error) {
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
		return nil, errors.New(`the values are not a JSON object of strings; write {"NAME": "value"}`)
	}
	return values, nil
}

func showRefusedEnv(w io.Writer, r *action.EnvRequest) {
	printLine(w, fmt.Sprintf("refused to send %s to session %s", strings.Join(requestedKeys(r), ", "), r.Session))
}
