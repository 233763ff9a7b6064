package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
)

// take is one attempt to take what is handed out once. It is a file beside the
// values: while it is locked no other command takes any, and its key is that of
// the attempt. A command that dies between the answer and the file leaves it, so
// that the next one asks with the same key and is given the same values.
type take struct {
	*os.File
	key string
}

// takeEvery is the pause between two looks for whether another command is done.
const takeEvery = 50 * time.Millisecond

// beginTake waits for other commands, and goes on with an attempt that was left.
func beginTake(ctx context.Context, file string) (*take, error) {
	name := file + ".taking"
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		t := &take{File: f}
		if err = t.lock(ctx); err == nil {
			err = t.read()
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

func (t *take) lock(ctx context.Context) error {
	for {
		err := syscall.Flock(int(t.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(takeEvery):
		}
	}
}

// read finds the key, or makes one and has it on the disk before it is used. The
// error is fs.ErrNotExist when another command ended the attempt meanwhile.
func (t *take) read() error {
	mine, err := t.Stat()
	if err != nil {
		return err
	}
	now, err := os.Lstat(t.Name())
	switch {
	case err != nil:
		return err
	case !os.SameFile(mine, now):
		return fs.ErrNotExist
	case !mine.Mode().IsRegular() || mine.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s is not a file for its owner alone (mode 0600), as sallyport env pull writes it; look at it, then remove it", t.Name())
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

// done ends the attempt: what was taken is written.
func (t *take) done() error { return os.Remove(t.Name()) }
