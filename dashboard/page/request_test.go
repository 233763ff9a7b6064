package page

import (
	"context"
	"errors"
	"net/http/httptest"
	"slices"
	"testing"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
)

// After an error nothing more is loaded, and nothing is rendered: a page of
// zero values would look like one without rows.
func TestFirstErrorOfPageStays(t *testing.T) {
	w := httptest.NewRecorder()
	p := &pageRequest{pages: &pages{}, w: w, r: httptest.NewRequest("GET", "/runs", nil), me: &dashboard.Principal{}}
	first, calls := errors.New("first"), 0
	f := func(context.Context, string) (int, error) {
		calls++
		return calls, first
	}
	if got := load(p, f, ""); got != 0 || !errors.Is(p.err, first) {
		t.Errorf("a failed load returns %d with error %v", got, p.err)
	}
	p.setError(errors.New("second"))
	load(p, f, "")
	if err := p.show("runs", "runs", "Runs", nil); calls != 1 || !errors.Is(err, first) || w.Body.Len() > 0 {
		t.Errorf("%d loads, error %v, %d bytes rendered", calls, err, w.Body.Len())
	}
}

func TestPageDecodesQueryByTags(t *testing.T) {
	for _, row := range []struct {
		query, field string
		status       []action.Status
	}{
		{"status=failed,denied&status=+failed&status=pending&limit=7&source=+c1+&source=c2", "", []action.Status{"failed", "denied", "pending"}},
		{"status=&risk=", "", nil},
		{"status=failed,odd", "/status", nil},
		{"risk=odd", "/risk", nil},
		{"mode=odd", "/mode", nil},
	} {
		p := &pageRequest{r: httptest.NewRequest("GET", "/activity?"+row.query, nil)}
		var in api.ListInvocationsInput
		f := readQuery(p, &in)
		if field := action.Public(p.err).Field; p.err != nil && field != row.field || p.err == nil && row.field != "" {
			t.Errorf("%s: %v", row.query, p.err)
		}
		if p.err != nil {
			continue
		}
		if !slices.Equal(in.Status, row.status) || in.Limit != 50 || f.Get("limit") != "" || f.Get("source") != in.Source || in.Source != "" && in.Source != "c1" {
			t.Errorf("%s is decoded as %+v", row.query, in)
		}
	}
}
