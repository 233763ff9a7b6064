package harness

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Agent is an installation of an agent: a program with folders and variables
// of its own.
type Agent struct {
	T       testing.TB
	Command []string // the program and the arguments before all others
	Home    string
	Env     []string
}

// NewAgent creates the folders. The environment has nothing of the test's but
// the path, and a proxy that refuses what the program would send elsewhere.
func NewAgent(t testing.TB, command ...string) *Agent {
	t.Helper()
	a := &Agent{T: t, Command: command, Home: t.TempDir()}
	for _, dir := range []string{a.Work(), a.temp()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	a.Env = []string{
		"HOME=" + a.Home, "TMPDIR=" + a.temp(), "PATH=" + os.Getenv("PATH"), "NO_COLOR=1", "TERM=dumb", "LANG=C.UTF-8",
		"NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost",
	}
	for _, proxy := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		a.Env = append(a.Env, proxy+"=http://127.0.0.1:9") // nothing listens there
	}
	for _, kind := range []string{"CONFIG", "DATA", "CACHE", "STATE"} {
		a.Env = append(a.Env, "XDG_"+kind+"_HOME="+filepath.Join(a.Home, kind))
	}
	return a
}

// Work is the folder of the project that the agent works on.
func (a *Agent) Work() string { return filepath.Join(a.Home, "work") }

func (a *Agent) temp() string { return filepath.Join(a.Home, "tmp") }

// File writes a file of the agent's home.
func (a *Agent) File(name string, content []byte) {
	a.T.Helper()
	path := filepath.Join(a.Home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		a.T.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		a.T.Fatal(err)
	}
}

// Process is a running agent.
type Process struct {
	t    testing.TB
	home string
	cmd  *exec.Cmd
	done chan struct{}
	err  error

	mu  sync.Mutex
	out bytes.Buffer // standard output and error
}

// Start starts the program in the folder of the project.
func (a *Agent) Start(arguments ...string) *Process {
	a.T.Helper()
	p := a.process(arguments)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it has children of its own
	p.start(func() {})
	return p
}

// StartInTerminal starts the program in a terminal of its own, for its user to
// look at.
func (a *Agent) StartInTerminal(arguments ...string) *Process {
	a.T.Helper()
	screen, terminal, err := openTerminal()
	if err != nil {
		a.T.Fatal(err)
	}
	p := a.process(arguments)
	p.cmd.Env = append(p.cmd.Env, "TERM=xterm-256color")
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = terminal, terminal, terminal
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		_, _ = io.Copy(p, screen) // it ends with the error that the last program closed the terminal
	}()
	p.start(func() {
		terminal.Close()
		select {
		case <-shown:
		case <-time.After(5 * time.Second): // a child that outlives the program has it open
		}
		screen.Close()
	})
	return p
}

// openTerminal opens a pseudoterminal of Linux: what its user sees, and what
// the program writes to.
func openTerminal() (screen, terminal *os.File, err error) {
	if screen, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	fd := int(screen.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 120})
	}
	if err == nil {
		terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		screen.Close()
	}
	return screen, terminal, err
}

func (a *Agent) process(arguments []string) *Process {
	p := &Process{t: a.T, home: a.Home, done: make(chan struct{})}
	arguments = append(a.Command[1:len(a.Command):len(a.Command)], arguments...)
	p.cmd = exec.CommandContext(context.Background(), a.Command[0], arguments...)
	p.cmd.Dir, p.cmd.Env = a.Work(), slices.Clone(a.Env)
	return p
}

// start starts the process; ended is called once it has ended.
func (p *Process) start(ended func()) {
	p.t.Helper()
	if err := p.cmd.Start(); err != nil {
		ended()
		p.t.Fatal(err)
	}
	go func() { defer close(p.done); defer ended(); p.err = p.cmd.Wait() }()
	p.t.Cleanup(p.stop)
}

// stop ends the process and its children.
func (p *Process) stop() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // they may have ended
	<-p.done
	killAll(p.home)
	if p.t.Failed() || os.Getenv("SALLYPORT_AGENT_LOG") != "" {
		p.t.Logf("%s printed:\n%s", filepath.Base(p.cmd.Path), p.Printed())
	}
}

// killAll kills the processes whose home folder this is, those that have left
// their parent's group too, and waits until they have ended.
func killAll(home string) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		found := false
		files, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is good
		for _, file := range files {
			env, err := os.ReadFile(file) // empty for one that has ended
			if err != nil || !slices.Contains(strings.Split(string(env), "\x00"), "HOME="+home) {
				continue
			}
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
				found = true
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
		}
		if !found {
			return
		}
	}
}

func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

var colours = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// Printed is what the user saw so far, without colours.
func (p *Process) Printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return colours.ReplaceAllString(p.out.String(), "")
}

// Ends waits until the process has ended, whatever its status, and returns
// what it printed.
func (p *Process) Ends() string {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(Patience):
		p.t.Fatalf("the agent did not end within %v", Patience)
	}
	return p.Printed()
}

// Succeeds waits until the process has ended with status 0, and returns what it
// printed.
func (p *Process) Succeeds() string {
	p.t.Helper()
	printed := p.Ends()
	if p.err != nil {
		p.t.Fatalf("the agent ended with %v", p.err)
	}
	return printed
}
