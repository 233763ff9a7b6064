package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"sallyport/action"
)

// BenchmarkStatistics is what the charts of an organization with 310,000 of
// 500,000 calls cost: of an hour, of a day, and of all that is looked at. The
// data is on the memory disk where there is one.
func BenchmarkStatistics(b *testing.B) {
	for _, kind := range []string{"sqlite", "postgres"} {
		b.Run(kind, func(b *testing.B) {
			dir, err := os.MkdirTemp(memory(), "sallyport-growth-")
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = os.RemoveAll(dir) })
			host, err := hostOf(kind, filepath.Clean(memory()), dir)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(host.close)
			p, err := host.fill(b.Context(), "statistics", 500_000)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = p.db.Close() })
			for _, window := range periods(time.Now()) {
				b.Run(window.To.Sub(window.From).String(), func(b *testing.B) {
					var s action.Statistics
					for b.Loop() {
						if s, err = p.db.Statistics(b.Context(), measured, window); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(s.Calls.Count), "calls")
				})
			}
		})
	}
}

// periods are as the page asks for them, up to now.
func periods(now time.Time) (list []action.Period) {
	for _, w := range []struct {
		width time.Duration
		n     int
	}{{time.Minute, 60}, {30 * time.Minute, 48}, {12 * time.Hour, 60}} {
		to := now.UTC().Truncate(w.width).Add(w.width)
		list = append(list, action.Period{From: to.Add(-time.Duration(w.n) * w.width), To: to, Width: w.width})
	}
	return list
}
