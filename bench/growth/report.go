package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"text/tabwriter"
	"time"
)

// target is how much dearer a query may be on the large database.
const target = 1.5

// row is what the report tells of a query: medians.
type row struct {
	Database string  `json:"database"`
	Query    string  `json:"query"`
	Small    float64 `json:"small_ms"`
	Large    float64 `json:"large_ms"`
	Ratio    float64 `json:"ratio"`
}

type report struct {
	Go     string  `json:"go"`
	CPUs   int     `json:"cpus"`
	Load   string  `json:"load"` // of the machine, at the end
	Dir    string  `json:"dir"`
	Small  int     `json:"small_rows"`
	Large  int     `json:"large_rows"`
	Rounds int     `json:"rounds"`
	Target float64 `json:"target_ratio"`
	Rows   []row   `json:"rows"`
}

func newRow(database, query string, small, large time.Duration) row {
	return row{database, query, ms(small), ms(large), float64(large) / float64(small)}
}

func (r *report) describe() {
	r.Go, r.CPUs, r.Target = runtime.Version(), runtime.NumCPU(), target
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(load), &r.Load)
	}
}

func (r *report) table(w io.Writer) error {
	fmt.Fprintf(w, "%s, %d CPUs, load %s; data in %s; medians of %d rounds; target: at %d rows at most %.1f times the cost at %d\n\n",
		r.Go, r.CPUs, r.Load, r.Dir, r.Rounds, r.Large, r.Target, r.Small)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "database\tquery\tsmall\tlarge\tratio\t\t")
	for _, row := range r.Rows {
		note := ""
		if row.Ratio > target {
			note = "over the target"
		}
		fmt.Fprintf(t, "%s\t%s\t%.3f ms\t%.3f ms\t%.2f\t%s\t\n", row.Database, row.Query, row.Small, row.Large, row.Ratio, note)
	}
	return t.Flush()
}

func (r *report) save(path string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
