package harness

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// StartBridge starts an MCP server that speaks over standard input and output,
// behind the bridge that makes it one of streamable HTTP. It returns its URL.
func StartBridge(t testing.TB, env []string, server ...string) (url string) {
	t.Helper()
	port := freePort(t)
	// Chromium has a socket in the temporary folder, whose path must be shorter
	// than 108 bytes; that of the test's own would be longer.
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	bridge := exec.CommandContext(t.Context(), Node(t), Program(t, "supergateway/dist/index.js"),
		"--stdio", strings.Join(server, " "), "--outputTransport", "streamableHttp", "--stateful", "--port", port, "--logLevel", "none")
	bridge.Dir = dir
	bridge.Env = append([]string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH")}, env...)
	var printed bytes.Buffer
	bridge.Stdout, bridge.Stderr = &printed, &printed
	bridge.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it has children of its own
	bridge.Cancel = func() error { return syscall.Kill(-bridge.Process.Pid, syscall.SIGKILL) }
	if err := bridge.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = bridge.Cancel() // it may have ended
		_ = bridge.Wait()
		killAll(dir)
		// A browser's processes that hide their environment end with it, a moment later.
		err := os.RemoveAll(dir)
		for end := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(end); err = os.RemoveAll(dir) {
			time.Sleep(20 * time.Millisecond)
		}
		if err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("%s printed:\n%s", server[len(server)-1], printed.String())
		}
	})
	Await(t, server[len(server)-1]+" to listen", func() bool {
		dialer := net.Dialer{Timeout: time.Second}
		conn, err := dialer.DialContext(t.Context(), "tcp", "127.0.0.1:"+port)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return "http://127.0.0.1:" + port + "/mcp"
}

// freePort is a port where nothing listens.
func freePort(t testing.TB) string {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}
