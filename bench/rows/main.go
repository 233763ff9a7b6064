// Command rows measures what writing one ended call costs: today's wide row with its
// triggers and the later seal, against a row that is written once, complete, with its
// link of the evidence computed in the same batch.
//
// The variants take turns, each with a database of its own on the memory disk, and the
// figures are medians of processor time: of this process on SQLite, of this process and
// the server on PostgreSQL.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "rows:", err)
		os.Exit(1)
	}
}

type options struct {
	rows, rounds int
	databases    []string
	batches      []int
	dir          string
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("rows", flag.ContinueOnError)
	flags.IntVar(&o.rows, "rows", 3_200, "rows of each variant in a round")
	flags.IntVar(&o.rounds, "rounds", 5, "rounds; the first is not counted")
	flags.StringVar(&o.dir, "dir", memoryDisk(), "folder for the data, which is removed at the end")
	databases := flags.String("databases", "sqlite,postgres", "databases to measure")
	batches := flags.String("batches", "1,16,64", "rows in a transaction")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.databases = strings.Split(*databases, ",")
	for s := range strings.SplitSeq(*batches, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > o.rows {
			return o, fmt.Errorf("-batches %q: want numbers from 1 to -rows", *batches)
		}
		o.batches = append(o.batches, n)
	}
	if o.rounds < 3 {
		return o, fmt.Errorf("-rounds must be at least 3")
	}
	return o, nil
}

func memoryDisk() string {
	const disk = "/dev/shm"
	if info, err := os.Stat(disk); err == nil && info.IsDir() {
		return disk
	}
	return os.TempDir()
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "database\trow\tbatch\tµs a row\tto today's")
	for _, name := range o.databases {
		if err := measure(ctx, name, o, table); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// measure lets all variants of a database take turns.
func measure(ctx context.Context, kind string, o options, table *tabwriter.Writer) error {
	dir, err := os.MkdirTemp(o.dir, "sallyport-rows-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	variants, cpu, closeAll, err := open(ctx, kind, dir)
	if err != nil {
		return err
	}
	defer closeAll()
	took := make([][][]time.Duration, len(variants))
	for i := range took {
		took[i] = make([][]time.Duration, len(o.batches))
	}
	for round := range o.rounds {
		for b, batch := range o.batches {
			for i := range variants {
				i = (i + round) % len(variants)
				rows := variants[i].prepare(o.rows)
				start := cpu()
				if err := variants[i].write(ctx, rows, batch); err != nil {
					return fmt.Errorf("%s: %w", variants[i].name, err)
				}
				if round > 0 {
					took[i][b] = append(took[i][b], cpu()-start)
				}
			}
		}
	}
	for b, batch := range o.batches {
		today := median(took[0][b])
		for i, v := range variants {
			m := median(took[i][b])
			fmt.Fprintf(table, "%s\t%s\t%d\t%.1f\t%.2f\n", kind, v.name, batch, m.Seconds()*1e6/float64(o.rows), m.Seconds()/today.Seconds())
		}
	}
	return nil
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
