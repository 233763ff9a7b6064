package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// target is a place where calls go.
type target struct {
	name   string
	addr   string // host:port
	path   string
	prefix string // before the names of tools
	source string // of the tools; empty without a gateway
	tokens []string
	pid    int
}

// sample is one measurement of a cell at one target.
type sample struct {
	PerSecond float64       // calls
	P50, P99  time.Duration // of a call
	CPU       time.Duration // of the target's process, for each call
}

// measure runs the cell against the target: every session sends its next call
// as soon as the one before is answered. The first part of the time warms up
// and is not counted.
func measure(ctx context.Context, to target, c cell, next *atomic.Int64, warm, run time.Duration) (sample, error) {
	var connections []*connection
	defer func() {
		for _, c := range connections {
			c.conn.Close()
		}
	}()
	for i := range c.Sessions {
		connection, err := c.open(ctx, to, to.tokens[i%len(to.tokens)])
		if err != nil {
			return sample{}, fmt.Errorf("%s: %w", to.name, err)
		}
		connections = append(connections, connection)
	}
	if _, err := drive(connections, c.request(to), next, warm); err != nil {
		return sample{}, fmt.Errorf("%s: %w", to.name, err)
	}
	before, err := cpuTime(to.pid)
	if err != nil {
		return sample{}, err
	}
	start := time.Now()
	took, err := drive(connections, c.request(to), next, run)
	if err != nil {
		return sample{}, fmt.Errorf("%s: %w", to.name, err)
	}
	elapsed := time.Since(start)
	after, err := cpuTime(to.pid)
	if err != nil {
		return sample{}, err
	}
	slices.Sort(took)
	return sample{
		PerSecond: float64(len(took)) / elapsed.Seconds(),
		P50:       took[len(took)/2],
		P99:       took[len(took)*99/100],
		CPU:       (after - before) / time.Duration(len(took)),
	}, nil
}

// drive has every connection ask for the given time, and returns how long each
// answer took. No two calls carry the same n, so that none joins another.
func drive(connections []*connection, request func(*connection, int64) error, next *atomic.Int64, run time.Duration) ([]time.Duration, error) {
	var group errgroup.Group
	var mu sync.Mutex
	var all []time.Duration
	end := time.Now().Add(run)
	for _, c := range connections {
		group.Go(func() error {
			took := make([]time.Duration, 0, 4096)
			for {
				start := time.Now()
				if start.After(end) && len(took) > 0 {
					break
				}
				if err := request(c, next.Add(1)); err != nil {
					return err
				}
				took = append(took, time.Since(start))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			return nil
		})
	}
	return all, group.Wait()
}
