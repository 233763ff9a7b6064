package conformance_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// TestLinksOfDocs has every document name what is there: files that it links to,
// headings in them, and in the security model the tests that show each line.
func TestLinksOfDocs(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\[([^\]]+)\]\(([^)\s]+)\)`)
	for _, document := range documents(t) {
		tests := 0
		for _, m := range link.FindAllStringSubmatch(prose(textOf(t, document)), -1) {
			text, to := strings.Trim(m[1], "`"), m[2]
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			file, heading, _ := strings.Cut(to, "#")
			path := filepath.Join(filepath.Dir(document), file)
			if file == "" {
				path = document
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %s: %v", document, to, err)
				continue
			}
			if heading != "" && !slices.Contains(anchors(textOf(t, path)), heading) {
				t.Errorf("%s links to %s, and there is no such heading", document, to)
			}
			if strings.HasPrefix(text, "Test") && strings.HasSuffix(file, "_test.go") {
				if tests++; !strings.Contains(textOf(t, path), "\nfunc "+text+"(") {
					t.Errorf("%s: there is no %s in %s", document, text, file)
				}
			}
		}
		if filepath.Base(document) == "security.md" && tests < 40 {
			t.Errorf("the security model names %d tests", tests)
		}
	}
}

// TestIndexOfDocs has the indexes name every page, so that none is found by
// chance alone.
func TestIndexOfDocs(t *testing.T) {
	t.Parallel()
	for _, index := range []string{"../docs/README.md", "../docs/clients/README.md"} {
		text := textOf(t, index)
		for _, document := range documents(t) {
			name := filepath.Base(document)
			if filepath.Dir(document) == filepath.Dir(index) && document != index && !strings.Contains(text, "("+name+")") {
				t.Errorf("%s does not name %s", index, name)
			}
		}
	}
}

// TestQuotesOfDocs has the source say what documents quote it for: a comment
// <!-- FILE: TEXT --> behind a line names a file, or a folder, and what stands
// there, so that who changes a bound or a message comes by the page.
func TestQuotesOfDocs(t *testing.T) {
	t.Parallel()
	quote := regexp.MustCompile(`<!-- ([\w./-]+/[\w./-]+): (.+?) -->`)
	quotes := 0
	for _, document := range documents(t) {
		for line := range strings.Lines(textOf(t, document)) {
			found := quote.FindAllStringSubmatch(line, -1)
			if strings.HasPrefix(line, "|") && len(found) != strings.Count(line, "<!-- ") {
				t.Errorf("%s: a comment of a row is <!-- FILE: TEXT -->:\n%s", document, line)
			}
			for _, m := range found {
				quotes++
				text := strings.ReplaceAll(m[2], `\|`, "|")
				said := regexp.MustCompile(regexp.QuoteMeta(text) + `([^\d_]|$)`) // 50 is not 500
				if !slices.ContainsFunc(filesAt(t, filepath.Join("..", m[1])), said.MatchString) {
					t.Errorf("%s does not say %q any more; see to this in %s:\n%s", m[1], text, document, line)
				}
			}
		}
	}
	if quotes < 100 {
		t.Errorf("only %d quotes were found", quotes)
	}
}

// filesAt are the texts of a file, or of the Go files of a folder, with one
// space in the place of any.
func filesAt(t *testing.T, path string) []string {
	t.Helper()
	files := []string{path}
	if filepath.Ext(path) == "" {
		files, _ = filepath.Glob(filepath.Join(path, "*.go"))
		files = slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	}
	spaces := regexp.MustCompile(`\s+`)
	for i, name := range files {
		files[i] = spaces.ReplaceAllString(textOf(t, name), " ")
	}
	return files
}

// TestLimitsOfDocs has each row of the page of limits say where the bound
// stands.
func TestLimitsOfDocs(t *testing.T) {
	t.Parallel()
	rows := 0
	for _, line := range regexp.MustCompile(`(?m)^\| .*\|$`).FindAllString(textOf(t, "../docs/limits.md"), -1) {
		if strings.HasPrefix(line, "| what |") {
			continue
		}
		if rows++; !strings.Contains(line, "<!-- ") {
			t.Errorf("where does this stand? Add <!-- FILE: TEXT --> to the row:\n%s", line)
		}
	}
	if rows < 60 {
		t.Errorf("the page has %d rows", rows)
	}
}

// documents are the pages that people read.
func documents(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("../docs/*.md")
	clients, _ := filepath.Glob("../docs/clients/*.md") // the pattern is good
	if err != nil || len(found) == 0 || len(clients) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	found = append(found, clients...)
	for _, root := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"} {
		found = append(found, filepath.Join("..", root))
	}
	return found
}

// prose is a document without its code blocks.
func prose(text string) string {
	return regexp.MustCompile("(?ms)^ *```.*?^ *```").ReplaceAllString(text, "")
}

// anchors are what links to the headings of a document end in, as GitHub makes
// them.
func anchors(text string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^#+ +(.+)$`).FindAllStringSubmatch(prose(text), -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])
		again := anchor
		for n := 1; slices.Contains(all, again); n++ {
			again = anchor + "-" + strconv.Itoa(n)
		}
		all = append(all, again)
	}
	return all
}

func textOf(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
