package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestCommandsOfDocs has every command line of the documents name commands and
// flags that there are.
func TestCommandsOfDocs(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	clients, _ := filepath.Glob("../../docs/clients/*.md") // the pattern is good
	if err != nil || len(pages) == 0 || len(clients) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	pages = append(pages, clients...)
	app := program(t)
	seen := 0
	for _, page := range append(pages, "../../README.md", "../../ARCHITECTURE.md", "../../CONTRIBUTING.md") {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range commandLines(string(raw)) {
			seen++
			if why := misnamed(app.Model.Node, line); why != "" {
				t.Errorf("%s: %q: %s", filepath.Base(page), strings.Join(line, " "), why)
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d command lines were found", seen)
	}
}

func TestMisnamedCommands(t *testing.T) {
	t.Parallel()
	app := program(t)
	for line, right := range map[string]bool{
		"session create --title x":          true,
		"session create --titel x":          false,
		"session make":                      false,
		"sesion create":                     false,
		"approve ID --grant session":        true,
		"grant set linear:x":                true,
		"run list [--status failed]":        true,
		"env pull [--fil FILE]":             false,
		"session":                           true,
		"connector onboard x -- --no-flags": true,
	} {
		if why := misnamed(app.Model.Node, strings.Fields(line)); (why == "") != right {
			t.Errorf("%s: %q", line, why)
		}
	}
	got := commandLines("```sh\nprintf x | ./sallyport secret set k   # sallyport no\nA=b sallyport doctor \\\n  --json\n```\nand `sallyport\nserve`, not sallyport at all.\n\n    sallyport verify\n")
	if len(got) != 4 {
		t.Errorf("found %q", got)
	}
}

// commandLines are the arguments of sallyport wherever a document has it run:
// in blocks and in code of a line.
func commandLines(text string) (lines [][]string) {
	block := regexp.MustCompile("(?ms)^ *```.*?^ *```")
	code := block.FindAllString(text, -1)
	rest := block.ReplaceAllString(text, "")
	code = append(code, regexp.MustCompile(`(?m)^ {4}.+$`).FindAllString(rest, -1)...)
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(rest, -1) {
		code = append(code, strings.Join(strings.Fields(m[1]), " "))
	}
	comment, parts := regexp.MustCompile(`(?m) # .*$`), regexp.MustCompile(`\n| [|;&]+ `)
	for _, c := range code {
		for _, part := range parts.Split(comment.ReplaceAllString(strings.ReplaceAll(c, "\\\n", " "), ""), -1) {
			words := strings.Fields(part)
			for len(words) > 0 && (words[0] == "$" || strings.Contains(words[0], "=")) {
				words = words[1:]
			}
			switch {
			case len(words) > 1 && (words[0] == "sallyport" || words[0] == "./sallyport"):
				lines = append(lines, words[1:])
			case len(words) > 3 && strings.HasPrefix(strings.Join(words, " "), "go run ./cmd/sallyport "):
				lines = append(lines, words[3:])
			}
		}
	}
	return lines
}

// misnamed says which word of a command line is no command, or no flag of it.
func misnamed(node *kong.Node, words []string) string {
	command := regexp.MustCompile(`^[a-z][a-z-]*$`)
	argument := false
	for _, word := range words {
		word = strings.Trim(word, "[],.;:")
		switch name, _, _ := strings.Cut(word, "="); {
		case word == "--":
			return ""
		case name == "--help" || name == "-h":
		case strings.HasPrefix(name, "--"):
			if !hasFlag(node, strings.TrimPrefix(name, "--")) {
				return node.FullPath() + " has no flag " + name
			}
		case argument || len(node.Children) == 0:
			argument = true
		default:
			child := childOf(node, word)
			if child == nil && command.MatchString(word) {
				return node.FullPath() + " has no command " + word
			}
			if child == nil {
				argument = true
				continue
			}
			node = child
		}
	}
	return ""
}

func childOf(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
		for _, alias := range child.Aliases {
			if alias == name {
				return child
			}
		}
	}
	return nil
}

// hasFlag reports whether a command, or the one that it stands for, has the flag.
func hasFlag(node *kong.Node, name string) bool {
	if node.DefaultCmd != nil {
		node = node.DefaultCmd
	}
	for _, group := range node.AllFlags(false) {
		for _, f := range group {
			if f.Name == name || f.Negated && "no-"+f.Name == name {
				return true
			}
		}
	}
	return false
}
