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

// problem is one violation in a value.
type problem struct {
	pointer string // JSON pointer to the field
	field   string // path to the field, for people
	text    string // a sentence that starts with the field
	rank    int    // order in which problems are reported
}

// Ranks of problems.
const (
	rankMissing = iota
	rankUnknown
	rankValue
)

// problems returns the violations that a check found, the most important first.
// The validator iterates over maps, so that its own order varies.
func problems(err *jsonschema.ValidationError) []problem {
	list := collectProblems(err)
	slices.SortFunc(list, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), strings.Compare(a.pointer, b.pointer), strings.Compare(a.text, b.text))
	})
	return slices.Compact(list)
}

func collectProblems(err *jsonschema.ValidationError) []problem {
	switch k := err.ErrorKind.(type) {
	case nil:
		return nil
	case *kind.AnyOf:
		return anyOfProblems(err)
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return []problem{valueProblem(err, "matches more than one of the allowed forms; exactly one must match")}
		}
		return anyOfProblems(err)
	case *kind.Required:
		return memberProblems(err, k.Missing, rankMissing, " is missing")
	case *kind.DependentRequired:
		return memberProblems(err, k.Missing, rankMissing, " is missing; it is required because "+quote(k.Prop)+" is given")
	case *kind.Dependency:
		return memberProblems(err, k.Missing, rankMissing, " is missing; it is required because "+quote(k.Prop)+" is given")
	case *kind.AdditionalProperties:
		return memberProblems(err, k.Properties, rankUnknown, " is not a field of this action")
	case *kind.FalseSchema:
		return []problem{valueProblem(err, "is not allowed")}
	case *kind.PropertyNames:
		return []problem{valueProblem(err, "may not have a field named "+quote(k.Property))}
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf, *kind.ContentSchema:
		var list []problem
		for _, cause := range err.Causes {
			list = append(list, collectProblems(cause)...)
		}
		return list
	}
	return []problem{valueProblem(err, ruleText(err.ErrorKind))}
}

// anyOfProblems explains a value that fits none of several alternatives: all
// accepted forms if each alternative rejects the value as a whole, otherwise
// the problems of the closest alternative.
func anyOfProblems(err *jsonschema.ValidationError) []problem {
	var types kind.Type
	var wants []string
	var best []problem
	for _, cause := range err.Causes {
		switch k := rootCause(cause, len(err.InstanceLocation)).(type) {
		case *kind.Type:
			types.Got, types.Want = k.Got, append(types.Want, k.Want...)
		case *kind.Enum, *kind.Const, *kind.Pattern:
			wants = append(wants, ruleText(k))
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
		wants = append(wants, ruleText(&types))
	}
	slices.Sort(wants)
	return []problem{valueProblem(err, strings.Join(slices.Compact(wants), ", or "))}
}

// rootCause returns why an alternative rejects a value as a whole, or nil if
// the violation is inside the value.
func rootCause(err *jsonschema.ValidationError, here int) jsonschema.ErrorKind {
	for len(err.Causes) == 1 {
		err = err.Causes[0]
	}
	if len(err.Causes) > 0 || len(err.InstanceLocation) != here {
		return nil
	}
	return err.ErrorKind
}

// memberProblems returns one problem for each missing or unknown member.
func memberProblems(err *jsonschema.ValidationError, names []string, rank int, text string) []problem {
	list := make([]problem, 0, len(names))
	for _, name := range names {
		p := problemAt(append(slices.Clone(err.InstanceLocation), name))
		p.rank, p.text = rank, quote(p.field)+text
		list = append(list, p)
	}
	return list
}

func valueProblem(err *jsonschema.ValidationError, text string) problem {
	p := problemAt(err.InstanceLocation)
	p.rank = rankValue
	if p.field == "" {
		p.text = "the object as a whole " + text
	} else {
		p.text = quote(p.field) + " " + text
	}
	return p
}

// problemAt returns a problem with the given location.
func problemAt(path []string) problem {
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

// ruleText describes what a value must be.
func ruleText(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return "must be " + strings.Join(withArticle(k.Want), " or ") + ", not " + withArticle([]string{k.Got})[0]
	case *kind.Enum:
		const most = 30 // a readable number
		var list []string
		for _, v := range k.Want[:min(len(k.Want), most)] {
			list = append(list, quoteValue(v))
		}
		if len(k.Want) > most {
			list = append(list, fmt.Sprintf("… (%d in all)", len(k.Want)))
		}
		return "must be one of " + strings.Join(list, ", ")
	case *kind.Const:
		return "must be " + quoteValue(k.Want)
	case *kind.Pattern:
		return "must match the pattern " + truncate(k.Want, 120)
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters, not %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters, not %d", k.Want, k.Got)
	case *kind.Minimum:
		return "must be at least " + formatNumber(k.Want)
	case *kind.Maximum:
		return "must be at most " + formatNumber(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + formatNumber(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + formatNumber(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + formatNumber(k.Want)
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
		return "lacks required items"
	case *kind.Not:
		return "has a form that is not allowed"
	}
	return "does not match the schema (" + strings.Join(k.KeywordPath(), " ") + ")"
}

func withArticle(types []string) []string {
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

func quoteValue(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "…"
	}
	return truncate(string(raw), 80)
}

// quote quotes an untrusted name.
func quote(name string) string { return strconv.Quote(truncate(name, 120)) }

func truncate(s string, limit int) string {
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return s
}

func formatNumber(r *big.Rat) string {
	if r.IsInt() {
		return truncate(r.Num().String(), 40)
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}
