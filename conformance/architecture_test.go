package conformance_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxArchitecture is how long ARCHITECTURE.md may be, in bytes: it is read in
// one go, and what needs more room is a page of docs/decisions.
const maxArchitecture = 8 << 10

// TestArchitecture keeps ARCHITECTURE.md short, and its table of changes true:
// every row names files that exist and, in them, names that they declare.
func TestArchitecture(t *testing.T) {
	page, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(page) > maxArchitecture {
		t.Errorf("ARCHITECTURE.md has %d bytes, and at most %d: move reasons to docs/decisions", len(page), maxArchitecture)
	}
	rows := changes(string(page))
	if len(rows) < 20 {
		t.Fatalf("the table of changes has %d rows, want at least 20", len(rows))
	}
	for _, row := range rows {
		for _, fault := range row.faults("..") {
			t.Errorf("to change %s: %s", row.what, fault)
		}
	}
}

// TestArchitectureFaults proves that a wrong row is found.
func TestArchitectureFaults(t *testing.T) {
	for _, places := range []string{
		"`action/absent.go`", "`action/error.go` `NoSuchName`", "nothing", "`action/error.go` `NewError`, `action/absent`",
	} {
		rows := changes("| To change | Open |\n|---|---|\n| a thing | " + places + " |\n")
		if len(rows) != 1 || len(rows[0].faults("..")) == 0 {
			t.Errorf("%s: no fault was found", places)
		}
	}
	if rows := changes("| To change | Open |\n|---|---|\n| an error | `action/error.go` `NewError` |\n"); len(rows) != 1 || len(rows[0].faults("..")) > 0 {
		t.Errorf("a true row has faults: %v", rows)
	}
}

// change is a row of the table: what changes, and the places to open, each a
// path and the names that it declares.
type change struct {
	what   string
	places []string // in backquotes: paths, each followed by its names
}

func changes(page string) (rows []change) {
	_, table, _ := strings.Cut(page, "| To change | Open |\n|---|---|\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 2 {
			break
		}
		row := change{what: strings.TrimSpace(cells[0])}
		for _, quoted := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			row.places = append(row.places, quoted[1])
		}
		rows = append(rows, row)
	}
	return rows
}

// faults tells what of the row is not so, under the folder root.
func (c change) faults(root string) (faults []string) {
	if len(c.places) == 0 {
		return []string{"no file is named"}
	}
	text := ""
	for _, place := range c.places {
		if !strings.Contains(place, "/") {
			if !regexp.MustCompile(`\b` + regexp.QuoteMeta(place) + `\b`).MatchString(text) {
				faults = append(faults, "the file named before it does not declare "+place)
			}
			continue
		}
		found, err := filepath.Glob(filepath.Join(root, place))
		if err != nil || len(found) == 0 {
			faults = append(faults, place+" does not exist")
			text = ""
			continue
		}
		content, err := os.ReadFile(found[0])
		if err != nil { // a folder
			text = ""
			continue
		}
		text = string(content)
	}
	return faults
}
