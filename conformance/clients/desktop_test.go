package clients_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/conformance/harness"
)

// TestMCPRemote connects as Claude Desktop does: through a process that speaks
// to the gateway for it. The client asks for progress, and gets it.
func TestMCPRemote(t *testing.T) {
	t.Parallel()
	s := shared.Session(t, nil)
	command := exec.CommandContext(t.Context(), harness.Node(t), harness.Program(t, "mcp-remote/dist/proxy.js"),
		s.MCPURL, "--header", "Authorization:${AUTH}")
	home := t.TempDir()
	command.Env = []string{"HOME=" + home, "TMPDIR=" + home, "PATH=" + os.Getenv("PATH"), "AUTH=Bearer " + s.Token}
	shown := make(chan string, 100)
	client := mcp.NewClient(&mcp.Implementation{Name: "claude-ai", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			select {
			case shown <- r.Params.Message:
			default: // enough was shown
			}
		},
	})
	agent, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: command}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Close() })
	if got := callTool(t, agent, "demo_read", args{"text": "milk"}); got != "read milk" {
		t.Errorf("the agent saw %q", got)
	}
	params := &mcp.CallToolParams{Name: "demo_write", Arguments: args{"text": "from a desktop"}}
	params.SetProgressToken("held")
	done := make(chan error, 1)
	go func() {
		_, err := agent.CallTool(t.Context(), params)
		done <- err
	}()
	id := s.Held()
	harness.Await(t, "progress", func() bool { return len(shown) > 0 })
	if message := <-shown; !strings.Contains(message, "/invocations/"+id) {
		t.Errorf("the progress says %q", message)
	}
	s.Approve(id)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := s.Demo.Did("wrote from a desktop"); n != 1 {
		t.Errorf("the write had %d effects", n)
	}
}
