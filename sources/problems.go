package sources

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// problem is one thing that is wrong with a value.
type problem struct {
	pointer string // of the field concerned
	field   string // the same in words
	text    string // a sentence that begins with the field
	rank    int    // what to tell first
}

// The ranks of problems.
const (
	rankMissing = iota
	rankUnknown
	rankValue
)

// problems returns what a failed check found, what matters most first. The
// validator walks maps, so that its own order is a different one each time.
func problems(err *jsonschema.ValidationError) []problem {
	list := collect(err)
	slices.SortFunc(list, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), strings.Compare(a.pointer, b.pointer), strings.Compare(a.text, b.text))
	})
	return slices.Compact(list)
}

func collect(err *jsonschema.ValidationError) []problem {
	switch k := err.ErrorKind.(type) {
	case nil:
		return nil
	case *kind.AnyOf:
		return choice(err)
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return []problem{value(err, "fits more than one of the allowed forms; exactly one is due")}
		}
		return choice(err)
	case *kind.Required:
		return missing(err, k.Missing, "")
	case *kind.DependentRequired:
		return missing(err, k.Missing, k.Prop)
	case *kind.Dependency:
		return missing(err, k.Missing, k.Prop)
	case *kind.AdditionalProperties:
		return unknown(err, k.Properties)
	case *kind.FalseSchema:
		return []problem{value(err, "is not allowed")}
	case *kind.PropertyNames:
		return []problem{value(err, "may not have a field named "+show(k.Property))}
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf, *kind.ContentSchema:
		return gather(err.Causes)
	}
	return []problem{value(err, rule(err.ErrorKind))}
}

func gather(causes []*jsonschema.ValidationError) []problem {
	var list []problem
	for _, cause := range causes {
		list = append(list, collect(cause)...)
	}
	return list
}

// choice tells what is wrong with a value that fits none of several forms:
// all that they want when each wants something else in its place, and
// otherwise what the form wants that comes closest.
func choice(err *jsonschema.ValidationError) []problem {
	var types kind.Type
	var wants []string
	var best []problem
	for _, cause := range err.Causes {
		switch k := whole(cause, len(err.InstanceLocation)).(type) {
		case *kind.Type:
			types.Got, types.Want = k.Got, append(types.Want, k.Want...)
		case *kind.Enum, *kind.Const, *kind.Pattern:
			wants = append(wants, rule(k))
		default:
			if list := problems(cause); best == nil || len(list) < len(best) {
				best = list
			}
		}
	}
	if len(best) > 0 {
		return best
	}
	if len(types.Want) > 0 {
		slices.Sort(types.Want)
		types.Want = slices.Compact(types.Want)
		wants = append(wants, rule(&types))
	}
	slices.Sort(wants)
	return []problem{value(err, strings.Join(slices.Compact(wants), ", or "))}
}

// whole returns why a form refuses a value as a whole, or nil when it is
// about something inside of it.
func whole(err *jsonschema.ValidationError, here int) jsonschema.ErrorKind {
	for len(err.Causes) == 1 {
		err = err.Causes[0]
	}
	if len(err.Causes) > 0 || len(err.InstanceLocation) != here {
		return nil
	}
	return err.ErrorKind
}

func missing(err *jsonschema.ValidationError, names []string, because string) []problem {
	list := make([]problem, 0, len(names))
	for _, name := range names {
		p := at(append(slices.Clone(err.InstanceLocation), name))
		p.rank, p.text = rankMissing, show(p.field)+" is missing"
		if because != "" {
			p.text += "; it is due because " + show(because) + " is given"
		}
		list = append(list, p)
	}
	return list
}

func unknown(err *jsonschema.ValidationError, names []string) []problem {
	list := make([]problem, 0, len(names))
	for _, name := range names {
		p := at(append(slices.Clone(err.InstanceLocation), name))
		p.rank, p.text = rankUnknown, show(p.field)+" is not a field of this action"
		list = append(list, p)
	}
	return list
}

func value(err *jsonschema.ValidationError, text string) problem {
	p := at(err.InstanceLocation)
	p.rank = rankValue
	if p.field == "" {
		p.text = "the object as a whole " + text
	} else {
		p.text = show(p.field) + " " + text
	}
	return p
}

// at returns a problem that points to a place in the value.
func at(path []string) problem {
	var p problem
	for _, segment := range path {
		p.pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(segment)
		if _, err := strconv.Atoi(segment); err == nil && p.field != "" {
			p.field += "[" + segment + "]"
			continue
		}
		if p.field != "" {
			p.field += "."
		}
		p.field += segment
	}
	return p
}

// rule says in words what a value must be.
func rule(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return "must be " + strings.Join(article(k.Want), " or ") + ", not " + article([]string{k.Got})[0]
	case *kind.Enum:
		return "must be one of " + options(k.Want)
	case *kind.Const:
		return "must be " + shown(k.Want)
	case *kind.Pattern:
		return "must match the pattern " + cut(k.Want, 120)
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters, not %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters, not %d", k.Want, k.Got)
	case *kind.Minimum:
		return "must be at least " + number(k.Want)
	case *kind.Maximum:
		return "must be at most " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + number(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + number(k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d items, not %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d items, not %d", k.Want, k.Got)
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %d fields, not %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %d fields, not %d", k.Want, k.Got)
	case *kind.AdditionalItems:
		return fmt.Sprintf("has %d items too many", k.Count)
	case *kind.UniqueItems:
		return fmt.Sprintf("has the same item twice, at %d and %d", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains, *kind.MinContains, *kind.MaxContains:
		return "does not have the items that are due"
	case *kind.Not:
		return "is of a form that is excluded"
	}
	return "is not what the schema asks for (" + strings.Join(k.KeywordPath(), " ") + ")"
}

func article(types []string) []string {
	out := make([]string, len(types))
	for i, t := range types {
		switch t {
		case "null":
			out[i] = t
		case "array", "object", "integer":
			out[i] = "an " + t
		default:
			out[i] = "a " + t
		}
	}
	return out
}

// options lists allowed values, as many as a reader can use.
func options(values []any) string {
	const most = 30
	var list []string
	for _, v := range values[:min(len(values), most)] {
		list = append(list, shown(v))
	}
	if len(values) > most {
		list = append(list, fmt.Sprintf("… (%d in all)", len(values)))
	}
	return strings.Join(list, ", ")
}

func shown(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "…"
	}
	return cut(string(raw), 80)
}

// show quotes a name that came from outside.
func show(name string) string { return strconv.Quote(cut(name, 120)) }

func cut(s string, limit int) string {
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return s
}

func number(r *big.Rat) string {
	if r.IsInt() {
		return cut(r.Num().String(), 40)
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}
