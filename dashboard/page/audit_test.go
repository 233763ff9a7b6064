package page

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/api"
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
	field, _ := reflect.TypeFor[api.ListPolicyEventsInput]().FieldByName("Kind")
	if got, want := field.Tag.Get("enum"), strings.Join(action.EventKinds(), ","); got != want {
		t.Errorf("the API's kinds are %s, want %s", got, want)
	}
}
