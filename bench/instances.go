package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// setup is one way to run the gateway.
type setup struct {
	name     string
	postgres bool
	valkey   bool
	approval time.Duration // target of the 99th percentile
	hold     bool          // ten thousand calls at once are held here, too
}

func setups() []setup {
	return []setup{
		{name: "sqlite", approval: 9 * time.Millisecond, hold: true},
		{name: "postgres+valkey", postgres: true, valkey: true, approval: 50 * time.Millisecond, hold: true},
		{name: "postgres", postgres: true, approval: 3500 * time.Millisecond},
	}
}

type instanceOptions struct {
	dir    string
	binary string
	json   string
	setups []string

	sessions, each        int
	every                 time.Duration
	heldSessions, perHeld int
	watch                 time.Duration
}

func parseInstances(args []string) (o instanceOptions, err error) {
	flags := flag.NewFlagSet("bench instances", flag.ContinueOnError)
	flags.StringVar(&o.dir, "dir", os.TempDir(), "folder for the data of gateways and databases; on a disk, commits are durable")
	flags.StringVar(&o.binary, "binary", "", "the sallyport to measure; empty: built here")
	flags.StringVar(&o.json, "json", "", "file to write the figures to; empty: none")
	flags.IntVar(&o.sessions, "sessions", 40, "sessions whose approvals are timed; 0: none")
	flags.IntVar(&o.each, "each", 8, "calls that each of them holds; at most 10")
	flags.DurationVar(&o.every, "every", 50*time.Millisecond, "pause between two approvals")
	flags.IntVar(&o.heldSessions, "held-sessions", 1000, "sessions whose calls are held at once; 0: none")
	flags.IntVar(&o.perHeld, "held-each", 10, "calls that each of them holds; at most 10")
	flags.DurationVar(&o.watch, "watch", 90*time.Second, "how long memory is watched; longer than there is between two collections")
	names := flags.String("setups", "sqlite,postgres+valkey,postgres", "setups to measure")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.setups = strings.Split(*names, ",")
	for _, name := range o.setups {
		if !slices.ContainsFunc(setups(), func(s setup) bool { return s.name == name }) {
			return o, fmt.Errorf("-setups: there is no %q", name)
		}
	}
	return o, nil
}

// instances measures what depends on where the rows are and on how many
// instances share them.
func instances(ctx context.Context, args []string, out io.Writer) error {
	o, err := parseInstances(args)
	if err != nil {
		return err
	}
	if err := raiseFiles(o.heldSessions * o.perHeld); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.dir, "sallyport-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.binary == "" {
		if o.binary, err = build(ctx, dir); err != nil {
			return err
		}
	}
	report, err := newInstanceReport(dir)
	if err != nil {
		return err
	}
	for _, s := range setups() {
		if !slices.Contains(o.setups, s.name) {
			continue
		}
		if err := o.measure(ctx, s, filepath.Join(dir, s.name), report); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if o.json != "" {
		if err := save(o.json, report); err != nil {
			return err
		}
	}
	return report.table(out)
}

// measure takes the figures of a setup, each on gateways of its own.
func (o *instanceOptions) measure(ctx context.Context, s setup, dir string, r *instanceReport) error {
	if o.sessions > 0 {
		n := 1
		if s.postgres {
			n = 3
		}
		c, err := o.startCluster(ctx, s, dir+"-approval", n)
		if err != nil {
			return err
		}
		row, err := o.approvals(ctx, s, c)
		c.stop()
		if err != nil {
			return fmt.Errorf("approvals: %w", err)
		}
		r.Approvals = append(r.Approvals, row)
	}
	if o.heldSessions > 0 && s.hold {
		c, err := o.startCluster(ctx, s, dir+"-held", 1)
		if err != nil {
			return err
		}
		row, err := o.heldAtOnce(ctx, s, c)
		c.stop()
		if err != nil {
			return fmt.Errorf("calls held at once: %w", err)
		}
		r.Held = append(r.Held, row)
	}
	return nil
}
