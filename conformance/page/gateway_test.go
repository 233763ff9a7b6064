package page_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// gateway is a sallyport process.
type gateway struct {
	data, log string
	cmd       *exec.Cmd
	done      chan struct{} // closed when the process has ended

	// What serve tells of itself once it is ready.
	URL    string `json:"url"`
	MCPURL string `json:"mcp_url"`
	APIKey string `json:"api_key"`
	PID    int    `json:"pid"`
}

// startGateway serves from an empty folder, as an administrator's own.
func startGateway(dir string, flags ...string) (*gateway, error) {
	path, err := binary()
	if err != nil {
		return nil, err
	}
	g := &gateway{data: filepath.Join(dir, "data"), log: filepath.Join(dir, "log"), done: make(chan struct{})}
	log, err := os.OpenFile(g.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	flags = append([]string{"serve", "--local-admin", "--rate-limit", "0", "--listen", "127.0.0.1:0", "--data", g.data}, flags...)
	g.cmd = exec.CommandContext(context.Background(), path, flags...)
	g.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // else each end takes a second
	g.cmd.Stdout, g.cmd.Stderr = log, log
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { defer close(g.done); _ = g.cmd.Wait() }()
	return g, g.serves()
}

// serves waits until the process is ready.
func (g *gateway) serves() error {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		select {
		case <-g.done:
			return fmt.Errorf("the gateway ended at its start:\n%s", g.logged())
		default:
		}
		raw, err := os.ReadFile(filepath.Join(g.data, "endpoint.json"))
		if err == nil && json.Unmarshal(raw, g) == nil && g.PID == g.cmd.Process.Pid {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("the gateway was not ready within %v:\n%s", patience, g.logged()), g.close())
}

// close ends the process and looks at what it wrote.
func (g *gateway) close() error {
	_ = g.cmd.Process.Signal(syscall.SIGTERM) // one that ended already is read below
	var err error
	select {
	case <-g.done:
	case <-time.After(patience):
		_ = g.cmd.Process.Kill()
		<-g.done
		err = fmt.Errorf("the gateway did not end within %v of being asked to", patience)
	}
	log := g.logged()
	for _, sign := range []string{"DATA RACE", "panic:", "panicked", "http: panic"} {
		if bytes.Contains(log, []byte(sign)) {
			return errors.Join(err, fmt.Errorf("the gateway's log has %q:\n%s", sign, log))
		}
	}
	return err
}

func (g *gateway) logged() []byte {
	raw, err := os.ReadFile(g.log)
	if err != nil {
		return []byte(err.Error())
	}
	return raw
}

// house is a gateway with an upstream behind it. The shared one outlives each
// story; it starts with the first that needs it.
type house struct {
	once sync.Once
	err  error
	*gateway
	demo   *upstream
	people map[string]int // by role
}

var shared house

// open starts the gateway and makes the upstream its connector "demo".
func (h *house) open(dir string, flags ...string) error {
	h.once.Do(func() {
		if h.gateway, h.err = startGateway(dir, flags...); h.err != nil {
			return
		}
		h.people = map[string]int{}
		h.demo = startUpstream(demoTools()...)
		a := &api{url: h.URL, key: h.APIKey}
		_, h.err = a.send(context.Background(), "POST", "/api/v1/connectors", args{"name": "Demo", "slug": "demo", "url": h.demo.URL, "profile": "strict"}, nil)
	})
	return h.err
}

func (h *house) close() error {
	if h.gateway == nil {
		return nil // no story needed it
	}
	err := h.gateway.close()
	if h.demo != nil {
		h.demo.close()
	}
	return err
}

// story is a test in a house.
type story struct {
	t *testing.T
	*house
	*api
}

// begin begins a story in the house that all share.
func begin(t *testing.T) *story {
	t.Helper()
	return newStory(t, &shared, func() (string, error) { return scratch, nil })
}

// beginAlone begins a story in a house of its own, with further flags of
// serve.
func beginAlone(t *testing.T, flags ...string) *story {
	t.Helper()
	h := &house{}
	t.Cleanup(func() {
		if err := h.close(); err != nil {
			t.Error(err)
		}
	})
	return newStory(t, h, func() (string, error) { return os.MkdirTemp(scratch, "house-") }, flags...)
}

// of is the same story told by a part of its test.
func (s *story) of(t *testing.T) *story {
	return &story{t: t, house: s.house, api: &api{t: t, url: s.URL, key: s.APIKey}}
}

func newStory(t *testing.T, h *house, folder func() (string, error), flags ...string) *story {
	t.Helper()
	if testing.Short() {
		missing(t, "runs the gateway as a process, and a browser")
	}
	chromium.need(t)
	dir, err := folder()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.open(dir, flags...); err != nil {
		t.Fatal(err)
	}
	before := len(h.logged())
	t.Cleanup(func() {
		if log := h.logged()[before:]; t.Failed() && len(log) > 0 {
			t.Logf("the end of the gateway's log:\n%s", log[max(0, len(log)-4000):])
		}
	})
	return (&story{house: h}).of(t)
}
