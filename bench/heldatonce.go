package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// approvers is how many approvals are on their way at a time.
	approvers = 4
	// heldTarget is how much a held call may cost, in KB.
	heldTarget = 60.0
	kb         = 1024.0
	// idleFor is how long memory is watched before calls are held.
	idleFor = 3 * time.Second
)

// heldRow is what a held call costs one instance that holds many, in KB.
type heldRow struct {
	Setup       string  `json:"setup"`
	Calls       int     `json:"calls"`
	Sessions    int     `json:"sessions"`
	Resident    float64 `json:"resident_kb_per_call"` // at its peak
	Heap        float64 `json:"heap_kb_per_call"`     // after a collection
	Stacks      float64 `json:"stacks_kb_per_call"`
	Connections float64 `json:"connection_kb_per_call"` // of Resident: connected, and pinged once
	CPU         float64 `json:"cpu_percent"`            // of one processor, by the gateway, while all are held
	Held        float64 `json:"held_seconds"`           // that holding all of them took
	Released    float64 `json:"released_seconds"`       // that approving and answering all of them took
	Answer      spread  `json:"from_request"`           // as in approvalRow, but with approvals in a row
	ClientKB    float64 `json:"client_kb_per_call"`     // of this process
	ClientCPU   float64 `json:"client_cpu_percent"`
	Target      float64 `json:"target_kb_per_call"`
}

// heldAtOnce holds all calls on one instance, looks at its memory and lets
// them go.
func (o *instanceOptions) heldAtOnce(ctx context.Context, s setup, c *cluster) (heldRow, error) {
	n := o.heldSessions * o.perHeld
	row := heldRow{Setup: s.name, Calls: n, Sessions: o.heldSessions, Target: heldTarget}
	g := c.gateways[0]
	to, err := g.connect(ctx, c.url("/mcp"), o.heldSessions)
	if err != nil {
		return row, err
	}
	client, err := residentSelf()
	if err != nil {
		return row, err
	}
	idle, err := g.watch(ctx, idleFor)
	if err != nil {
		return row, err
	}
	h := &holder{to: to}
	defer h.close()
	if err := h.connect(ctx, to.tokens, o.perHeld); err != nil {
		return row, err
	}
	connected, err := g.watch(ctx, idleFor)
	if err != nil {
		return row, err
	}
	start := time.Now()
	calls, err := h.hold()
	if err != nil {
		return row, err
	}
	row.Held = time.Since(start).Seconds()
	fmt.Fprintf(os.Stderr, "%s: %d calls are held after %.1f s\n", s.name, n, row.Held)
	full, err := row.watch(ctx, g, o.watch)
	if err != nil {
		return row, err
	}
	now, err := residentSelf()
	if err != nil {
		return row, err
	}
	per := func(bytes float64) float64 { return bytes / kb / float64(n) }
	row.Resident, row.Heap, row.Stacks = per(full.Resident-idle.Resident), per(full.Heap-idle.Heap), per(full.Stacks-idle.Stacks)
	row.Connections, row.ClientKB = per(connected.Resident-idle.Resident), per(now-client)
	if err := row.release(ctx, g, calls); err != nil {
		return row, err
	}
	fmt.Fprintf(os.Stderr, "%s: all are answered after %.1f s\n", s.name, row.Released)
	return row, c.checkEffects(ctx, h.next.Load())
}

// watch looks at memory, and at the processor time of both sides.
func (r *heldRow) watch(ctx context.Context, g *gateway, within time.Duration) (memory, error) {
	start := time.Now()
	before, err := cpuTimes(g.PID, os.Getpid())
	if err != nil {
		return memory{}, err
	}
	m, err := g.watch(ctx, within)
	if err != nil {
		return m, err
	}
	after, err := cpuTimes(g.PID, os.Getpid())
	if err != nil {
		return m, err
	}
	percent := func(i int) float64 { return 100 * (after[i] - before[i]).Seconds() / time.Since(start).Seconds() }
	r.CPU, r.ClientCPU = percent(0), percent(1)
	return m, nil
}

// release approves all calls, a few at a time, and waits for their answers.
func (r *heldRow) release(ctx context.Context, g *gateway, calls []*heldCall) error {
	start := time.Now()
	var mu sync.Mutex
	var took []time.Duration
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(approvers)
	for _, call := range calls {
		group.Go(func() error {
			sent := time.Now()
			if err := g.approve(ctx, call.invocation); err != nil {
				return err
			}
			if err := answered([]*heldCall{call}, answerTimeout); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, call.answered.Sub(sent))
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	r.Released, r.Answer = time.Since(start).Seconds(), spreadOf(took)
	return nil
}

func cpuTimes(pids ...int) (all []time.Duration, err error) {
	for _, pid := range pids {
		one, err := cpuTime(pid)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// residentSelf is the memory of this process, in bytes.
func residentSelf() (float64, error) {
	stat, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, fmt.Errorf("reading the client's memory (only Linux tells it): %w", err)
	}
	var size, resident float64
	if _, err := fmt.Sscan(string(stat), &size, &resident); err != nil {
		return 0, err
	}
	return resident * float64(os.Getpagesize()), nil
}
