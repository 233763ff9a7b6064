package main

import (
	"slices"
	"strings"
	"testing"
)

// A ratio may be worse by the tolerance, and each cell of the baseline must have
// been measured.
func TestCompare(t *testing.T) {
	read, write, list := cell{"sqlite", legacy, "read", 16}, cell{"sqlite", legacy, "write", 16}, cell{"sqlite", legacy, "list10", 1}
	baseline := report{Rows: []row{
		{cell: read, GatewayProxy: 0.6, GatewayDirect: 0.1}, {cell: list, GatewayProxy: 0.1, GatewayDirect: 0.9},
	}}
	for name, test := range map[string]struct {
		rows []row
		want []string
	}{
		"the same":   {[]row{{cell: read, GatewayProxy: 0.6}, {cell: list, GatewayDirect: 0.9}}, nil},
		"better":     {[]row{{cell: read, GatewayProxy: 0.9}, {cell: list, GatewayDirect: 2}, {cell: write}}, nil},
		"worse, but": {[]row{{cell: read, GatewayProxy: 0.52}, {cell: list, GatewayDirect: 0.77}}, nil},
		"worse":      {[]row{{cell: read, GatewayProxy: 0.5}, {cell: list, GatewayDirect: 0.9}}, []string{"read"}},
		"both":       {[]row{{cell: read, GatewayProxy: 0.5}, {cell: list, GatewayProxy: 1, GatewayDirect: 0.7}}, []string{"read", "list10"}},
		"noisy":      {[]row{{cell: read, GatewayProxy: 0.48, SpreadOfRatios: 0.1}, {cell: list, GatewayDirect: 0.9}}, nil},
		"beyond it":  {[]row{{cell: read, GatewayProxy: 0.42, SpreadOfRatios: 0.1}, {cell: list, GatewayDirect: 0.9}}, []string{"read"}},
		"missing":    {[]row{{cell: read, GatewayProxy: 0.6}}, []string{"list10"}},
	} {
		got := compare(baseline, report{Rows: test.rows}, 0.15)
		if !slices.EqualFunc(got, test.want, strings.Contains) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
