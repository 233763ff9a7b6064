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

	"sallyport/action"
)

var update = flag.Bool("update", false, "print the declared errors into docs/troubleshooting.md")

// TestCodesOfDocs has every code that the program uses be declared, and every
// declared one be used, and compares docs/troubleshooting.md with the declarations.
func TestCodesOfDocs(t *testing.T) {
	t.Parallel()
	const page, mark = "../docs/troubleshooting.md", "<!-- From here on printed by: go test ./conformance -run TestCodesOfDocs -update -->\n"
	s := readSource(t, "..")
	used := s.codes()
	for _, where := range s.unread {
		t.Errorf("%s: this test cannot tell which code that is; write it as a text or a constant, or teach the test", where)
	}
	declared := map[string]action.Declaration{}
	for _, area := range action.Areas() {
		all := area.Errors
		for code := range strings.FieldsSeq(area.Others) {
			all = append(all, action.Declaration{Code: code})
		}
		for _, d := range all {
			if _, twice := declared[d.Code]; twice {
				t.Errorf("%s is declared twice", d.Code)
			}
			if d.Text != "" && d.Kind == nil {
				t.Errorf("%s has a sentence and no kind", d.Code)
			}
			if declared[d.Code] = d; !used[d.Code] {
				t.Errorf("%s is declared, and nothing uses it", d.Code)
			}
		}
	}
	for _, code := range slices.Sorted(maps.Keys(used)) {
		if _, ok := declared[code]; !ok {
			t.Errorf("%s is not declared; see action/error_codes.go", code)
		}
	}
	for _, n := range s.news {
		if d := declared[n.code]; d.Text == "" || strings.Count(strings.ReplaceAll(d.Text, "%%", ""), "%") != n.values {
			t.Errorf("%s: NewError gives %d values to %q", n.where, n.values, d.Text)
		}
	}
	before := textOf(t, page)
	hand, _, _ := strings.Cut(before, mark)
	s.quoted(t, hand)
	after := hand + mark + printed()
	if len(after) > 22_000 {
		t.Errorf("%s has %d bytes; at most 22,000", page, len(after))
	}
	if before != after && *update {
		if err := os.WriteFile(page, []byte(after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if before != after {
		t.Errorf("%s is not what the declarations say; run: go test ./conformance -run TestCodesOfDocs -update", page)
	}
}

// printed is what the page says of the declared errors: what to do, where the
// message does not say all of it, and the names of all others.
func printed() string {
	var b strings.Builder
	for _, area := range action.Areas() {
		rest := strings.Fields(area.Others)
		for i := range rest {
			rest[i] = "`" + rest[i] + "`"
		}
		fmt.Fprintf(&b, "\n## %s\n\n| code | what to do |\n|---|---|\n", area.Name)
		for _, d := range area.Errors {
			if d.Do == "" {
				rest = append(rest, "`"+d.Code+"`")
			} else {
				fmt.Fprintf(&b, "| `%s` | %s |\n", d.Code, d.Do)
			}
		}
		if len(rest) > 0 {
			fmt.Fprintf(&b, "\nFor the others the message says what to do: %s.\n", strings.Join(rest, ", "))
		}
	}
	return b.String()
}

// quoted has the program contain the messages of the tables, but for what
// differs each time (…).
func (s *source) quoted(t *testing.T, page string) {
	t.Helper()
	var program strings.Builder
	for _, f := range s.files {
		ast.Inspect(f.File, func(n ast.Node) bool {
			if e, ok := n.(*ast.BasicLit); ok && e.Kind == token.STRING {
				text, _ := strconv.Unquote(e.Value)
				program.WriteString(text)
			}
			return true
		})
	}
	var rows [][]string
	for section := range strings.SplitSeq(page, "\n## ") {
		if strings.Contains(section, "\n| message | ") || strings.Contains(section, "\n| answer | ") {
			_, table, _ := strings.Cut(section, "|---|---|\n")
			rows = append(rows, regexp.MustCompile(`(?m)^\| ([^|]+?) \|`).FindAllStringSubmatch(table, -1)...)
		}
	}
	for _, row := range rows {
		for part := range strings.SplitSeq(row[1], "…") {
			if part = strings.Trim(part, " .;:"); len(part) > 9 && !strings.Contains(program.String(), part) {
				t.Errorf("the program does not say %q", part)
			}
		}
	}
	if len(rows) < 10 {
		t.Errorf("only %d rows of symptoms", len(rows))
	}
}

// source is the program, as far as its errors go.
type source struct {
	set    *token.FileSet
	root   string
	files  []sourceFile
	named  map[symbol]ast.Expr   // constants and variables of packages
	takes  map[symbol][]takesOne // functions that make of a parameter a code
	found  map[string]bool
	news   []newError
	unread []string
}

// newError is a call of action.NewError with a code as a text.
type newError struct {
	code, where string
	values      int
}

type sourceFile struct {
	*ast.File
	dir     string
	name    string
	imports map[string]string // of this module, by the name they have here
}

type symbol struct{ dir, name string }

// method begins the names of methods, of whatever type.
const method = "."

// takesOne says which parameter of a function is a code, or the middle of one.
type takesOne struct {
	at            int
	before, after string
}

// notOurs are the places that pass on the code of somebody else, and that put
// one together of what this test does not follow.
func notOurs() map[string][]string {
	return map[string][]string{
		"action/error.go":              nil, // Errorf itself
		"action/rule.go":               nil, // of a rule of package event: invalid_field, and those of schedules
		"sources/cloudlogs/backend.go": nil, // the service's own code
		"sources/gmail/client.go":      nil,
		"sources/linear/client.go":     nil,
		"sources/sentry/client.go":     nil,
		"sources/slack/client.go":      nil,
		"store/calls/invocation.go":    nil, // read from the row
		"store/inbound/run.go":         nil,
		"store/inbound/run_end.go":     nil, // written to it
		"sources/check.go":             {"invalid_settings", "invalid_config"},
		"store/history/registry.go":    {"too_many_automations", "too_many_triggers", "too_many_schedules", "too_many_workspaces", "too_many_repositories", "too_many_variables"}, // by the name of the table
	}
}

// numbered is the package of JSON-RPC errors, whose codes are numbers.
const numbered = "mcpserver/wire"

// holders are the types whose field Code people, agents or scripts meet.
func holders() []string {
	return []string{"Error", "Failure", "Refusal", "Problem", "Diagnosis", "RunResult"}
}

func readSource(t *testing.T, root string) *source {
	t.Helper()
	s := &source{
		set: token.NewFileSet(), root: root, named: map[symbol]ast.Expr{}, found: map[string]bool{},
		takes: map[symbol][]takesOne{{"action", "Errorf"}: {{at: 1}}, {"action", "NewError"}: {{at: 0}}},
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
			filepath.ToSlash(path) == root+"/action/gate/trace.go" { // spans have codes of their own
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
	f := sourceFile{File: parsed, dir: filepath.ToSlash(dir), name: filepath.Base(path), imports: map[string]string{}}
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

// codes returns each code. It goes on until no further function is found that
// takes a code from its callers.
func (s *source) codes() map[string]bool {
	for known := -1; known != s.known(); {
		known = s.known()
		s.unread, s.news, s.found = nil, nil, map[string]bool{}
		for _, list := range notOurs() {
			for _, code := range list {
				s.found[code] = true
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
	for i, to := range n.Lhs {
		switch to := to.(type) {
		case *ast.Ident:
			if f, ok := n.Rhs[i].(*ast.FuncLit); ok {
				names[f] = to.Name
			}
		case *ast.SelectorExpr:
			if literal, ok := n.Rhs[i].(*ast.BasicLit); to.Sel.Name == "Code" && !r.numbered(n.Rhs[i]) && (!ok || literal.Kind == token.STRING) {
				r.add(n.Rhs[i], takesOne{}, n)
			}
		}
	}
}

// numbered reports whether an expression is a number of JSON-RPC.
func (r *reading) numbered(e ast.Expr) bool {
	if s, ok := e.(*ast.SelectorExpr); ok {
		x, _ := s.X.(*ast.Ident)
		return x != nil && r.file.imports[x.Name] == numbered
	}
	return r.file.dir == numbered
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
		if takes.at < len(n.Args) {
			r.add(n.Args[takes.at], takes, n)
		}
	}
	if to == (symbol{"action", "NewError"}) && !n.Ellipsis.IsValid() {
		if code, ok := r.constant(n.Args[0]); ok {
			where := r.set.Position(n.Pos())
			r.news = append(r.news, newError{code, fmt.Sprintf("%s:%d", where.Filename, where.Line), len(n.Args) - 1})
		}
	}
}

// made finds &action.Error{Code: "…"} and its like.
func (r *reading) made(n *ast.CompositeLit) {
	name, dir := "", r.file.dir
	switch typ := n.Type.(type) {
	case *ast.Ident:
		name = typ.Name
	case *ast.SelectorExpr:
		name = typ.Sel.Name
		if x, ok := typ.X.(*ast.Ident); ok {
			dir = r.file.imports[x.Name]
		}
	}
	if !slices.Contains(holders(), name) || dir == numbered {
		return
	}
	for _, e := range n.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			if key, _ := pair.Key.(*ast.Ident); key != nil && key.Name == "Code" {
				r.add(pair.Value, takesOne{}, n)
			}
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

// add notes a code, or the function whose callers say it.
func (r *reading) add(e ast.Expr, with takesOne, at ast.Node) {
	switch e := e.(type) {
	case *ast.BasicLit:
		part, _ := strconv.Unquote(e.Value)
		r.found[with.before+part+with.after] = true
		return
	case *ast.BinaryExpr:
		if left, ok := r.constant(e.X); ok {
			r.add(e.Y, takesOne{before: with.before + left, after: with.after}, at)
			return
		}
		if right, ok := r.constant(e.Y); ok {
			r.add(e.X, takesOne{before: with.before, after: right + with.after}, at)
			return
		}
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok && r.file.imports[x.Name] != "" {
			if value := r.named[symbol{r.file.imports[x.Name], e.Sel.Name}]; value != nil {
				r.add(value, with, at)
				return
			}
		} else if e.Sel.Name == "Code" && with.before+with.after == "" {
			return // of another error, which is found where it is made
		}
	case *ast.CallExpr:
		if r.addCall(e, with, at) {
			return
		}
	case *ast.Ident:
		if r.addName(e.Name, with, at) {
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
func (r *reading) addCall(e *ast.CallExpr, with takesOne, at ast.Node) bool {
	switch f := e.Fun.(type) {
	case *ast.Ident:
		if f.Name == "string" {
			r.add(e.Args[0], with, at)
			return true
		}
	case *ast.SelectorExpr:
		if f.Sel.Name == "Or" {
			for _, a := range e.Args {
				r.add(a, with, at)
			}
			return true
		}
	}
	return false
}

// addName notes what a name stands for: a constant, what is assigned to a
// variable, or what callers give for a parameter.
func (r *reading) addName(name string, with takesOne, at ast.Node) bool {
	if to, i, ok := r.parameter(name); ok {
		r.takes[to] = appendOnce(r.takes[to], takesOne{i, with.before, with.after})
		return true
	}
	for in := r; in != nil && in.typ != nil; in = in.outer {
		if in.addAssigned(name, with, at) {
			return true
		}
	}
	if value := r.named[symbol{r.file.dir, name}]; value != nil {
		r.add(value, with, at)
		return true
	}
	return false
}

func (r *reading) addAssigned(name string, with takesOne, at ast.Node) (found bool) {
	ast.Inspect(r.body, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok || len(a.Lhs) != len(a.Rhs) {
			return true
		}
		for i, to := range a.Lhs {
			if id, ok := to.(*ast.Ident); ok && id.Name == name {
				found = true
				r.add(a.Rhs[i], with, at)
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
