package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// check holds a report against the baseline.
func check(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench check", flag.ContinueOnError)
	from := flags.String("baseline", "", "earlier report to compare with")
	of := flags.String("report", "bench.json", "report to look at")
	tolerance := flags.Float64("tolerance", 0.15, "by how much of itself a ratio may be worse, beyond its noise")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *from == "" {
		return errors.New("-baseline is missing: name a report that make bench wrote before (bench.json)")
	}
	baseline, err := load(*from)
	if err != nil {
		return fmt.Errorf("the baseline: %w", err)
	}
	if len(baseline.Rows) == 0 {
		return fmt.Errorf("%s has no figures; write it with make bench", *from)
	}
	report, err := load(*of)
	if err != nil {
		return fmt.Errorf("the report (make bench writes it): %w", err)
	}
	if worse := compare(baseline, report, *tolerance); len(worse) > 0 {
		return errors.New("slower than the baseline:\n  " + strings.Join(worse, "\n  "))
	}
	_, err = fmt.Fprintf(out, "%d ratios are not worse than the baseline's by more than %.0f %% beyond their noise.\n", len(baseline.Rows), *tolerance*100)
	return err
}

// compare names the cells whose ratio is worse by more than it may be, beyond what
// the rounds of a report differ by themselves. Figures of other machines say little,
// but ratios do.
func compare(baseline, report report, tolerance float64) (worse []string) {
	for _, was := range baseline.Rows {
		i := slices.IndexFunc(report.Rows, func(r row) bool { return r.cell == was.cell })
		if i < 0 {
			worse = append(worse, fmt.Sprintf("%s: it was not measured", was.cell))
			continue
		}
		is := report.Rows[i]
		before, now := was.ratio(), is.ratio()
		if now < before*(1-tolerance-max(was.noise(), is.noise())) {
			worse = append(worse, fmt.Sprintf("%s: %.3f, where the baseline has %.3f", was.cell, now, before))
		}
	}
	return worse
}

func load(path string) (r report, err error) {
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	return r, err
}
