package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	rounds   int
	duration time.Duration
	warm     time.Duration
	json     string
	dir      string
	sessions []int
	lists    []int // numbers of tools
	stores   []string
	eras     []string
	starts   int
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == "instances" {
		return instances(ctx, args[1:], out)
	}
	if len(args) > 0 && args[0] == "git" {
		return git(ctx, args[1:], out)
	}
	if len(args) > 0 && args[0] == "models" {
		return models(ctx, args[1:], out)
	}
	if len(args) > 0 && args[0] == "webhooks" {
		return webhooks(ctx, args[1:], out)
	}
	if len(args) > 0 && args[0] == "check" {
		return check(args[1:], out)
	}
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 5, "how often every cell is measured")
	flags.DurationVar(&o.duration, "duration", 1500*time.Millisecond, "how long a cell is measured in a round")
	flags.DurationVar(&o.warm, "warm", 300*time.Millisecond, "how long a cell runs before that")
	flags.StringVar(&o.json, "json", "", "file to write the figures to; empty: none")
	flags.StringVar(&o.dir, "dir", os.TempDir(), "folder for the data of gateways and databases; on a disk, commits are durable")
	flags.IntVar(&o.starts, "starts", 5, "how often a gateway is started on an empty folder; 0: never")
	sessions := flags.String("sessions", "1,16,64", "numbers of MCP sessions that call")
	lists := flags.String("lists", "10,1000", "numbers of tools that are listed; empty: none")
	stores := flags.String("stores", "sqlite,postgres", "where the rows of the gateways are")
	eras := flags.String("eras", legacy+","+modern, "versions of the protocol")
	role := flags.String("role", "", "used by the benchmark itself")
	to := flags.String("to", "", "used by the benchmark itself")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch *role {
	case "upstream":
		return serveRole(ctx, new(upstream))
	case "tally":
		return serveRole(ctx, new(tally))
	case "proxy":
		return serveRole(ctx, newProxy(*to))
	}
	var err error
	if o.sessions, err = numbers("-sessions", *sessions); err != nil {
		return err
	}
	if o.lists, err = numbers("-lists", *lists); err != nil {
		return err
	}
	if o.stores, err = among("-stores", *stores, "sqlite", "postgres"); err != nil {
		return err
	}
	if o.eras, err = among("-eras", *eras, legacy, modern); err != nil {
		return err
	}
	if o.rounds < 1 || len(o.cells()) == 0 {
		return fmt.Errorf("nothing is to be measured: -rounds must be 1 or more, and there must be -sessions with -stores and -eras, or -lists")
	}
	return bench(ctx, o, out)
}

// numbers reads those of a flag.
func numbers(flag, text string) (list []int, err error) {
	for one := range strings.SplitSeq(text, ",") {
		if text == "" {
			break
		}
		n, err := strconv.Atoi(one)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%s %q: want numbers such as 1,16,64", flag, text)
		}
		list = append(list, n)
	}
	return list, nil
}

// among reads the words of a flag, each of which is one of some.
func among(flag, text string, some ...string) (list []string, err error) {
	for one := range strings.SplitSeq(text, ",") {
		if text == "" {
			break
		}
		if !slices.Contains(some, one) {
			return nil, fmt.Errorf("%s %q: want some of %s", flag, text, strings.Join(some, ","))
		}
		list = append(list, one)
	}
	return list, nil
}

func bench(ctx context.Context, o options, out io.Writer) error {
	dir, err := os.MkdirTemp(o.dir, "sallyport-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	disk, err := diskWait(dir)
	if err != nil {
		return err
	}
	p, err := o.startParties(ctx, dir)
	defer p.stop()
	if err != nil {
		return err
	}
	cells, rounds, err := interleave(ctx, o, p)
	if err != nil {
		return err
	}
	report := summarize(cells, rounds, disk)
	if report.StartUp, err = o.startUps(ctx, p, dir); err != nil {
		return err
	}
	if o.json != "" {
		if err := save(o.json, report); err != nil {
			return err
		}
	}
	return report.table(out)
}

// interleave measures every cell at every target in every round. The order of
// the targets turns with the rounds, so that none is always the first.
func interleave(ctx context.Context, o options, p *parties) ([]cell, map[cell][]round, error) {
	cells, writes := o.cells(), "http://"+p.upstream.addr+"/writes"
	rounds := make(map[cell][]round)
	var next atomic.Int64
	for i := range o.rounds {
		for _, c := range cells {
			var one [3]sample
			targets := p.targets(c)
			for k := range targets {
				k = (k + i) % len(targets)
				sent, effects := next.Load(), int64(0)
				before, err := count(ctx, writes)
				if err != nil {
					return nil, nil, err
				}
				if one[k], err = measure(ctx, targets[k], c, &next, o.warm, o.duration); err != nil {
					return nil, nil, err
				}
				if effects, err = count(ctx, writes); err != nil {
					return nil, nil, err
				}
				if c.Kind == "write" && effects-before != next.Load()-sent {
					return nil, nil, fmt.Errorf("%s: %d writes sent, %d done", targets[k].name, next.Load()-sent, effects-before)
				}
			}
			rounds[c] = append(rounds[c], round{one[0], one[1], one[2]})
			fmt.Fprintf(os.Stderr, "round %d of %d: %s: direct %6.0f/s, proxy %6.0f/s, gateway %6.0f/s\n",
				i+1, o.rounds, c, one[0].PerSecond, one[1].PerSecond, one[2].PerSecond)
		}
	}
	return cells, rounds, nil
}

// count asks the upstream how many writes it did: the benchmark measures only
// calls that happened, each once.
func count(ctx context.Context, url string) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(raw), 10, 64)
}
