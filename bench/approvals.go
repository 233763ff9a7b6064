package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"
)

// approvalRow is how long callers wait for their answer once a person approved.
type approvalRow struct {
	Setup       string  `json:"setup"`
	Instances   int     `json:"instances"`
	Approvals   int     `json:"approvals"`
	FromRequest spread  `json:"from_request"` // from sending the approval to the caller's whole answer
	FromAnswer  spread  `json:"from_answer"`  // from the approver's 200; below zero where the caller was faster
	Target      float64 `json:"target_p99_ms"`
}

// spread is a distribution in milliseconds.
type spread struct {
	P50 float64 `json:"p50_ms"`
	P90 float64 `json:"p90_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

func spreadOf(all []time.Duration) spread {
	slices.Sort(all)
	at := func(percent int) float64 { return ms(all[min(len(all)*percent/100, len(all)-1)]) }
	return spread{at(50), at(90), at(99), at(100)}
}

// approvals holds calls on the first instance and approves them one by one
// through the last.
func (o *instanceOptions) approvals(ctx context.Context, s setup, c *cluster) (approvalRow, error) {
	row := approvalRow{Setup: s.name, Instances: len(c.gateways), Target: ms(s.approval)}
	to, err := c.gateways[0].connect(ctx, c.url("/mcp"), o.sessions+1)
	if err != nil {
		return row, err
	}
	h := &holder{to: to}
	defer h.close()
	warm, rest := to.tokens[:1], to.tokens[1:]
	if _, _, err := o.approveEach(ctx, h, c, warm); err != nil {
		return row, err
	}
	fromRequest, fromAnswer, err := o.approveEach(ctx, h, c, rest)
	if err != nil {
		return row, err
	}
	row.Approvals, row.FromRequest, row.FromAnswer = len(fromRequest), spreadOf(fromRequest), spreadOf(fromAnswer)
	fmt.Fprintf(os.Stderr, "%s: %d approvals, p99 %.1f ms\n", s.name, row.Approvals, row.FromRequest.P99)
	return row, c.checkEffects(ctx, h.next.Load())
}

// approveEach times one approval after the other, in no order.
func (o *instanceOptions) approveEach(ctx context.Context, h *holder, c *cluster, tokens []string) (fromRequest, fromAnswer []time.Duration, err error) {
	if err := h.connect(ctx, tokens, o.each); err != nil {
		return nil, nil, err
	}
	defer h.close()
	calls, err := h.hold()
	if err != nil {
		return nil, nil, err
	}
	rand.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
	there := c.gateways[len(c.gateways)-1]
	sent, heard := make([]time.Time, len(calls)), make([]time.Time, len(calls))
	for i, call := range calls {
		// Not in step with what the gateways do every second.
		time.Sleep(time.Duration((0.5 + rand.Float64()) * float64(o.every)))
		sent[i] = time.Now()
		if err := there.approve(ctx, call.invocation); err != nil {
			return nil, nil, err
		}
		heard[i] = time.Now()
	}
	if err := answered(calls, answerTimeout); err != nil {
		return nil, nil, err
	}
	for i, call := range calls {
		fromRequest = append(fromRequest, call.answered.Sub(sent[i]))
		fromAnswer = append(fromAnswer, call.answered.Sub(heard[i]))
	}
	return fromRequest, fromAnswer, nil
}
