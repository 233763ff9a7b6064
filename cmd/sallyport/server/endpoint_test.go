package server

import (
	"os"
	"strings"
	"testing"

	"sallyport/cmd/sallyport/command"
)

// TestTwoGatewaysOneFolder starts a second instance in the data folder of the
// first: commands would find whichever came last.
func TestTwoGatewaysOneFolder(t *testing.T) {
	t.Parallel()
	o := Options{Data: t.TempDir(), DatabaseURL: postgresTables(t), MasterKey: strings.Repeat("aa", 32), TokenKey: strings.Repeat("bb", 32)}
	first := openVaulted(t, o)
	_, err := first.Welcome(t.Context())
	first.ok(err)
	told, err := os.ReadFile(command.EndpointPath(o.Data))
	first.ok(err)

	second := openVaulted(t, o)
	if _, err := second.Welcome(t.Context()); err == nil || !strings.Contains(err.Error(), "its own with --data") {
		t.Errorf("the second one starts: %v", err)
	}
	second.Close()
	if now, err := os.ReadFile(command.EndpointPath(o.Data)); err != nil || string(now) != string(told) {
		t.Errorf("the first one's endpoint.json is gone or another one's: %v", err)
	}
	first.Close()
	third := openVaulted(t, o)
	_, err = third.Welcome(t.Context())
	third.ok(err)
}
