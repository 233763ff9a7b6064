package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"text/tabwriter"
)

type instanceReport struct {
	Go        string        `json:"go"`
	CPUs      int           `json:"cpus"`
	Load      string        `json:"load"`         // of the machine, at the start
	DiskWait  float64       `json:"disk_wait_ms"` // of one durable 4 KB write
	Dir       string        `json:"dir"`
	Approvals []approvalRow `json:"approvals"`
	Held      []heldRow     `json:"held"`
}

// newInstanceReport describes the machine. Data is going to lie beside dir.
func newInstanceReport(dir string) (*instanceReport, error) {
	disk, err := diskWait(dir)
	if err != nil {
		return nil, err
	}
	r := &instanceReport{Go: runtime.Version(), CPUs: runtime.NumCPU(), DiskWait: ms(disk), Dir: filepath.Dir(dir)}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(load), &r.Load)
	}
	return r, nil
}

func (r *instanceReport) table(w io.Writer) error {
	fmt.Fprintf(w, "%s, %d CPUs, load %s; data in %s; one durable write takes %.2f ms here\n", r.Go, r.CPUs, r.Load, r.Dir, r.DiskWait)
	if err := r.approvalTable(w); err != nil {
		return err
	}
	return r.heldTable(w)
}

func (r *instanceReport) approvalTable(w io.Writer) error {
	if len(r.Approvals) == 0 {
		return nil
	}
	fmt.Fprint(w, "\nFrom an approval on the last instance to the caller's answer on the first, in ms:\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "setup\tinstances\tapprovals\tp50\tp90\tp99\tmax\ttarget p99\tfrom the 200: p50\tp90\tp99\tmax\t")
	for _, row := range r.Approvals {
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%.0f\t%s\t\n", row.Setup, row.Instances, row.Approvals, row.FromRequest, row.Target, row.FromAnswer)
	}
	return t.Flush()
}

func (r *instanceReport) heldTable(w io.Writer) error {
	if len(r.Held) == 0 {
		return nil
	}
	fmt.Fprint(w, "\nCalls held at once on one instance, all released with one effect each:\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "setup\tcalls\tsessions\tresident, a call\ttarget\tof it idle connection\tlive heap\tstacks\tCPU\theld in\treleased in\tanswer p50\tp90\tp99\tmax\tclient, a call\tCPU\t")
	for _, row := range r.Held {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.1f KB\t%.0f KB\t%.1f KB\t%.1f KB\t%.1f KB\t%.0f %%\t%.1f s\t%.1f s\t%s\t%.1f KB\t%.0f %%\t\n",
			row.Setup, row.Calls, row.Sessions, row.Resident, row.Target, row.Connections, row.Heap, row.Stacks, row.CPU,
			row.Held, row.Released, row.Answer, row.ClientKB, row.ClientCPU)
	}
	return t.Flush()
}

// String is the cells of a table.
func (s spread) String() string {
	return fmt.Sprintf("%.1f\t%.1f\t%.1f\t%.1f", s.P50, s.P90, s.P99, s.Max)
}
