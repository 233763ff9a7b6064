package dashboard

import (
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/action"
	"sallyport/api"
)

// levelSchema describes an [api.LevelName], so that anything else is refused
// before it is decoded.
func levelSchema() *huma.Schema {
	s := &huma.Schema{Description: "0 none, 1 read, 2 write, 3 production; or the name.", Examples: []any{"write"}}
	for l := action.LevelNone; l.Valid(); l++ {
		s.Enum = append(s.Enum, float64(l))
	}
	for l := action.LevelNone; l.Valid(); l++ {
		s.Enum = append(s.Enum, l.String())
	}
	return s
}

// levelOf returns the level of a name or number.
func levelOf(n api.LevelName) action.Level {
	for l := action.LevelNone; l.Valid(); l++ {
		var name string
		if json.Unmarshal(n.RawMessage, &name) == nil && name == l.String() {
			return l
		}
	}
	var l action.Level
	_ = json.Unmarshal(n.RawMessage, &l) // what is no number is none
	return l
}
