package sources

import (
	"encoding/json"
	"time"

	"sallyport/action"
)

// Origin is what a name of a tool or a prompt is made from.
type Origin struct {
	Created            time.Time
	Source, Slug, Tool string
}

// Names gives tests the naming of tools.
func Names(list []Origin, reserved []string) []string { return names(origins(list, false), reserved) }

// PromptNames gives tests the naming of prompts.
func PromptNames(list []Origin) []string { return names(origins(list, true), nil) }

func origins(list []Origin, prompts bool) []nameRequest {
	out := make([]nameRequest, len(list))
	for i, o := range list {
		out[i] = nameRequest{created: o.Created, source: o.Source, slug: o.Slug, name: o.Tool, prompt: prompts}
	}
	return out
}

// CompileTemplates gives tests a matcher of templates that are compiled once.
func CompileTemplates(list []string) (matches func(uri string) (n int), err error) {
	templates := make([]template, len(list))
	for i, s := range list {
		if templates[i], err = parseTemplate(s); err != nil {
			return nil, err
		}
	}
	return func(uri string) (n int) {
		a := indexURI(uri)
		for _, t := range templates {
			if t.matches(a) {
				n++
			}
		}
		return n
	}, nil
}

// TemplateMatches gives tests the matcher of URI templates.
func TemplateMatches(s, uri string) (bool, error) {
	t, err := parseTemplate(s)
	return err == nil && t.matches(indexURI(uri)), err
}

// Compiled is a compiled tool, for tests.
type Compiled struct {
	Name, Title, Description string
	Hashes                   action.ToolHashes
	Hint                     action.Risk
	Notes                    []string
	Check                    func(json.RawMessage) error
	Renamed                  func(string) json.RawMessage
	Refused                  func() int64
	Bounded                  bool // checked without a meter, however large the params
}

// Compile gives tests the compiler of tools.
func Compile(raw json.RawMessage, budget time.Duration) (*Compiled, error) {
	t, err := compile(raw, budget)
	if err != nil {
		return nil, err
	}
	return &Compiled{
		Name: t.name, Title: t.title, Description: t.description, Hashes: t.hashes, Hint: t.riskHint, Notes: t.notes,
		Check: t.checker.Check, Renamed: t.definitionAs, Refused: t.checker.rejected.Load,
		Bounded: t.checker.acceptsAll || t.checker.plain.cost.visits < cheapVisits,
	}, nil
}
