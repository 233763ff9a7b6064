package match

import (
	"encoding/json"
	"testing"

	"sallyport/ingest/event"
)

// What an event did not pass is said by the names and values of the filters.
func TestFailedFilters(t *testing.T) {
	custom := Custom()
	e := event.Event{Type: "event", Context: json.RawMessage(`{"type":"deploy","data":{"status":"ok"}}`), Native: "deploy"}
	for config, want := range map[string]string{
		`{"event_path":"/type","events":["failure"]}`:                                            `It does not pass events (["failure"]).`,
		`{"event_path":"/type","events":["deploy"],"match":{"/data/status":"bad"}}`:              `It does not pass match ({"/data/status":"bad"}).`,
		`{"event_path":"/type","events":["a"],"match":{"/data/status":"bad"},"id_header":"X-I"}`: `It does not pass events (["a"]); match ({"/data/status":"bad"}).`,
		`{"event_path":"/type","events":["deploy"]}`:                                             ``,
	} {
		if got := failedFilters(&custom.Types[0], &e, json.RawMessage(config)); got != want {
			t.Errorf("%s: %q, want %q", config, got, want)
		}
	}
	bots := event.Type{Matches: func(_ *event.Event, config json.RawMessage) bool {
		var f struct {
			Bots   bool
			Labels []string
		}
		return json.Unmarshal(config, &f) == nil && f.Bots && len(f.Labels) == 0
	}}
	for config, want := range map[string]string{
		`{}`:               `It does not pass bots (not set, and a bot or an app did it).`,
		`{"bots":false}`:   `It does not pass bots (not set, and a bot or an app did it).`,
		`{"labels":["x"]}`: `It does not pass labels (["x"]); bots (not set, and a bot or an app did it).`,
	} {
		if got := failedFilters(&bots, &e, json.RawMessage(config)); got != want {
			t.Errorf("%s: %q, want %q", config, got, want)
		}
	}
	never := event.Type{Matches: func(*event.Event, json.RawMessage) bool { return false }}
	if got := failedFilters(&never, &e, json.RawMessage(`{"labels":["x"]}`)); got == "" || got[:7] != "Without" {
		t.Errorf("of none: %q", got)
	}
}
