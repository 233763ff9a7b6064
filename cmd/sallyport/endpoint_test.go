package main

import (
	"os"
	"strings"
	"testing"
)

// TestTwoGatewaysOneFolder starts a second instance in the data folder of the
// first: commands would find whichever came last.
func TestTwoGatewaysOneFolder(t *testing.T) {
	o := options{Data: t.TempDir(), DatabaseURL: postgresTables(t), MasterKey: strings.Repeat("aa", 32), TokenKey: strings.Repeat("bb", 32)}
	first := openVaulted(t, o)
	_, err := first.welcome(t.Context())
	first.ok(err)
	told, err := os.ReadFile(endpointPath(o.Data))
	first.ok(err)

	second := openVaulted(t, o)
	if _, err := second.welcome(t.Context()); err == nil || !strings.Contains(err.Error(), "its own with --data") {
		t.Errorf("the second one starts: %v", err)
	}
	second.close()
	if now, err := os.ReadFile(endpointPath(o.Data)); err != nil || string(now) != string(told) {
		t.Errorf("the first one's endpoint.json is gone or another one's: %v", err)
	}
	first.close()
	third := openVaulted(t, o)
	_, err = third.welcome(t.Context())
	third.ok(err)
}
