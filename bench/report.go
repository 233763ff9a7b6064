package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// row is what the report tells of a cell: medians over the rounds.
type row struct {
	cell
	Direct         float64 `json:"direct_per_second"`
	Proxy          float64 `json:"proxy_per_second"`
	Gateway        float64 `json:"gateway_per_second"`
	ProxyDirect    float64 `json:"proxy_to_direct"`   // ratio, of each round
	GatewayProxy   float64 `json:"gateway_to_proxy"`  // ratio, of each round
	GatewayDirect  float64 `json:"gateway_to_direct"` // ratio, of each round
	DirectP50      float64 `json:"direct_p50_ms"`
	ProxyP50       float64 `json:"proxy_p50_ms"`
	GatewayP50     float64 `json:"gateway_p50_ms"`
	GatewayP99     float64 `json:"gateway_p99_ms"`
	ProxyCPU       float64 `json:"proxy_cpu_us"`   // a call
	GatewayCPU     float64 `json:"gateway_cpu_us"` // a call
	AddedP50       float64 `json:"added_p50_ms"`   // over direct, of each round
	SpreadOfRatios float64 `json:"spread"`         // widest distance between rounds of gateway_to_proxy
}

type report struct {
	Go       string  `json:"go"`
	CPUs     int     `json:"cpus"`
	Rounds   int     `json:"rounds"`
	DiskWait float64 `json:"disk_wait_ms"`     // of one durable 4 KB write
	StartUp  float64 `json:"start_to_call_ms"` // from the start on an empty folder; zero: not measured
	Rows     []row   `json:"rows"`
}

// round is what one round measured of a cell.
type round struct{ direct, proxy, gateway sample }

func summarize(cells []cell, rounds map[cell][]round, disk time.Duration) report {
	r := report{Go: runtime.Version(), CPUs: runtime.NumCPU(), DiskWait: ms(disk)}
	for _, c := range cells {
		of := func(f func(round) float64) float64 { return median(rounds[c], f) }
		ratios := make([]float64, 0, len(rounds[c]))
		for _, one := range rounds[c] {
			ratios = append(ratios, one.gateway.PerSecond/one.proxy.PerSecond)
		}
		r.Rounds = len(rounds[c])
		r.Rows = append(r.Rows, row{
			cell:           c,
			Direct:         of(func(o round) float64 { return o.direct.PerSecond }),
			Proxy:          of(func(o round) float64 { return o.proxy.PerSecond }),
			Gateway:        of(func(o round) float64 { return o.gateway.PerSecond }),
			ProxyDirect:    of(func(o round) float64 { return o.proxy.PerSecond / o.direct.PerSecond }),
			GatewayProxy:   of(func(o round) float64 { return o.gateway.PerSecond / o.proxy.PerSecond }),
			GatewayDirect:  of(func(o round) float64 { return o.gateway.PerSecond / o.direct.PerSecond }),
			DirectP50:      of(func(o round) float64 { return ms(o.direct.P50) }),
			ProxyP50:       of(func(o round) float64 { return ms(o.proxy.P50) }),
			GatewayP50:     of(func(o round) float64 { return ms(o.gateway.P50) }),
			GatewayP99:     of(func(o round) float64 { return ms(o.gateway.P99) }),
			ProxyCPU:       of(func(o round) float64 { return 1000 * ms(o.proxy.CPU) }),
			GatewayCPU:     of(func(o round) float64 { return 1000 * ms(o.gateway.CPU) }),
			AddedP50:       of(func(o round) float64 { return ms(o.gateway.P50 - o.direct.P50) }),
			SpreadOfRatios: slices.Max(ratios) - slices.Min(ratios),
		})
	}
	return r
}

func (r report) table(w io.Writer) error {
	fmt.Fprintf(w, "%s, %d CPUs, medians of %d rounds; one durable write takes %.2f ms here\n\n", r.Go, r.CPUs, r.Rounds, r.DiskWait)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "store\tera\tkind\tsessions\tdirect/s\tproxy/s\tgateway/s\tproxy:direct\tgateway:direct\tgateway:proxy\t±\tp50 direct\tp50 gateway\tp99 gateway\tCPU proxy\tCPU gateway\t")
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f ms\t%.2f ms\t%.2f ms\t%.0f µs\t%.0f µs\t\n",
			row.Store, row.Era, row.Kind, row.Sessions, row.Direct, row.Proxy, row.Gateway, row.ProxyDirect, row.GatewayDirect, row.GatewayProxy, row.SpreadOfRatios/2,
			row.DirectP50, row.GatewayP50, row.GatewayP99, row.ProxyCPU, row.GatewayCPU)
	}
	if err := t.Flush(); err != nil || r.StartUp == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "\nfrom the start on an empty folder to the first answered call: %.0f ms\n", r.StartUp)
	return err
}

// noise is half of what lies between its rounds, as a part of the median.
func (r *row) noise() float64 {
	if r.GatewayProxy == 0 {
		return 0
	}
	return r.SpreadOfRatios / 2 / r.GatewayProxy
}

// ratio is the one of a row that is held against its like: calls are compared
// with the proxy's, lists with the upstream's own.
func (r *row) ratio() float64 {
	if r.tools() > 0 {
		return r.GatewayDirect
	}
	return r.GatewayProxy
}

func save(path string, report any) error {
	raw, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}

func median(rounds []round, f func(round) float64) float64 {
	values := make([]float64, 0, len(rounds))
	for _, r := range rounds {
		values = append(values, f(r))
	}
	return middle(values)
}

// middle is the median; it sorts the values.
func middle(values []float64) float64 {
	slices.Sort(values)
	if n := len(values); n%2 == 0 {
		return (values[n/2-1] + values[n/2]) / 2
	}
	return values[len(values)/2]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
