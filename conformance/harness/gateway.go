package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Gateway is a sallyport process.
type Gateway struct {
	Path, Data string // of the program and of its data
	log, addr  string
	flags      []string
	cmd        *exec.Cmd
	done       chan struct{} // closed when the process has ended

	// What serve tells of itself once it is ready.
	URL    string `json:"url"`
	MCPURL string `json:"mcp_url"`
	APIKey string `json:"api_key"`
	PID    int    `json:"pid"`
}

// NewGateway prepares a process that serves from an empty folder, as an
// administrator's own.
func NewGateway(dir string, flags ...string) (*Gateway, error) {
	path, err := binary()
	if err != nil {
		return nil, err
	}
	return &Gateway{
		Path: path, Data: filepath.Join(dir, "sallyport"), log: filepath.Join(dir, "log"), addr: "127.0.0.1:0",
		flags: append([]string{"--local-admin", "--rate-limit", "0"}, flags...),
	}, nil
}

// Start starts the process and waits until it is ready. One that was started
// before comes back where it was.
func (g *Gateway) Start() error {
	log, err := os.OpenFile(g.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	g.cmd = exec.CommandContext(context.Background(), g.Path, append([]string{"serve", "--listen", g.addr, "--data", g.Data}, g.flags...)...)
	g.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // else each end takes a second
	g.cmd.Stdout, g.cmd.Stderr = log, log
	if err := g.cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	g.done = done
	go func() { defer close(done); _ = g.cmd.Wait() }()
	return g.serves()
}

// serves waits until the process is ready.
func (g *Gateway) serves() error {
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		select {
		case <-g.done:
			return fmt.Errorf("the gateway ended at its start:\n%s", g.Logged())
		default:
		}
		raw, err := os.ReadFile(filepath.Join(g.Data, "endpoint.json"))
		if err == nil && json.Unmarshal(raw, g) == nil && g.PID == g.cmd.Process.Pid {
			at, err := url.Parse(g.URL)
			if err == nil {
				g.addr = at.Host
			}
			return err
		}
	}
	return errors.Join(fmt.Errorf("the gateway was not ready within %v:\n%s", Patience, g.Logged()), g.Close())
}

// Kill ends the process as a power cut would.
func (g *Gateway) Kill() {
	_ = g.cmd.Process.Kill() // one that ended already is as dead
	<-g.done
}

// Stop asks the process to end and waits until it has.
func (g *Gateway) Stop() error {
	_ = g.cmd.Process.Signal(syscall.SIGTERM) // one that ended already is read by close
	select {
	case <-g.done:
		return nil
	case <-time.After(Patience):
		g.Kill()
		return fmt.Errorf("the gateway did not end within %v of being asked to", Patience)
	}
}

// Close ends the process and looks at what it wrote.
func (g *Gateway) Close() error {
	err := g.Stop()
	log := g.Logged()
	for _, sign := range []string{"DATA RACE", "panic:", "panicked", "http: panic"} {
		if bytes.Contains(log, []byte(sign)) {
			return errors.Join(err, fmt.Errorf("the gateway's log has %q:\n%s", sign, log))
		}
	}
	return err
}

// Logged is the log of the process so far.
func (g *Gateway) Logged() []byte {
	raw, err := os.ReadFile(g.log)
	if err != nil {
		return []byte(err.Error())
	}
	return raw
}
