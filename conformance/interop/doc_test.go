// Package interop_test holds parts of the program to libraries, parsers and API
// descriptions that others wrote, which only these tests need.
package interop_test

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write the lists of what was validated anew")

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// validated keeps, with -update, the list of what has just been validated.
func validated(t *testing.T, path, list string) {
	t.Helper()
	if !*update || t.Failed() {
		return
	}
	if err := os.WriteFile(path, []byte(list), 0o644); err != nil {
		t.Fatal(err)
	}
}
