package main

import (
	"bytes"
	"strings"
	"testing"
)

// The history that is written fits the tables, and every query finds in it what
// it should.
func TestGrowth(t *testing.T) {
	var out bytes.Buffer
	args := []string{"-small", "20000", "-large", "20000", "-rounds", "10", "-databases", "sqlite", "-dir", t.TempDir()}
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatal(err)
	}
	for _, query := range hotQueries() {
		if !strings.Contains(out.String(), query.name) {
			t.Errorf("the report lacks %q:\n%s", query.name, &out)
		}
	}
}

func TestParse(t *testing.T) {
	for _, args := range []string{"-small 100", "-large 20000 -small 30000", "-databases mysql", "-rounds 1"} {
		if _, err := parse(strings.Fields(args)); err == nil {
			t.Errorf("%s pass", args)
		}
	}
}
