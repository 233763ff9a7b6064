package conformance_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the texts of errors into docs/troubleshooting.md")

// TestCodesOfDocs keeps the page of errors whole: each code that the source
// gives has one row, with the texts of the source and with what to do, and no row
// is of a code that there is not.
func TestCodesOfDocs(t *testing.T) {
	t.Parallel()
	const page = "../docs/troubleshooting.md"
	s := readSource(t, "..")
	texts := s.codes()
	for _, where := range s.unread {
		t.Errorf("%s: this test cannot tell which code that is; write it as a text or a constant, or teach the test", where)
	}
	if len(texts) < 200 {
		t.Fatalf("only %d codes were found", len(texts))
	}
	row := regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (.*?) \\| (.*?) \\|$")
	before := textOf(t, page)
	rows := map[string]bool{}
	after := row.ReplaceAllStringFunc(before, func(line string) string {
		m := row.FindStringSubmatch(line)
		code := m[1]
		if _, there := texts[code]; !there {
			t.Errorf("the page has the code %s, which nothing gives", code)
			return line
		}
		if rows[code] {
			t.Errorf("the page has the code %s twice", code)
		}
		if len(m[3]) < 10 {
			t.Errorf("the page does not say what to do about %s", code)
		}
		rows[code] = true
		return fmt.Sprintf("| `%s` | %s | %s |", code, asShown(texts[code]), m[3])
	})
	for _, code := range slices.Sorted(maps.Keys(texts)) {
		if !rows[code] {
			t.Errorf("the page lacks the code; add a row, and what to do:\n| `%s` | %s |  |", code, asShown(texts[code]))
		}
	}
	if before != after && *update {
		if err := os.WriteFile(page, []byte(after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if before != after {
		t.Errorf("%s has other texts than the source; run: go test ./conformance -run TestCodesOfDocs -update", page)
	}
}

// asShown is how the page has the texts of a code: what differs each time is
// an ellipsis, or N where it is a number. Codes of input that is wrong have too
// many texts to list, and each says what is due.
func asShown(texts map[string]bool) string {
	if len(texts) == 0 || len(texts) > 9 {
		return "…"
	}
	var all []string
	for _, text := range slices.Sorted(maps.Keys(texts)) {
		text = regexp.MustCompile(`%[.\d]*d`).ReplaceAllString(text, "N")
		text = regexp.MustCompile(`%\[\d\]`).ReplaceAllString(text, "%")
		text = regexp.MustCompile(`%[.\d]*q`).ReplaceAllString(text, `"…"`)
		text = regexp.MustCompile(`%[.\d]*[a-z]`).ReplaceAllString(text, "…")
		text = strings.NewReplacer("%%", "%", "|", `\|`, "\n", " ", "<", "&lt;", "{", `\{`, "*", `\*`, "_", `\_`).Replace(text)
		all = append(all, text)
	}
	return strings.Join(all, "<br>")
}

// source is the program, as far as its errors go.
type source struct {
	set    *token.FileSet
	root   string
	files  []sourceFile
	named  map[symbol]ast.Expr   // constants and variables of packages
	takes  map[symbol][]takesOne // functions that make of a parameter a code
	found  map[string]map[string]bool
	unread []string
}

type sourceFile struct {
	*ast.File
	dir     string
	imports map[string]string // of this module, by the name they have here
}

type symbol struct{ dir, name string }

// method begins the names of methods, of whatever type.
const method = "."

// takesOne says which parameter of a function is a code, or the middle of one;
// or, where code is set, which one is the text of that code.
type takesOne struct {
	at            int
	before, after string
	message       string // where its callers have none
	code          ast.Expr
}

// notOurs are the places that pass on the code of somebody else, and that put
// one together of what this test does not follow.
func notOurs() map[string][]string {
	return map[string][]string{
		"action/error.go":           nil, // Errorf itself
		"sources/gmail/refuse.go":   nil, // the service's own code
		"sources/linear/refusal.go": nil,
		"sources/sentry/refuse.go":  nil,
		"sources/slack/refusal.go":  nil,
		"store/invocation.go":       nil, // read from the row
		"store/run.go":              nil,
		"store/run_end.go":          nil, // written to it
		"sources/settings.go":       {"invalid_settings", "invalid_config"},
	}
}

// holders are the types whose field Code people, agents or scripts meet.
func holders() []string {
	return []string{"Error", "Failure", "Refusal", "Problem", "Diagnosis", "Ending"}
}

func readSource(t *testing.T, root string) *source {
	t.Helper()
	s := &source{
		set: token.NewFileSet(), root: root, named: map[symbol]ast.Expr{}, found: map[string]map[string]bool{},
		takes: map[symbol][]takesOne{{"action", "Errorf"}: {{at: 1}}},
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		// What is only there for tests and measuring is met by nobody.
		if name := d.Name(); d.IsDir() && path != root && (strings.HasSuffix(name, "test") || strings.HasPrefix(name, ".") ||
			slices.Contains([]string{"node_modules", "testdata", "bench", "conformance"}, name)) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			filepath.ToSlash(path) == root+"/action/trace.go" { // spans have codes of their own
			return nil
		}
		return s.read(path)
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *source) read(path string) error {
	parsed, err := parser.ParseFile(s.set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	dir, err := filepath.Rel(s.root, filepath.Dir(path))
	if err != nil {
		return err
	}
	f := sourceFile{File: parsed, dir: filepath.ToSlash(dir), imports: map[string]string{}}
	for _, i := range parsed.Imports {
		to, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module+"/")
		name := filepath.Base(to)
		if i.Name != nil {
			name = i.Name.Name
		}
		if ours {
			f.imports[name] = to
		}
	}
	s.files = append(s.files, f)
	for _, d := range parsed.Decls {
		if general, ok := d.(*ast.GenDecl); ok {
			for _, spec := range general.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					for i, name := range v.Names {
						if i < len(v.Values) {
							s.named[symbol{f.dir, name.Name}] = v.Values[i]
						}
					}
				}
			}
		}
	}
	return nil
}

// codes returns each code with its texts. It goes on until no further function
// is found that takes a code from its callers.
func (s *source) codes() map[string]map[string]bool {
	for known := -1; known != s.known(); {
		known = s.known()
		s.unread, s.found = nil, map[string]map[string]bool{}
		for _, list := range notOurs() {
			for _, code := range list {
				s.found[code] = map[string]bool{}
			}
		}
		for _, f := range s.files {
			for _, d := range f.Decls {
				(&reading{source: s, file: f}).walk(d)
			}
		}
	}
	return s.found
}

func (s *source) known() (n int) {
	for _, list := range s.takes {
		n += len(list)
	}
	return n
}

// reading is one function of a file, within those around it.
type reading struct {
	*source
	file  sourceFile
	outer *reading
	name  string
	typ   *ast.FuncType
	body  ast.Node
}

func (r *reading) walk(n ast.Node) {
	names := map[*ast.FuncLit]string{}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			name := n.Name.Name
			if n.Recv != nil {
				name = method + name
			}
			if n.Body != nil {
				(&reading{source: r.source, file: r.file, outer: r, name: name, typ: n.Type, body: n.Body}).walk(n.Body)
			}
			return false
		case *ast.FuncLit:
			(&reading{source: r.source, file: r.file, outer: r, name: names[n], typ: n.Type, body: n.Body}).walk(n.Body)
			return false
		case *ast.AssignStmt:
			r.assigned(n, names)
		case *ast.CallExpr:
			r.called(n)
		case *ast.CompositeLit:
			r.made(n)
		}
		return true
	})
}

// assigned finds e.Code = "…", and remembers what closures are called.
func (r *reading) assigned(n *ast.AssignStmt, names map[*ast.FuncLit]string) {
	if len(n.Lhs) != len(n.Rhs) {
		return
	}
	message := ""
	for i, to := range n.Lhs {
		if field, ok := to.(*ast.SelectorExpr); ok && (field.Sel.Name == "Message" || field.Sel.Name == "Detail") {
			message = r.text(n.Rhs[i])
		}
	}
	for i, to := range n.Lhs {
		switch to := to.(type) {
		case *ast.Ident:
			if f, ok := n.Rhs[i].(*ast.FuncLit); ok {
				names[f] = to.Name
			}
		case *ast.SelectorExpr:
			if literal, ok := n.Rhs[i].(*ast.BasicLit); to.Sel.Name == "Code" && (!ok || literal.Kind == token.STRING) {
				r.add(n.Rhs[i], takesOne{}, message, n)
			}
		}
	}
}

// called finds calls of functions that take a code.
func (r *reading) called(n *ast.CallExpr) {
	to := symbol{dir: r.file.dir}
	switch f := n.Fun.(type) {
	case *ast.Ident:
		to.name = f.Name
	case *ast.SelectorExpr:
		to.name = method + f.Sel.Name
		if x, ok := f.X.(*ast.Ident); ok && r.file.imports[x.Name] != "" {
			to = symbol{r.file.imports[x.Name], f.Sel.Name}
		}
	}
	for _, takes := range r.takes[to] {
		if takes.at >= len(n.Args) {
			continue
		}
		if takes.code != nil {
			r.told(takes.code, n.Args[takes.at], n)
			continue
		}
		message := takes.message
		if takes.before+takes.after == "" && len(n.Args) > takes.at+1 && r.text(n.Args[takes.at+1]) == "" {
			r.told(n.Args[takes.at], n.Args[takes.at+1], n)
		}
		for _, a := range n.Args[takes.at+1:] {
			if text := r.text(a); strings.Contains(text, " ") {
				message = text
				break
			}
		}
		r.add(n.Args[takes.at], takes, message, n)
	}
}

// made finds &action.Error{Code: "…"} and its like.
func (r *reading) made(n *ast.CompositeLit) {
	name := ""
	switch typ := n.Type.(type) {
	case *ast.Ident:
		name = typ.Name
	case *ast.SelectorExpr:
		name = typ.Sel.Name
	}
	if !slices.Contains(holders(), name) {
		return
	}
	var code, text ast.Expr
	for _, e := range n.Elts {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch key, _ := pair.Key.(*ast.Ident); {
		case key == nil:
		case key.Name == "Code":
			code = pair.Value
		case key.Name == "Message":
			text = pair.Value
		}
	}
	switch {
	case code == nil:
	case text == nil:
		r.add(code, takesOne{}, "", n)
	default:
		r.told(code, text, n)
	}
}

// told notes a code with its text, or the function whose callers say the text.
func (r *reading) told(code, text ast.Expr, at ast.Node) {
	message := r.text(text)
	r.add(code, takesOne{}, message, at)
	if call, ok := text.(*ast.CallExpr); ok && len(call.Args) > 0 {
		text = call.Args[0] // of Sprintf
	}
	name, ok := text.(*ast.Ident)
	if !ok || message != "" {
		return
	}
	if to, i, ok := r.parameter(name.Name); ok {
		if _, _, asked := r.parameter(fmt.Sprint(code)); !asked {
			r.takes[to] = appendOnce(r.takes[to], takesOne{at: i, code: code})
		}
	}
}

// parameter says of which function a name is a parameter.
func (r *reading) parameter(name string) (symbol, int, bool) {
	for in := r; in != nil && in.typ != nil; in = in.outer {
		i := 0
		for _, list := range in.typ.Params.List {
			for _, parameter := range list.Names {
				if parameter.Name == name && in.name != "" {
					return symbol{r.file.dir, in.name}, i, true
				}
				i++
			}
		}
	}
	return symbol{}, 0, false
}

func appendOnce(list []takesOne, one takesOne) []takesOne {
	if slices.Contains(list, one) {
		return list
	}
	return append(list, one)
}

// add notes a code and its text, or the function whose callers say the code.
func (r *reading) add(e ast.Expr, with takesOne, message string, at ast.Node) {
	switch e := e.(type) {
	case *ast.BasicLit:
		part, _ := strconv.Unquote(e.Value)
		code := with.before + part + with.after
		if r.found[code] == nil {
			r.found[code] = map[string]bool{}
		}
		if strings.Contains(message, " ") {
			r.found[code][message] = true
		}
		return
	case *ast.BinaryExpr:
		if left, ok := r.constant(e.X); ok {
			r.add(e.Y, takesOne{before: with.before + left, after: with.after, message: with.message}, message, at)
			return
		}
		if right, ok := r.constant(e.Y); ok {
			r.add(e.X, takesOne{before: with.before, after: right + with.after, message: with.message}, message, at)
			return
		}
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok && r.file.imports[x.Name] != "" {
			if value := r.named[symbol{r.file.imports[x.Name], e.Sel.Name}]; value != nil {
				r.add(value, with, message, at)
				return
			}
		} else if e.Sel.Name == "Code" && with.before+with.after == "" {
			return // of another error, which is found where it is made
		}
	case *ast.CallExpr:
		if r.addCall(e, with, message, at) {
			return
		}
	case *ast.Ident:
		if r.addName(e.Name, with, message, at) {
			return
		}
	}
	where := r.set.Position(at.Pos())
	file, _ := filepath.Rel(r.root, where.Filename)
	if _, known := notOurs()[filepath.ToSlash(file)]; !known {
		r.unread = append(r.unread, fmt.Sprintf("%s:%d", file, where.Line))
	}
}

// addCall notes what cmp.Or and conversions stand for.
func (r *reading) addCall(e *ast.CallExpr, with takesOne, message string, at ast.Node) bool {
	switch f := e.Fun.(type) {
	case *ast.Ident:
		if f.Name == "string" {
			r.add(e.Args[0], with, message, at)
			return true
		}
	case *ast.SelectorExpr:
		if f.Sel.Name == "Or" {
			for _, a := range e.Args {
				r.add(a, with, message, at)
			}
			return true
		}
	}
	return false
}

// addName notes what a name stands for: a constant, what is assigned to a
// variable, or what callers give for a parameter.
func (r *reading) addName(name string, with takesOne, message string, at ast.Node) bool {
	if to, i, ok := r.parameter(name); ok {
		r.takes[to] = appendOnce(r.takes[to], takesOne{i, with.before, with.after, message, nil})
		return true
	}
	for in := r; in != nil && in.typ != nil; in = in.outer {
		if in.addAssigned(name, with, message, at) {
			return true
		}
	}
	if value := r.named[symbol{r.file.dir, name}]; value != nil {
		r.add(value, with, message, at)
		return true
	}
	return false
}

func (r *reading) addAssigned(name string, with takesOne, message string, at ast.Node) (found bool) {
	ast.Inspect(r.body, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok || len(a.Lhs) != len(a.Rhs) {
			return true
		}
		for i, to := range a.Lhs {
			if id, ok := to.(*ast.Ident); ok && id.Name == name {
				found = true
				r.add(a.Rhs[i], with, message, at)
			}
		}
		return true
	})
	return found
}

func (r *reading) constant(e ast.Expr) (string, bool) {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil
}

// text is a message as far as the source has it; the rest is an ellipsis.
func (r *reading) text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := r.constant(e)
		return text
	case *ast.BinaryExpr:
		left, right := r.text(e.X), r.text(e.Y)
		if left == "" && right == "" {
			return ""
		}
		or := func(text string) string {
			if text == "" {
				return "…"
			}
			return text
		}
		return or(left) + or(right)
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Sprintf" && len(e.Args) > 0 {
			return r.text(e.Args[0])
		}
	case *ast.Ident:
		if value := r.named[symbol{r.file.dir, e.Name}]; value != nil {
			return r.text(value)
		}
	}
	return ""
}
