package dashboard

import (
	"os"
	"slices"
	"strings"
	"testing"

	"sallyport/action"
)

// The filters of history, here and in the API, know every kind of event.
func TestFiltersOfHistoryKnowAllKinds(t *testing.T) {
	var listed []string
	for _, k := range eventKinds() {
		listed = append(listed, k.kind)
	}
	if !slices.Equal(listed, action.EventKinds()) {
		t.Errorf("the page lists %v, want %v", listed, action.EventKinds())
	}
	source, err := os.ReadFile("api_quotas.go")
	if err != nil {
		t.Fatal(err)
	}
	if want := `query:"kind" enum:"` + strings.Join(action.EventKinds(), ",") + `"`; !strings.Contains(string(source), want) {
		t.Errorf("the API's kinds are not %s", want)
	}
}
