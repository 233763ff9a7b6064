package sources

import (
	"encoding/json"
	"time"

	"sallyport/action"
)

// Origin is what a name of a tool is made from.
type Origin struct {
	Created            time.Time
	Source, Slug, Tool string
}

// Names gives tests the naming of tools.
func Names(list []Origin, reserved []string) []string {
	origins := make([]origin, len(list))
	for i, o := range list {
		origins[i] = origin{created: o.Created, source: o.Source, slug: o.Slug, tool: o.Tool}
	}
	return names(origins, reserved)
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
		Name: t.name, Title: t.title, Description: t.description, Hashes: t.hashes, Hint: t.hint, Notes: t.notes,
		Check: t.checker.Check, Renamed: t.renamed, Refused: t.checker.refused.Load,
		Bounded: t.checker.anyway || t.checker.plain.cost.visits < cheapVisits,
	}, nil
}
