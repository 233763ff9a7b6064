package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"sallyport/api"
	"sallyport/cmd/sallyport/command"
)

type envPull struct {
	agentFlags
	File string        `default:"/tmp/.sallyport_env.json" type:"path" placeholder:"FILE" help:"JSON file for the values, mode 0600; existing values are kept (default: /tmp/.sallyport_env.json)."`
	Wait time.Duration `env:"-" placeholder:"D" help:"Time to wait for an answer; then the exit status is 7 (default: no wait)."`
}

// pulledEnv is the response of the server.
type pulledEnv struct {
	Values  map[string]string `json:"values"`
	Pending []string          `json:"pending"`
	Refused []struct {
		Keys   []string `json:"keys"`
		Reason string   `json:"reason"`
	} `json:"refused"`
}

// pullInterval is the pause between two polls for an answer.
const pullInterval = 2 * time.Second

// Run polls until there are values or refusals, or the wait is over.
func (c *envPull) Run(ctx context.Context, std *command.Streams) error {
	a, err := c.connect(ctx, std)
	if err != nil {
		return err
	}
	for end := time.Now().Add(c.Wait); ; {
		got, err := c.pullOnce(ctx, a)
		if err != nil {
			return err
		}
		if len(got.Values) > 0 || len(got.Pending) == 0 || !time.Now().Before(end) {
			return c.report(std, got)
		}
		select {
		case <-ctx.Done():
			return errStopped()
		case <-time.After(min(pullInterval, time.Until(end))):
		}
	}
}

// pullOnce fetches the available values and adds them to the file, under the
// lock. It checks that the file can be written first, because the server hands
// out values only once.
func (c *envPull) pullOnce(ctx context.Context, a *agentClient) (*pulledEnv, error) {
	t, err := beginPull(ctx, c.File)
	if err != nil {
		return nil, fmt.Errorf("no values were fetched: %w", err)
	}
	defer t.Close()
	all, err := readValues(c.File)
	if err != nil {
		return nil, err
	}
	next, err := os.CreateTemp(filepath.Dir(c.File), ".sallyport_env_*") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("no values were fetched, because the file cannot be written: %w", err)
	}
	defer os.Remove(next.Name())
	defer next.Close()
	got, err := a.pullEnv(ctx, t.key)
	if err != nil {
		return nil, err // keep the key: the server may have handed out values
	}
	if len(got.Values) > 0 {
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, got.Values)
		if err := writeAndRename(next, c.File, all); err != nil {
			return nil, fmt.Errorf("the values were fetched but could not be written; fix the cause and run this again within five minutes: %w", err)
		}
	}
	return got, t.complete()
}

// pullEnv fetches the available values. All attempts use one idempotency key,
// so that the server repeats values whose response was lost.
func (a *agentClient) pullEnv(ctx context.Context, key string) (*pulledEnv, error) {
	_, raw, err := a.exchange(ctx, &api.PullEnv.Operation, api.PullEnvInput{InSession: a.sessionParam(), Key: key})
	if err != nil {
		return nil, err
	}
	got := new(pulledEnv)
	if json.Unmarshal(raw, got) != nil { // the error could contain values
		return nil, errors.New("the server's response cannot be parsed; check that server and command have the same version")
	}
	return got, nil
}

// writeAndRename writes values to next and renames it to name.
func writeAndRename(next *os.File, name string, values map[string]string) error {
	raw, err := json.Marshal(values)
	if err != nil {
		return err
	}
	_, err = next.Write(append(raw, '\n'))
	if err = errors.Join(err, next.Chmod(0o600), next.Sync(), next.Close()); err != nil {
		return err
	}
	return os.Rename(next.Name(), name)
}

// report prints the names of the values, which are only in the file.
func (c *envPull) report(std *command.Streams, got *pulledEnv) error {
	names := slices.Sorted(maps.Keys(got.Values))
	if c.JSON {
		raw, err := json.Marshal(map[string]any{"file": c.File, "keys": nonNil(names), "pending": got.Pending, "refused": got.Refused})
		if err == nil {
			err = std.PrintJSON(raw)
		}
		if err != nil {
			return err
		}
	} else if len(names) > 0 {
		printLine(std.Out, "wrote "+strings.Join(names, ", ")+" to "+c.File)
	}
	refused := make([]string, 0, len(got.Refused))
	for _, r := range got.Refused {
		refused = append(refused, strings.TrimSuffix(fmt.Sprintf("a person refused %s: %s", strings.Join(r.Keys, ", "), command.Printable(r.Reason)), ": "))
	}
	messages := refused
	if len(got.Pending) > 0 {
		messages = append(messages, "not answered yet: "+strings.Join(got.Pending, ", "))
	}
	switch {
	case len(names) > 0:
		if !c.JSON {
			std.Notes = append(std.Notes, messages...)
		}
		return nil
	case len(got.Pending) > 0:
		return command.ExitWith(errors.New(strings.Join(messages, "\n")+"; run this again with --wait 10m"), command.ExitPending)
	case len(refused) > 0:
		return command.ExitWith(errors.New(strings.Join(messages, "\n")), command.ExitDenied)
	}
	return errors.New("there are no values to fetch: they were already fetched, or nobody answered within a day. Request variables with the tool request_env_variables first")
}

// pullAttempt is a lock file next to the values that contains an idempotency
// key. A command that dies between the response and the write leaves the file,
// so that the next one repeats the request with the same key and gets the same
// values.
type pullAttempt struct {
	*os.File
	key string
}

// lockPollInterval is the pause between two attempts to take the lock.
const lockPollInterval = 50 * time.Millisecond

// beginPull waits for the lock and resumes an attempt that another command
// left.
func beginPull(ctx context.Context, file string) (*pullAttempt, error) {
	name := file + ".taking"
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		t := &pullAttempt{File: f}
		if err = t.lock(ctx); err == nil {
			err = t.loadKey()
		}
		if err == nil {
			return t, nil
		}
		f.Close()
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

func (t *pullAttempt) lock(ctx context.Context) error {
	for {
		err := syscall.Flock(int(t.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New("stopped while another sallyport env pull was running")
		case <-time.After(lockPollInterval):
		}
	}
}

// loadKey reads the key, or creates one and syncs it to disk before its first
// use. The error is fs.ErrNotExist if another command completed the attempt in
// between.
func (t *pullAttempt) loadKey() error {
	opened, err := t.Stat()
	if err != nil {
		return err
	}
	current, err := os.Lstat(t.Name())
	switch {
	case err != nil:
		return err
	case !os.SameFile(opened, current):
		return fs.ErrNotExist
	case !opened.Mode().IsRegular() || opened.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s must be a file with mode 0600, as sallyport env pull creates it; check it, then remove it", t.Name())
	}
	raw, err := io.ReadAll(io.LimitReader(t, 200))
	if err != nil {
		return err
	}
	if text, whole := strings.CutSuffix(string(raw), "\n"); whole {
		t.key = text
		return nil
	}
	t.key = rand.Text()
	_, err = t.WriteAt([]byte(t.key+"\n"), 0)
	return errors.Join(err, t.Sync())
}

// complete ends the attempt once the values are written.
func (t *pullAttempt) complete() error { return os.Remove(t.Name()) }
