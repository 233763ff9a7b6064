package dashboard

import (
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/action"
)

// levelOrName is a level as a number or by its name. The description lists
// what it may be, so that anything else is refused before it is decoded.
type levelOrName struct{ raw }

// Schema describes it to huma.
func (levelOrName) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Description: "0 none, 1 read, 2 write, 3 production; or the name.", Examples: []any{"write"}}
	for l := action.LevelNone; l.Valid(); l++ {
		s.Enum = append(s.Enum, float64(l))
	}
	for l := action.LevelNone; l.Valid(); l++ {
		s.Enum = append(s.Enum, l.String())
	}
	return s
}

// level returns what it says.
func (n levelOrName) level() action.Level {
	for l := action.LevelNone; l.Valid(); l++ {
		var name string
		if json.Unmarshal(n.raw, &name) == nil && name == l.String() {
			return l
		}
	}
	var l action.Level
	_ = json.Unmarshal(n.raw, &l) // what is no number is none
	return l
}
