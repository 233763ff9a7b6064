package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// serveRole is what the child processes do: serve h on a free port, tell the
// address on standard output, and end when standard input does, so that no
// child outlives its parent.
func serveRole(ctx context.Context, h http.Handler) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		listener.Close()
	}()
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	if err := server.Serve(listener); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// child is a running process.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	addr  string
}

// startRole starts this program again in a role.
func startRole(ctx context.Context, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting %v: %w", args, err), cmd.Process.Kill(), cmd.Wait())
	}
	return &child{cmd: cmd, stdin: stdin, addr: strings.TrimSpace(addr)}, nil
}

func (c *child) stop() {
	c.stdin.Close()
	_ = c.cmd.Wait()
}

// endpoint is what serve tells of itself once it is ready.
type endpoint struct {
	URL    string `json:"url"`
	MCPURL string `json:"mcp_url"`
	APIKey string `json:"api_key"`
	PID    int    `json:"pid"`
}

// gateway is a running sallyport.
type gateway struct {
	endpoint
	cmd    *exec.Cmd
	client *http.Client // of its API
}

// build builds the command into dir.
func build(ctx context.Context, dir string) (binary string, err error) {
	binary = filepath.Join(dir, "sallyport")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "./cmd/sallyport")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("building the gateway (run this in the repository's root folder): %w", err)
	}
	return binary, nil
}

// startGateway starts a part of the command, with dir for its data and its log,
// and waits until it is ready.
func startGateway(ctx context.Context, binary, dir, part string, args ...string) (*gateway, error) {
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "gateway.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	args = append([]string{part, "--local-admin", "--listen", "127.0.0.1:0", "--data", data, "--rate-limit", "0"}, args...)
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	g := &gateway{cmd: cmd, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: approvers}}}
	for range 6000 {
		raw, err := os.ReadFile(filepath.Join(data, "endpoint.json"))
		if err == nil && json.Unmarshal(raw, &g.endpoint) == nil {
			return g, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	text, _ := os.ReadFile(log.Name())
	g.stop()
	return nil, fmt.Errorf("the gateway was not ready within 30 s; its log:\n%s", text)
}

func (g *gateway) stop() {
	g.client.CloseIdleConnections()
	_ = g.cmd.Process.Signal(syscall.SIGTERM)
	_ = g.cmd.Wait()
}
