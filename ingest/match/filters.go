package match

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sallyport/ingest/event"
)

// botsFilter is the modules' name of the filter that admits events caused by programs,
// which are excluded by default.
const botsFilter = "bots"

// failedFilters tells people which filters an event does not pass. A module only
// reports whether all filters pass, so they are added one by one: those with which
// the event no longer passes are the ones.
func failedFilters(kind *event.Type, e *event.Event, config json.RawMessage) string {
	var filters map[string]json.RawMessage
	if json.Unmarshal(config, &filters) != nil {
		return "" // it was checked when it was written
	}
	bots := filters[botsFilter]
	tried := map[string]json.RawMessage{botsFilter: json.RawMessage("true")}
	if !matchesWith(kind, e, tried) {
		return "Without any filter it would not pass either: it is none of what this trigger's type is about."
	}
	var failed []string
	for _, name := range slices.Sorted(maps.Keys(filters)) {
		if name == botsFilter {
			continue
		}
		if tried[name] = filters[name]; !matchesWith(kind, e, tried) {
			failed = append(failed, fmt.Sprintf("%s (%s)", name, filters[name]))
			delete(tried, name)
		}
	}
	if tried[botsFilter] = bots; bots == nil {
		delete(tried, botsFilter)
	}
	if !matchesWith(kind, e, tried) {
		failed = append(failed, botsFilter+" (not set, and a bot or an app did it)")
	}
	if len(failed) == 0 {
		return ""
	}
	return "It does not pass " + strings.Join(failed, "; ") + "."
}

func matchesWith(kind *event.Type, e *event.Event, filters map[string]json.RawMessage) bool {
	config, err := json.Marshal(filters)
	return err == nil && kind.Matches(e, config)
}
