package opencode_test

import (
	"testing"

	"sallyport/conformance/harness"
)

type args = harness.Args

// story is a test with a session of its own.
type story struct{ *harness.Session }

// begin begins a story at the gateway that all share.
func begin(t *testing.T) *story {
	t.Helper()
	program(t) // a story that cannot run starts nothing
	return &story{shared.Session(t, nil)}
}

// beginAlone begins a story at a gateway of its own, with further flags of
// serve.
func beginAlone(t *testing.T, flags ...string) *story {
	t.Helper()
	return beginWith(t, nil, flags...)
}

// beginWith does so with further fields of the request for its session.
func beginWith(t *testing.T, fields args, flags ...string) *story {
	t.Helper()
	program(t)
	return &story{harness.Alone(t, fields, flags...)}
}

// program is the pinned OpenCode.
func program(t *testing.T) string {
	t.Helper()
	harness.SkipShort(t)
	return harness.Program(t, "opencode-linux-x64-baseline/bin/opencode")
}

// model starts a model that follows the script.
func (s *story) model(script ...harness.Step) *harness.Model {
	return harness.NewModel(s.T, harness.Chat{}, script...)
}
