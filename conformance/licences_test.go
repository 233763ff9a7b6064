package conformance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// licence is one that the program's parts may have, with the words by which its
// text is known: all of one of the lists, in lower case, with single spaces.
type licence struct {
	name  string
	words [][]string
}

// licences are those that ask for no more than to be named. Everything else has
// to be looked at by a person before it is used.
func licences() []licence {
	return []licence{
		{"Apache-2.0", [][]string{{"apache license", "version 2.0, january 2004"}}},
		{"MIT", [][]string{{"permission is hereby granted, free of charge, to any person obtaining a copy", "the above copyright notice and this permission notice"}}},
		{"BSD", [][]string{{"redistribution and use in source and binary forms, with or without modification, are permitted", "redistributions in binary form must reproduce the above copyright"}}},
		{"ISC", [][]string{{"permission to use, copy, modify, and distribute this software for any purpose with or without fee"}, {"permission to use, copy, modify, and/or distribute this software for any purpose with or without fee"}}},
		{"MPL-2.0", [][]string{{"mozilla public license", "version 2.0", "1.1. \"contributor\""}}},
		{"Unlicense", [][]string{{"this is free and unencumbered software released into the public domain"}}},
	}
}

// foreign are words of licences that ask for more. The MPL names some of them.
var foreign = regexp.MustCompile(`gnu (lesser |affero |library )?general public license|` + beyondGNU.String())

var beyondGNU = regexp.MustCompile(`server side public license|business source license|functional source license|commons clause|elastic license|all advertising materials mentioning features|creative commons attribution-(noncommercial|sharealike)`)

// licencesOf classifies the text of a licence; none is one that is not known.
func licencesOf(text string) (names []string, refused string) {
	text = strings.Join(strings.Fields(strings.ToLower(strings.NewReplacer("“", `"`, "”", `"`, "*", " ", "//", " ", "#", " ").Replace(text))), " ")
	for _, l := range licences() {
		if slices.ContainsFunc(l.words, func(all []string) bool {
			return !slices.ContainsFunc(all, func(w string) bool { return !strings.Contains(text, w) })
		}) {
			names = append(names, l.name)
		}
	}
	refused = foreign.FindString(text)
	if slices.Contains(names, "MPL-2.0") { // which names those of GNU
		refused = beyondGNU.FindString(text)
	}
	return names, refused
}

// goModule is what go list tells of a module.
type goModule struct {
	Path, Version, Dir string
	Main               bool
	Replace            *goModule
}

// modulesOf lists the modules of which a released program is made, or those
// that an environment such as GOWORK=off makes it of.
func modulesOf(t *testing.T, env ...string) map[string]goModule {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Module", "./cmd/sallyport")
	list.Dir, list.Env = "..", slices.Concat(os.Environ(), []string{"CGO_ENABLED=0"}, env)
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := map[string]goModule{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct{ Module *goModule }
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		if m := p.Module; m != nil && !m.Main {
			if m.Replace != nil {
				m.Dir = m.Replace.Dir
			}
			all[m.Path] = *m
		}
	}
}

var (
	licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)(\.(txt|md|rst))?$`)
	licenceMore = regexp.MustCompile(`(?i)^(licen[cs]e|copying)[-._]`)
)

// TestLicences reads the licence of every module that is in the program, as it
// is released. With -v it says which each has.
func TestLicences(t *testing.T) {
	t.Parallel()
	all := map[string]goModule{}
	for _, system := range []string{"linux", "darwin"} {
		for _, processor := range []string{"amd64", "arm64"} {
			maps.Copy(all, modulesOf(t, "GOWORK=off", "GOOS="+system, "GOARCH="+processor))
		}
	}
	if len(all) < 20 {
		t.Fatalf("go list found %d modules", len(all))
	}
	for path, m := range all {
		names, err := licencesIn(m.Dir)
		if err != nil {
			t.Errorf("%s %s: %v; have a person look at it before it is used, and use another module if it asks for more than to be named", path, m.Version, err)
			continue
		}
		t.Logf("%-60s %-36s %s", path, m.Version, strings.Join(names, ", "))
	}
}

// licencesIn reads the licence of a module: its main file must be one that is
// known, and no other may be of those that ask for more.
func licencesIn(dir string) (names []string, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		main := licenceFile.MatchString(f.Name())
		if f.IsDir() || !main && !licenceMore.MatchString(f.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		found, refused := licencesOf(string(text))
		if refused != "" {
			return nil, fmt.Errorf("its %s says %q", f.Name(), refused)
		}
		if main && len(found) == 0 {
			return nil, fmt.Errorf("its %s is no licence that is known here", f.Name())
		}
		names = append(names, found...)
	}
	if len(names) == 0 {
		return nil, errors.New("it has no file with a licence")
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// TestLicencesBite proves that a licence that asks for more, and a text that is
// no licence, are refused.
func TestLicencesBite(t *testing.T) {
	t.Parallel()
	const mit = "Permission is hereby granted, free of charge, to any person obtaining a copy of this software\nThe above copyright notice and this permission notice shall be included."
	for text, want := range map[string]string{
		mit: "MIT",
		"\t\t\tMIT\n" + strings.ReplaceAll(mit, " ", "\n  "): "MIT",
		"GNU AFFERO GENERAL PUBLIC LICENSE\nVersion 3":       "",
		"                    GNU GENERAL PUBLIC LICENSE":     "",
		mit + "\n\"Commons Clause\" License Condition v1.0":  "",
		"Business Source License 1.1":                        "",
		"All rights reserved.":                               "",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "LICENSE.md"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		names, err := licencesIn(dir)
		if got := strings.Join(names, ","); got != want || (err == nil) != (want != "") {
			t.Errorf("%.40q is %q, error %v", text, got, err)
		}
	}
	if _, err := licencesIn(t.TempDir()); err == nil {
		t.Error("no licence is one")
	}
}
