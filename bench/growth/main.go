// Command growth measures what many rows cost: the store's hot queries on a
// large database and on a small one, SQLite and PostgreSQL.
//
// Both hold the same kind of history, in twenty organizations of which one has
// the most, and the same number of open calls: these depend on people and not
// on the past. The store's own methods are timed one by one. The two databases
// take turns with every query, so that a noisy machine disturbs both alike, and
// the figures are medians. The data lies on the memory disk where there is one:
// the wait for a disk is the same at any size and would hide the difference.
//
// Its promise is the ratio between the two. The times themselves leave out the
// disk, and are of one caller alone.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

type options struct {
	small, large int
	rounds       int
	databases    []string
	dir          string
	json         string
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("growth", flag.ContinueOnError)
	flags.IntVar(&o.small, "small", 20_000, "invocations in the small database")
	flags.IntVar(&o.large, "large", 2_000_000, "invocations in the large one; about 1.5 KB each")
	flags.IntVar(&o.rounds, "rounds", 300, "how often each query is measured; a tenth more warms up")
	flags.StringVar(&o.dir, "dir", memory(), "folder for the data, which is removed at the end")
	flags.StringVar(&o.json, "json", "", "file to write the figures to; empty: none")
	databases := flags.String("databases", "sqlite,postgres", "databases to measure")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.databases = strings.Split(*databases, ",")
	for _, name := range o.databases {
		if name != "sqlite" && name != "postgres" {
			return o, fmt.Errorf("-databases %q: want sqlite, postgres or both", *databases)
		}
	}
	if o.small < 10*open || o.large < o.small {
		return o, fmt.Errorf("-small must be at least %d, and -large at least -small", 10*open)
	}
	if o.rounds < 10 {
		return o, fmt.Errorf("-rounds must be at least 10")
	}
	return o, nil
}

// memory is the memory disk where there is one.
func memory() string {
	const disk = "/dev/shm"
	if info, err := os.Stat(disk); err == nil && info.IsDir() {
		return disk
	}
	return os.TempDir()
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	report := report{Small: o.small, Large: o.large, Rounds: o.rounds, Dir: o.dir}
	for _, name := range o.databases {
		rows, err := compare(ctx, name, o)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		report.Rows = append(report.Rows, rows...)
	}
	report.describe()
	if o.json != "" {
		if err := report.save(o.json); err != nil {
			return err
		}
	}
	return report.table(out)
}

// compare fills two databases of the kind and measures the queries on both.
func compare(ctx context.Context, kind string, o options) ([]row, error) {
	dir, err := os.MkdirTemp(o.dir, "sallyport-growth-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	host, err := hostOf(kind, filepath.Clean(o.dir), dir)
	if err != nil {
		return nil, err
	}
	defer host.close()
	var places [2]*place
	for i, n := range []int{o.small, o.large} {
		start := time.Now()
		if places[i], err = host.fill(ctx, fmt.Sprintf("rows_%d", i), n); err != nil {
			return nil, fmt.Errorf("filling %d rows: %w", n, err)
		}
		defer places[i].db.Close()
		fmt.Fprintf(os.Stderr, "%s: %d rows in %.1f s\n", kind, n, time.Since(start).Seconds())
	}
	return interleave(ctx, kind, places, o.rounds)
}

// interleave measures every query on both databases in every round. Which of
// them is first turns with the rounds.
func interleave(ctx context.Context, kind string, places [2]*place, rounds int) ([]row, error) {
	queries := hotQueries()
	took := make([][2][]time.Duration, len(queries))
	warm := rounds / 10
	for i := range rounds + warm {
		for q, query := range queries {
			if query.every > 1 && i%query.every != 0 {
				continue
			}
			for k := range places {
				k = (k + i) % 2
				d, err := query.measure(ctx, places[k])
				if err != nil {
					return nil, fmt.Errorf("%s: %w", query.name, err)
				}
				if i >= warm {
					took[q][k] = append(took[q][k], d)
				}
			}
		}
	}
	var rows []row
	for q, query := range queries {
		rows = append(rows, newRow(kind, query.name, median(took[q][0]), median(took[q][1])))
	}
	return rows, nil
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
