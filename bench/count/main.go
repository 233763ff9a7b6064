// Command count prints for each package of the program how many lines, exported
// names and interfaces it has, without tests and what is only there for them.
package main

import (
	"bytes"
	"fmt"
	"go/types"
	"log"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// counts are of one package: exported are names and methods, single the
// interfaces that one type of the program implements.
type counts struct{ files, lines, exported, interfaces, single int }

func main() {
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax}, "./...")
	if err != nil || packages.PrintErrors(loaded) > 0 {
		log.Fatalf("run this in the repository's root folder: %v", err)
	}
	slices.SortFunc(loaded, func(a, b *packages.Package) int { return strings.Compare(a.PkgPath, b.PkgPath) })
	loaded = slices.DeleteFunc(loaded, func(p *packages.Package) bool { return strings.HasSuffix(p.PkgPath, "test") })
	var concrete []types.Type
	for _, p := range loaded {
		for _, name := range p.Types.Scope().Names() {
			if t, ok := p.Types.Scope().Lookup(name).(*types.TypeName); ok && !types.IsInterface(t.Type()) {
				concrete = append(concrete, t.Type())
			}
		}
	}
	var all counts
	row := func(name string, c counts) {
		fmt.Printf("| %s | %d | %d | %d | %d | %d |\n", name, c.files, c.lines, c.exported, c.interfaces, c.single)
	}
	fmt.Print("| package | files | lines | exported | interfaces | with one implementation |\n|---|---|---|---|---|---|\n")
	for _, p := range loaded {
		c := count(p, concrete)
		if c.files == 0 {
			continue
		}
		row(strings.TrimPrefix(p.PkgPath, "sallyport/"), c)
		all = counts{all.files + c.files, all.lines + c.lines, all.exported + c.exported, all.interfaces + c.interfaces, all.single + c.single}
	}
	row("**all**", all)
}

func count(p *packages.Package, concrete []types.Type) (c counts) {
	for _, f := range slices.Concat(p.GoFiles, p.IgnoredFiles) { // ignored: of other systems and tags
		if text, err := os.ReadFile(f); err == nil && strings.HasSuffix(f, ".go") && !strings.HasSuffix(f, "_test.go") {
			c.files, c.lines = c.files+1, c.lines+bytes.Count(text, []byte("\n"))
		}
	}
	for _, name := range p.Types.Scope().Names() {
		o := p.Types.Scope().Lookup(name)
		if o.Exported() {
			c.exported++
		}
		t, ok := o.(*types.TypeName)
		if !ok {
			continue
		}
		if named, ok := t.Type().(*types.Named); ok && o.Exported() {
			for m := range named.Methods() {
				if m.Exported() {
					c.exported++
				}
			}
		}
		if i, ok := t.Type().Underlying().(*types.Interface); ok && i.NumMethods() > 0 {
			c.interfaces++
			if implementations(i, concrete) == 1 {
				c.single++
			}
		}
	}
	return c
}

// implementations counts the types that implement an interface, at least one
// method by themselves and not by what they embed.
func implementations(i *types.Interface, concrete []types.Type) (n int) {
	for _, t := range concrete {
		p := types.NewPointer(t)
		if !types.Implements(p, i) {
			continue
		}
		for m := range i.Methods() {
			if s := types.NewMethodSet(p).Lookup(m.Pkg(), m.Name()); s != nil && len(s.Index()) == 1 {
				n++
				break
			}
		}
	}
	return n
}
