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
	sessions []int
	baseline bool // leave the gateway out
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == "instances" {
		return instances(ctx, args[1:], out)
	}
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 5, "how often every cell is measured")
	flags.DurationVar(&o.duration, "duration", 1500*time.Millisecond, "how long a cell is measured in a round")
	flags.DurationVar(&o.warm, "warm", 300*time.Millisecond, "how long a cell runs before that")
	flags.StringVar(&o.json, "json", "", "file to write the figures to; empty: none")
	flags.BoolVar(&o.baseline, "baseline", false, "measure without the gateway: the proxy takes its place")
	sessions := flags.String("sessions", "1,16,64", "numbers of MCP sessions")
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
	for text := range strings.SplitSeq(*sessions, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-sessions %q: want numbers such as 1,16,64", *sessions)
		}
		o.sessions = append(o.sessions, n)
	}
	return bench(ctx, o, out)
}

func bench(ctx context.Context, o options, out io.Writer) error {
	dir, err := os.MkdirTemp("", "sallyport-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	disk, err := diskWait(dir)
	if err != nil {
		return err
	}
	upstream, err := startRole(ctx, "-role", "upstream")
	if err != nil {
		return err
	}
	defer upstream.stop()
	at := "http://" + upstream.addr + "/mcp"
	thin, err := startRole(ctx, "-role", "proxy", "-to", at)
	if err != nil {
		return err
	}
	defer thin.stop()

	direct := target{name: "direct", addr: upstream.addr, path: "/mcp", tokens: []string{"none"}, pid: upstream.cmd.Process.Pid}
	proxied := target{name: "proxy", addr: thin.addr, path: "/mcp", tokens: []string{"none"}, pid: thin.cmd.Process.Pid}
	gated := proxied
	if !o.baseline {
		binary, err := build(ctx, dir)
		if err != nil {
			return err
		}
		gateway, err := startGateway(ctx, binary, dir, "serve")
		if err != nil {
			return err
		}
		defer gateway.stop()
		if gated, err = gateway.connect(ctx, at, slices.Max(o.sessions)); err != nil {
			return err
		}
		if err := gateway.allow(ctx, gated); err != nil {
			return err
		}
	}
	cells, rounds, err := interleave(ctx, o, [3]target{direct, proxied, gated}, "http://"+upstream.addr+"/writes")
	if err != nil {
		return err
	}
	report := summarize(cells, rounds, disk)
	if o.json != "" {
		if err := save(o.json, report); err != nil {
			return err
		}
	}
	return report.table(out)
}

// interleave measures every cell at every target in every round. The order of
// the targets turns with the rounds, so that none is always the first.
func interleave(ctx context.Context, o options, targets [3]target, writes string) ([]cell, map[cell][]round, error) {
	var cells []cell
	for _, kind := range []string{"read", "write"} {
		for _, n := range o.sessions {
			cells = append(cells, cell{kind, n})
		}
	}
	rounds := make(map[cell][]round)
	var next atomic.Int64
	for i := range o.rounds {
		for _, c := range cells {
			var one [3]sample
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
			fmt.Fprintf(os.Stderr, "round %d of %d: %-5s %3d sessions: direct %6.0f/s, proxy %6.0f/s, gateway %6.0f/s\n",
				i+1, o.rounds, c.Kind, c.Sessions, one[0].PerSecond, one[1].PerSecond, one[2].PerSecond)
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
