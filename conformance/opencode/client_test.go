package opencode_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"
)

// opencode is an installation of OpenCode: folders, configuration and model of
// its own.
type opencode struct {
	t    *testing.T
	path string
	dir  string
	env  []string
}

// opencode installs OpenCode for the session of the story. Changes are made to
// its configuration before it is written.
func (s *story) opencode(m *model, changes ...func(config args)) *opencode {
	s.t.Helper()
	config := configuration(m)
	config["mcp"] = args{"sallyport": args{
		"type": "remote", "url": s.MCPURL, "oauth": false,
		"headers": args{"Authorization": "Bearer {env:SALLYPORT_TOKEN}"},
	}}
	for _, change := range changes {
		change(config)
	}
	raw, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		s.t.Fatal(err)
	}
	return s.installed(raw)
}

// configuration knows the scripted model alone, and asks nobody anything.
func configuration(m *model) args {
	return args{
		"autoupdate": false, "share": "disabled", "permission": "allow",
		"enabled_providers": []string{"scripted"}, "model": "scripted/agent", "small_model": "scripted/title",
		"provider": args{"scripted": args{
			"npm": "@ai-sdk/openai-compatible", "name": "Scripted",
			"options": args{"baseURL": m.URL + "/v1", "apiKey": "none"},
			"models":  args{"agent": args{"name": "Agent"}, "title": args{"name": "Title"}},
		}},
	}
}

// timeout sets the time that OpenCode gives the gateway to connect, to list,
// and to answer a call or show progress.
func timeout(d time.Duration) func(args) {
	return func(config args) {
		config["mcp"].(args)["sallyport"].(args)["timeout"] = d.Milliseconds()
	}
}

// installed makes the folders around a configuration.
func (s *story) installed(config []byte) *opencode {
	s.t.Helper()
	o := &opencode{t: s.t, path: program(s.t), dir: s.t.TempDir()}
	file := filepath.Join(o.dir, "user.json")
	if err := os.Mkdir(o.work(), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(file, config, 0o600); err != nil {
		s.t.Fatal(err)
	}
	o.env = []string{"HOME=" + o.dir, "PATH=" + os.Getenv("PATH"), "OPENCODE_CONFIG=" + file, "SALLYPORT_TOKEN=" + s.session.Token, "NO_COLOR=1"}
	for _, kind := range []string{"CONFIG", "DATA", "CACHE", "STATE"} {
		o.env = append(o.env, "XDG_"+kind+"_HOME="+filepath.Join(o.dir, kind))
	}
	for _, what := range []string{"PROJECT_CONFIG", "AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "SHARE"} {
		o.env = append(o.env, "OPENCODE_DISABLE_"+what+"=1")
	}
	for _, proxy := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
		o.env = append(o.env, proxy+"=http://127.0.0.1:9") // nobody listens there
	}
	o.env = append(o.env, "NO_PROXY=127.0.0.1,localhost")
	return o
}

// work is the folder of the project that OpenCode works on.
func (o *opencode) work() string { return filepath.Join(o.dir, "work") }

// running is an OpenCode process beside the story.
type running struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{}
	err  error

	mu  sync.Mutex
	out bytes.Buffer // standard output and error
}

func (r *running) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Write(p)
}

var colours = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// printed is what the user saw so far, without colours.
func (r *running) printed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return colours.ReplaceAllString(r.out.String(), "")
}

// run starts `opencode run` with a prompt.
func (o *opencode) run(prompt string) *running { o.t.Helper(); return o.start("run", prompt) }

// start starts any command of OpenCode.
func (o *opencode) start(arguments ...string) *running {
	o.t.Helper()
	r := &running{t: o.t, done: make(chan struct{})}
	r.cmd = exec.CommandContext(context.Background(), o.path, arguments...)
	r.cmd.Dir, r.cmd.Env = o.work(), o.env
	r.cmd.Stdout, r.cmd.Stderr = r, r
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it has children of its own
	if err := r.cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	go func() { defer close(r.done); r.err = r.cmd.Wait() }()
	o.t.Cleanup(r.stop)
	return r
}

// stop ends the process and its children.
func (r *running) stop() {
	_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL) // they may have ended
	<-r.done
	if r.t.Failed() || os.Getenv("SALLYPORT_OPENCODE_LOG") != "" {
		r.t.Logf("OpenCode printed:\n%s", r.printed())
	}
}

// ends waits until the process has ended well, and returns what it printed.
func (r *running) ends() string {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		r.t.Fatalf("OpenCode did not end within %v", patience)
	}
	if r.err != nil {
		r.t.Fatalf("OpenCode ended with %v", r.err)
	}
	return r.printed()
}
