// Package clients_test runs the agents that people use most, Claude Code, Codex
// and Gemini CLI, against a real gateway, with models that follow a script, and
// looks at what the models were given. Package opencode_test does so with
// OpenCode.
package clients_test

import (
	"errors"
	"runtime"
	"testing"

	"sallyport/conformance/harness"
)

// shared is the gateway of the tests that need no flags of their own;
// searching offers the tools that search the others; bridged has the servers of
// others.
var (
	shared    harness.Setup
	searching = harness.Setup{Flags: []string{"--tool-list", "search"}}
	bridged   harness.Setup
)

func TestMain(m *testing.M) {
	harness.Main(m, runtime.GOMAXPROCS(0)+1, func() error { return errors.Join(shared.End(), searching.End(), bridged.End()) })
}
