package sources

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/internal/canonical"
	"sallyport/internal/jsonlex"
)

// alphanumeric is the base alphabet of names.
const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

const (
	maxTools      = 2_000
	maxToolBytes  = 1 << 20
	maxActionName = 128
	maxWarnings   = 50
)

// tool is one compiled tool of a source: the part of an action that does not
// depend on other sources.
type tool struct {
	raw          json.RawMessage
	name         string
	title        string
	description  string
	riskHint     action.Risk // from the annotations; empty: none
	input        json.RawMessage
	output       json.RawMessage
	hashes       action.ToolHashes
	digest       [sha256.Size]byte // of raw
	notes        []string          // warnings about a usable tool
	requiresTask bool              // the definition says that it only runs as a task
	taskOnly     bool              // and the server runs tools as tasks
	checker      *checker
}

// compile compiles a tool definition. The error says why the tool is left out.
func compile(raw json.RawMessage, budget time.Duration) (t *tool, err error) {
	defer func() {
		if p := recover(); p != nil {
			t, err = nil, fmt.Errorf("it cannot be compiled: %.100v", p)
		}
	}()
	members, ok := Members(raw)
	if !ok {
		return nil, errors.New("it is not an object")
	}
	t = &tool{raw: raw, digest: sha256.Sum256(raw), name: stringMember(raw, members, "name")}
	if t.name == "" || len(t.name) > maxActionName || strings.Trim(t.name, alphanumeric+"_.-") != "" {
		return t, fmt.Errorf("its name must consist of at most %d letters, digits, _, . and -", maxActionName)
	}
	if len(raw) > maxToolBytes {
		return t, fmt.Errorf("its definition is larger than %d KiB", maxToolBytes>>10)
	}
	// Reject duplicate object keys: parsers disagree about them, and
	// would see different tools.
	if t.hashes.Behaviour, err = canonical.DefinitionHash(raw); err != nil {
		return t, errors.New(action.Public(err).Message)
	}
	if t.hashes.Text, err = canonical.TextHash(raw); err != nil {
		return t, errors.New(action.Public(err).Message)
	}
	t.title, t.description = stringMember(raw, members, "title"), stringMember(raw, members, "description")
	t.annotations(Lookup(raw, members, "annotations"))
	if err := t.schemas(members, budget); err != nil {
		return t, err
	}
	if execution, ok := Members(Lookup(raw, members, "execution")); ok {
		t.requiresTask = stringMember(Lookup(raw, members, "execution"), execution, "taskSupport") == "required"
	}
	return t, nil
}

// checkFunc returns the check of the tool's params. A tool that only runs as a
// task fails here, before an approval is requested.
func (t *tool) checkFunc(name string) func(json.RawMessage) error {
	if !t.taskOnly {
		return t.checker.Check
	}
	return func(json.RawMessage) error {
		return action.NewError("task_only", name)
	}
}

func (t *tool) schemas(members []Member, budget time.Duration) (err error) {
	if t.input = Lookup(t.raw, members, "inputSchema"); t.input == nil {
		return errors.New("it has no inputSchema")
	}
	if t.checker, t.notes, err = newChecker(t.input, budget); err != nil {
		return fmt.Errorf("its inputSchema cannot be used: %w", err)
	}
	t.output = Lookup(t.raw, members, "outputSchema")
	if string(t.output) == "null" {
		t.output = nil
	}
	if t.output == nil {
		return nil
	}
	// The gateway does not use it, but clients compile it, and some
	// drop the whole list because of one that is broken.
	doc, err := readSchema(t.output)
	if err == nil {
		_, err = compileSchema(doc, nil)
	}
	if err != nil {
		return fmt.Errorf("its outputSchema cannot be used: %w", err)
	}
	return nil
}

// annotations reads the risk hints of the source. Only a literal true counts.
func (t *tool) annotations(raw json.RawMessage) {
	members, ok := Members(raw)
	if !ok {
		return
	}
	switch {
	case string(Lookup(raw, members, "destructiveHint")) == "true":
		t.riskHint = action.RiskDanger
	case string(Lookup(raw, members, "readOnlyHint")) == "true":
		t.riskHint = action.RiskRead
	}
	if t.title == "" {
		t.title = stringMember(raw, members, "title")
	}
}

// stringMember returns the string member with that name, or the empty string.
func stringMember(raw []byte, members []Member, name string) string {
	value := Lookup(raw, members, name)
	if len(value) == 0 || value[0] != '"' {
		return ""
	}
	return unquote(value)
}

// definitionAs returns the definition with only the name replaced.
func (t *tool) definitionAs(name string) json.RawMessage {
	if name == t.name {
		return t.raw
	}
	return replaceMember(t.raw, "name", name)
}

// replaceMember returns a definition with the value of one member replaced.
func replaceMember(raw json.RawMessage, member, value string) json.RawMessage {
	members, _ := Members(raw)
	for _, m := range members {
		if m.Name == member {
			out := make([]byte, 0, len(raw)+len(value))
			out = append(out, raw[:m.Value]...)
			out = jsonlex.Quote(out, value)
			return append(out, raw[m.End:]...)
		}
	}
	return raw
}

// compileTools compiles the listed tools. Tools whose bytes did not change are
// reused.
func compileTools(listing Listing, before []*tool, budget time.Duration) (tools []*tool, warnings []string) {
	known := make(map[[sha256.Size]byte]*tool, len(before))
	for _, t := range before {
		known[t.digest] = t
	}
	seen := make(map[string]bool, len(listing.Tools))
	for i, raw := range listing.Tools {
		if i == maxTools {
			warnings = append(warnings, fmt.Sprintf("%d tools are listed; only the first %d are used.", len(listing.Tools), maxTools))
			break
		}
		t, ok := known[sha256.Sum256(raw)]
		if !ok {
			var err error
			if t, err = compile(raw, budget); err != nil {
				name := ""
				if t != nil {
					name = t.name
				}
				warnings = append(warnings, fmt.Sprintf("Tool %s is left out: %v.", label(name, i), err))
				continue
			}
		}
		if taskOnly := t.requiresTask && listing.Capabilities.Tasks; t.taskOnly != taskOnly {
			other := *t
			other.taskOnly, t = taskOnly, &other
		}
		if seen[t.name] {
			warnings = append(warnings, fmt.Sprintf("Tool %s is listed more than once; only the first is used.", label(t.name, i)))
			continue
		}
		seen[t.name] = true
		tools = append(tools, t)
		for _, note := range t.notes {
			warnings = append(warnings, fmt.Sprintf("Tool %s %s.", label(t.name, i), note))
		}
		if t.taskOnly {
			warnings = append(warnings, fmt.Sprintf("Tool %s can only be called as a task of its server, which the gateway does not support. Its calls are refused.", label(t.name, i)))
		}
	}
	return tools, warnings
}

// label identifies a listed tool or item in a warning.
func label(name string, i int) string {
	if name == "" {
		return fmt.Sprintf("number %d", i+1)
	}
	return quote(name)
}

// HeaderParam is a param that its tool wants repeated in a request header
// (x-mcp-header).
type HeaderParam struct {
	Header string   // without the prefix Mcp-Param-
	Path   []string // property names
}

// HeaderParams returns the params that an input schema wants in headers. The
// error describes an invalid x-mcp-header.
func HeaderParams(schema json.RawMessage) ([]HeaderParam, error) {
	if !strings.Contains(string(schema), "x-mcp-header") {
		return nil, nil
	}
	doc, err := decode(schema)
	if err != nil {
		return nil, err
	}
	var list []HeaderParam
	err = headerParams(doc, nil, &list)
	slices.SortFunc(list, func(a, b HeaderParam) int { return strings.Compare(a.Header, b.Header) })
	return list, err
}

func headerParams(schema any, path []string, list *[]HeaderParam) error {
	obj, _ := schema.(map[string]any)
	properties, _ := obj["properties"].(map[string]any)
	for name, property := range properties {
		at := append(slices.Clone(path), name)
		if err := headerParam(property, at, list); err != nil {
			return err
		}
		if err := headerParams(property, at, list); err != nil {
			return err
		}
	}
	return nil
}

func headerParam(property any, path []string, list *[]HeaderParam) error {
	obj, _ := property.(map[string]any)
	want, ok := obj["x-mcp-header"]
	if !ok {
		return nil
	}
	where := strings.Join(path, ".")
	header, _ := want.(string)
	switch kind := obj["type"]; {
	case kind != "string" && kind != "integer" && kind != "boolean":
		return fmt.Errorf("x-mcp-header at %.100q is only for strings, integers and booleans", where)
	case header == "" || len(header) > 128 || strings.Trim(header, alphanumeric+"!#$%&'*+-.^_`|~") != "":
		return fmt.Errorf("x-mcp-header at %.100q is not a valid header name", where)
	}
	for _, other := range *list {
		if strings.EqualFold(other.Header, header) {
			return fmt.Errorf("x-mcp-header %.100q is defined twice", header)
		}
	}
	*list = append(*list, HeaderParam{Header: header, Path: path})
	return nil
}
