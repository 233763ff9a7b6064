package opencode_test

import (
	"runtime"
	"testing"

	"sallyport/conformance/harness"
)

// shared is the gateway of the stories that need no flags of their own.
var shared harness.Setup

// One story holds a call for longer than the others take together.
func TestMain(m *testing.M) { harness.Main(m, runtime.GOMAXPROCS(0)+1, shared.End) }
