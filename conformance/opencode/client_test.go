package opencode_test

import (
	"encoding/json"
	"path/filepath"
	"time"

	"sallyport/conformance/harness"
)

// opencode is an installation of OpenCode.
type opencode struct{ *harness.Agent }

// opencode installs OpenCode for the session of the story. Changes are made to
// its configuration before it is written.
func (s *story) opencode(m *harness.Model, changes ...func(config args)) *opencode {
	s.T.Helper()
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
		s.T.Fatal(err)
	}
	return s.installed(raw)
}

// configuration knows the scripted model alone, and asks nobody anything.
func configuration(m *harness.Model) args {
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
	s.T.Helper()
	o := &opencode{harness.NewAgent(s.T, program(s.T))}
	o.File("user.json", config)
	o.Env = append(o.Env, "OPENCODE_CONFIG="+filepath.Join(o.Home, "user.json"), "SALLYPORT_TOKEN="+s.Token)
	for _, what := range []string{"PROJECT_CONFIG", "AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "SHARE"} {
		o.Env = append(o.Env, "OPENCODE_DISABLE_"+what+"=1")
	}
	return o
}

// run starts `opencode run` with a prompt.
func (o *opencode) run(prompt string) *harness.Process { return o.Start("run", prompt) }
