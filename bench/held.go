package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// heldFor bounds how long a call of the benchmark waits for its approval.
const heldFor = 20 * time.Minute

// heldCall is a call that waits for a person, on a connection of its own.
type heldCall struct {
	*connection
	n          int64
	invocation string

	done     chan struct{} // closed when it was answered, or failed
	answered time.Time
	err      error
}

// hold sends a call, reads who it is from the first progress and leaves a
// goroutine behind that waits for the answer, until the connection is closed.
func hold(c *connection, tool string, n int64) (*heldCall, error) {
	h := &heldCall{connection: c, n: n, done: make(chan struct{})}
	if err := h.send(callBody(tool, n, ""), heldFor); err != nil {
		return nil, err
	}
	status, _, chunked, err := h.header()
	if err != nil {
		return nil, err
	}
	for h.body = h.body[:0]; err == nil && !bytes.HasSuffix(h.body, []byte("\n\n")); {
		if !chunked {
			return nil, fmt.Errorf("call %d is not held: status %d", n, status)
		}
		_, err = h.chunk()
	}
	_, after, found := bytes.Cut(h.body, []byte("/invocations/"))
	if err != nil || !found || len(after) < 36 {
		return nil, errors.Join(err, fmt.Errorf("call %d is not held: status %d: %.300s", n, status, h.body))
	}
	h.invocation = string(after[:36])
	h.out = nil // thousands wait at the same time
	go h.wait()
	return h, nil
}

// wait reads progress until the answer comes.
func (h *heldCall) wait() {
	defer close(h.done)
	id := fmt.Appendf(nil, `"id":%d`, h.n)
	for {
		h.body = h.body[:0]
		last, err := h.chunk()
		if err == nil && last {
			err = fmt.Errorf("call %d: the answer has no result", h.n)
		}
		if err != nil {
			h.err = err
			return
		}
		if bytes.Contains(h.body, id) {
			break
		}
	}
	h.answered = time.Now()
	if h.err = h.chunks(); h.err == nil {
		h.err = h.check(200, h.n)
	}
}

// holder makes held calls.
type holder struct {
	to    target
	next  atomic.Int64 // no two calls carry the same number, so that none joins another
	conns []*connection
}

// connect opens the sessions, and so many connections of each.
func (h *holder) connect(ctx context.Context, tokens []string, each int) error {
	h.conns = make([]*connection, len(tokens)*each)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i, token := range tokens {
		group.Go(func() error {
			first, err := open(ctx, h.to, token)
			if err != nil {
				return err
			}
			defer first.conn.Close()
			for k := range each {
				if h.conns[i*each+k], err = first.another(ctx, h.to); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// hold has every connection make a call. The neighbours in the list are of
// different sessions.
func (h *holder) hold() ([]*heldCall, error) {
	calls := make([]*heldCall, len(h.conns))
	var group errgroup.Group
	group.SetLimit(16)
	for i, c := range h.conns {
		group.Go(func() (err error) {
			calls[i], err = hold(c, h.to.prefix+"write", h.next.Add(1))
			return err
		})
	}
	return calls, group.Wait()
}

// close ends the connections. Calls that were not answered fail.
func (h *holder) close() {
	for _, c := range h.conns {
		if c != nil {
			c.conn.Close()
		}
	}
	h.conns = nil
}

// answered waits until all calls have their answer.
func answered(calls []*heldCall, within time.Duration) error {
	late := time.NewTimer(within)
	defer late.Stop()
	for i, call := range calls {
		select {
		case <-call.done:
			if call.err != nil {
				return fmt.Errorf("call %d was not answered: %w", call.n, call.err)
			}
		case <-late.C:
			return fmt.Errorf("at most %d of %d calls were answered within %v of the last approval", i, len(calls), within)
		}
	}
	return nil
}
