package doctor

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"sallyport/api"
	"sallyport/cmd/sallyport/cli"
	"sallyport/internal/agent"
	"sallyport/internal/jsonc"
)

// clientDoctor checks what a client needs to call the gateway's tools, in the
// current project and the home folder.
type clientDoctor struct {
	report
	client agent.Client
	config agent.Config
	home   string
	file   string         // that has the entry
	entry  map[string]any // of the gateway
}

// checkClient runs the checks of --client.
func checkClient(ctx context.Context, client agent.Client) (report, error) {
	config, err := agent.ClientConfig(client, agent.Setup{})
	if err != nil {
		return report{}, err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return report{}, err
	}
	d := &clientDoctor{client: client, config: config, home: home}
	d.checkProgram()
	if config.Command != "" {
		d.add("ok", "entry", "none is needed; to connect, run the command of: sallyport client config %s --session ID", client)
		d.checkGateway(ctx, os.Getenv("SALLYPORT_URL"), d.checkVariable())
		return d.report, nil
	}
	d.findEntry()
	if d.entry == nil {
		return d.report, nil
	}
	d.checkGateway(ctx, findText(d.entry, isURL), d.checkToken())
	d.checkApproval()
	return d.report, nil
}

func (d *clientDoctor) checkProgram() {
	path, err := exec.LookPath(d.config.Program)
	if err != nil {
		d.add("warn", "client", "%s is not on the PATH: install %s, or ignore this if you start it from a menu", d.config.Program, d.client.Name())
		return
	}
	d.add("ok", "client", "%s", path)
}

// findEntry looks for the gateway's entry in the file of the project, then in
// that for all projects.
func (d *clientDoctor) findEntry() {
	var looked []string
	for _, path := range []string{filepath.FromSlash(d.config.File), filepath.Join(d.home, filepath.FromSlash(d.config.UserFile))} {
		if path == "" {
			continue
		}
		for _, path := range []string{path, path + "c"} { // OpenCode's .jsonc
			text, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				d.entry, err = d.config.Find(text)
			}
			if err != nil {
				d.add("fail", "entry", "%s: %v", path, err)
				continue
			}
			if d.entry != nil {
				d.file = path
				d.add("ok", "entry", "%s has %s, for %s", path, strings.Join(d.config.Entry, "."), findText(d.entry, isURL))
				return
			}
		}
		looked = append(looked, path)
	}
	option := "--write ."
	if d.config.File == "" {
		option = "--user"
	}
	d.add("fail", "entry", "there is no %s in %s; add it: sallyport client config %s --session ID %s", strings.Join(d.config.Entry, "."), strings.Join(looked, " or "), d.client, option)
}

// checkToken returns the token that the client will send, or "" if that is not
// known here.
func (d *clientDoctor) checkToken() string {
	switch {
	case d.config.Literal:
		_, token, _ := strings.Cut(findText(d.entry, func(text string) bool { return strings.Contains(text, "Bearer ") }), "Bearer ")
		if token == "" || token == agent.TokenPlaceholder {
			d.add("fail", "token", "%s has no token; set SALLYPORT_TOKEN and run: sallyport client config %s --user", d.file, d.client)
			return ""
		}
		d.add("ok", "token", "it is in %s; replace it when its session ends", d.file)
		return token
	case d.client == agent.VSCode:
		d.add("ok", "token", "VS Code asks for it at the first start, and stores it")
		return os.Getenv(agent.TokenVariable)
	}
	return d.checkVariable()
}

func (d *clientDoctor) checkVariable() string {
	token := os.Getenv(agent.TokenVariable)
	if token == "" {
		d.add("fail", "token", "%s is not set in this shell: export it with the token from sallyport session create, and start %s from the same shell", agent.TokenVariable, d.client.Name())
		return ""
	}
	d.add("ok", "token", "%s is set", agent.TokenVariable)
	return token
}

// checkGateway asks the gateway of the entry whose token it is.
func (d *clientDoctor) checkGateway(ctx context.Context, url, token string) {
	if token == "" || url == "" {
		return
	}
	ctx, stop := context.WithTimeout(ctx, checkTimeout)
	defer stop()
	gateway, err := cli.NewClient(url, token)
	if err != nil {
		d.add("fail", "gateway", "%v", err)
		return
	}
	me, _, err := cli.Fetch(ctx, gateway, api.GetMe, api.None{})
	switch {
	case err != nil:
		d.add("fail", "gateway", "%v", err)
	case me.Session == "":
		d.add("fail", "gateway", "the token at %s is not that of a session; use one from sallyport session create", url)
	default:
		d.add("ok", "gateway", "%s accepts the token of session %s", url, me.Session)
	}
}

// checkApproval checks whether the client asks its user before each tool, in
// addition to the gateway.
func (d *clientDoctor) checkApproval() {
	allowed, remedy := false, ""
	switch d.client {
	case agent.Codex:
		allowed = d.entry["default_tools_approval_mode"] == "approve"
		remedy = `set default_tools_approval_mode = "approve" in ` + d.file
	case agent.GeminiCLI:
		allowed = d.entry["trust"] == true
		remedy = `set "trust": true in ` + d.file
	case agent.OpenCode:
		allowed = d.lookup(d.file, "permission", agent.Server+"_*") == "allow" || d.lookup(d.file, "permission", "*") == "allow" || d.lookup(d.file, "permission") == "allow"
		remedy = "run: sallyport client config opencode --session ID --write ."
	case agent.ClaudeCode:
		for _, file := range []string{".claude/settings.json", ".claude/settings.local.json", filepath.Join(d.home, ".claude/settings.json")} {
			rules, _ := d.lookup(file, "permissions", "allow").([]any)
			allowed = allowed || slices.Contains(rules, any("mcp__"+agent.Server))
		}
		remedy = "start it with: claude --allowedTools mcp__" + agent.Server + "; or add that name to permissions.allow in .claude/settings.json"
	default:
		d.add("ok", "approval", "%s may ask its user before each tool; the gateway decides in any case", d.client.Name())
		return
	}
	if allowed {
		d.add("ok", "approval", "%s does not ask its user about the gateway's tools; the gateway decides", d.client.Name())
		return
	}
	d.add("warn", "approval", "%s asks its user before each tool, although the gateway decides: %s", d.client.Name(), remedy)
}

// lookup returns a value of a file, or nil.
func (d *clientDoctor) lookup(file string, path ...string) any {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	value, err := jsonc.Lookup(text, path...)
	if err != nil {
		d.add("fail", "approval", "%s: %v", file, err)
	}
	return value
}

func isURL(text string) bool {
	return strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://")
}

// findText returns the first string of a value that matches.
func findText(value any, matches func(string) bool) string {
	switch value := value.(type) {
	case string:
		if matches(value) {
			return value
		}
	case []any:
		for _, item := range value {
			if text := findText(item, matches); text != "" {
				return text
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if text := findText(value[key], matches); text != "" {
				return text
			}
		}
	}
	return ""
}
