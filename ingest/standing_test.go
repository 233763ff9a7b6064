package ingest

import (
	"errors"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

// Being put off, by a service or because the process stops, is no failure.
func TestOnlyFailuresCount(t *testing.T) {
	s := newWorkshop(t)
	w, err := NewWorker(s.config())
	if err != nil {
		t.Fatal(err)
	}
	rd := &reading{receipt: event.Receipt{ID: "r", Attempt: 12, Failures: 8, ReceivedAt: time.Now()}}
	if got := w.later(rd, &later{at: time.Now(), why: "Later."}); got.Failures != 8 || got.Status != event.ReceiptQueued {
		t.Errorf("put off: %+v", got)
	}
	ninth := w.failure(t.Context(), rd, errors.New("away"))
	rd.receipt.Failures = 9
	tenth := w.failure(t.Context(), rd, errors.New("away"))
	if ninth.Status != event.ReceiptQueued || ninth.Failures != 9 || tenth.Status != event.ReceiptFailed {
		t.Errorf("the ninth failure: %s (%d), the tenth: %s", ninth.Status, ninth.Failures, tenth.Status)
	}
}

// What a service took away hears nothing, and of several integrations one that
// can be used completes events.
func TestWhichIntegrationHears(t *testing.T) {
	in := func(id string, status action.IntegrationStatus) action.Integration {
		return action.Integration{ID: id, Organization: "o", Status: status, Visibility: action.VisibleOrganization}
	}
	any := []event.Trigger{{ID: "t", Kind: event.Webhooks, Provider: "shop"}}
	for _, test := range []struct {
		name  string
		found []action.Integration
		want  string
	}{
		{"revoked", []action.Integration{in("1", action.IntegrationRevoked)}, ""},
		{"expired", []action.Integration{in("1", action.IntegrationExpired)}, "1"},
		{"the one that can be used", []action.Integration{in("1", action.IntegrationExpired), in("2", action.IntegrationActive)}, "2"},
	} {
		got := ""
		for _, h := range heard("o", any, test.found) {
			got += h.integration
		}
		if got != test.want {
			t.Errorf("%s: %q hears, want %q", test.name, got, test.want)
		}
	}
}
