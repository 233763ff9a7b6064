package inbox

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/ingest/match"
)

func TestLifecycleStatus(t *testing.T) {
	const (
		active, expired, revoked, suspended, deleted = action.IntegrationActive, action.IntegrationExpired, action.IntegrationRevoked, action.IntegrationSuspended, action.IntegrationDeleted
		same                                         = action.IntegrationStatus("")
	)
	is := []action.IntegrationStatus{active, expired, revoked, suspended, deleted}
	for what, want := range map[event.Lifecycle][]action.IntegrationStatus{
		"":                  {same, same, same, same, same},
		event.Installed:     {same, same, same, same, same},
		event.Suspended:     {suspended, suspended, same, same, same},
		event.Unsuspended:   {same, same, same, active, same},
		event.Uninstalled:   {revoked, revoked, same, revoked, same},
		"something unknown": {same, same, same, same, same},
	} {
		for i := range is {
			if got, _ := lifecycleStatus(is[i], what); got != want[i] {
				t.Errorf("%s, %s: %q, want %q", is[i], what, got, want[i])
			}
		}
	}
}

func TestInstallationLifecycle(t *testing.T) {
	processFor(t, time.Second, func(s *fixture, c *Config) {
		s.integration(action.Integration{ID: "in1", Account: "acme"})
		s.integration(action.Integration{ID: "in2", Account: "acme", Organization: "org2"})
		s.integration(action.Integration{ID: "in3", Account: "other"})
		s.trigger(event.Trigger{ID: "t1"})
		for _, what := range []event.Lifecycle{event.Suspended, event.Unsuspended, event.Uninstalled} { // one batch
			s.post(event.Receipt{}, sale{Account: "acme", Lifecycle: what}.String())
		}
		// The secret of a trigger says nothing of installations.
		s.post(event.Receipt{Trigger: "t1"}, sale{Account: "other", Lifecycle: event.Uninstalled}.String())
	}, func(s *fixture) {
		want := []string{"in1 suspended", "in2 suspended", "in1 active", "in2 active", "in1 revoked", "in2 revoked"}
		if diff := cmp.Diff(want, s.statuses); diff != "" {
			t.Error(diff)
		}
	})
}

// byNango is a delivery of Nango's for the connection c at the key k.
func byNango(kind, rest string) string {
	return `{"from":"nango","type":"` + kind + `","connectionId":"c","providerConfigKey":"k",` + rest + `}`
}

func TestNangoAuth(t *testing.T) {
	for _, test := range []struct {
		name, body string
		is         action.IntegrationStatus
		want       []string
	}{
		{"not renewed", byNango("auth", `"operation":"refresh","success":false,"error":{"type":"t","description":"d"}`), "active", []string{"in rechecked"}},
		{"not made", byNango("auth", `"operation":"creation","success":false`), "active", []string{"in rechecked"}},
		{"not renewed when it was revoked", byNango("auth", `"operation":"refresh","success":false`), "revoked", nil},
		{"renewed", byNango("auth", `"operation":"refresh","success":true`), "expired", []string{"in rechecked"}},
		{"made anew", byNango("auth", `"operation":"override","success":true`), "expired", []string{"in rechecked"}},
		{"renewed as always", byNango("auth", `"operation":"refresh","success":true`), "active", nil},
		{"made anew when it was suspended", byNango("auth", `"operation":"override","success":true`), "suspended", nil},
		{"another operation", byNango("auth", `"operation":"deletion","success":true`), "expired", nil},
		{"a sync", byNango("sync", `"success":false`), "active", nil},
		{"another kind", byNango("compute", `"success":false`), "active", nil},
		{"another connection", strings.Replace(byNango("auth", `"operation":"refresh","success":false`), `"c"`, `"d"`, 1), "active", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r event.Receipt
			processFor(t, time.Millisecond, func(s *fixture, c *Config) {
				s.integration(action.Integration{ID: "in", Name: "c@k", Status: test.is})
				r = s.post(event.Receipt{Provider: match.NangoProvider}, test.body)
			}, func(s *fixture) {
				if diff := cmp.Diff(test.want, s.statuses); diff != "" || s.receipt(r.ID).Status != event.ReceiptCompleted {
					t.Errorf("%s\n%+v", diff, s.receipt(r.ID))
				}
			})
		})
	}
}

func TestRecheckIsRetried(t *testing.T) {
	var r event.Receipt
	processFor(t, time.Minute, func(s *fixture, c *Config) {
		s.integration(action.Integration{ID: "in", Name: "c@k"})
		s.awry = action.Errorf(action.ErrUnavailable, "broker_away", "Nango is away.")
		r = s.post(event.Receipt{Provider: match.NangoProvider}, byNango("auth", `"operation":"refresh","success":false`))
	}, func(s *fixture) {
		if got := s.receipt(r.ID); len(s.statuses) != 2 || got.Attempt != 2 || got.Status != event.ReceiptCompleted {
			t.Errorf("%v, %+v", s.statuses, got)
		}
	})
}

func TestNangoForwards(t *testing.T) {
	forward := func(s sale) string {
		return `{"from":"shop","type":"forward","connectionId":"c","providerConfigKey":"k","payload":` + s.String() + `}`
	}
	for _, test := range []struct {
		name, provider, body string
		trusting             bool
		want, statuses       []string
		note                 string
	}{
		{name: "not verified", provider: "shop", body: forward(sale{Keys: []string{"k1"}, Goods: "tea"}), want: []string{"milk k1 filter_mismatch", "tea k1 unverified"}},
		{name: "not verified, and taken all the same", provider: "shop", trusting: true, body: forward(sale{Keys: []string{"k1"}, Goods: "tea"}), want: []string{"milk k1 filter_mismatch", "tea k1"}},
		{name: "nobody is asked of what is not verified", provider: "slow", body: forward(sale{Keys: []string{"k1"}, Goods: "tea"}), want: []string{"milk k1 filter_mismatch", "tea k1 unverified"}},
		{name: "verified", provider: "linear", body: forward(sale{Keys: []string{"k1"}, Goods: "tea"}), want: []string{"milk k1 filter_mismatch", "tea k1"}},
		{name: "an uninstallation that is not verified", provider: "shop", body: forward(sale{Lifecycle: event.Uninstalled})},
		{name: "a verified uninstallation", provider: "linear", body: forward(sale{Lifecycle: event.Uninstalled}), statuses: []string{"in revoked"}},
		{name: "an uninstallation that is taken", provider: "shop", trusting: true, body: forward(sale{Lifecycle: event.Uninstalled}), statuses: []string{"in revoked"}},
		{name: "bare", provider: "linear", body: sale{Account: "acme", Keys: []string{"k1"}, Goods: "tea"}.String(), want: []string{"milk k1 filter_mismatch", "tea k1 unverified"}},
		{name: "bare, and taken", provider: "linear", trusting: true, body: sale{Account: "acme", Keys: []string{"k1"}, Goods: "tea"}.String(), want: []string{"milk k1 filter_mismatch", "tea k1"}},
		{name: "bare, of nobody", provider: "linear", body: sale{Account: "x", Keys: []string{"k1"}}.String(), note: "account"},
		{name: "bare, of no service", provider: "shop", body: sale{Account: "acme", Keys: []string{"k1"}}.String(), note: "name its service"},
		{name: "of another connection", provider: "linear", body: strings.Replace(forward(sale{Keys: []string{"k1"}}), `"c"`, `"d"`, 1), note: "connection"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r event.Receipt
			processFor(t, time.Millisecond, func(s *fixture, c *Config) {
				s.integration(action.Integration{ID: "in", Name: "c@k", Provider: test.provider, Account: "acme"})
				s.trigger(event.Trigger{ID: "tea", Provider: test.provider, Integration: "in", Config: []byte(`{"goods":"tea"}`)})
				s.trigger(event.Trigger{ID: "milk", Provider: test.provider, Config: []byte(`{"goods":"milk"}`)})
				s.trusting["org"] = test.trusting
				var headers []string
				if test.provider == "linear" {
					headers = []string{"Linear-Event", "Issue"}
				}
				r = s.post(event.Receipt{Provider: match.NangoProvider}, test.body, headers...)
			}, func(s *fixture) {
				if diff := cmp.Diff(test.want, s.kept()); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(test.statuses, s.statuses); diff != "" {
					t.Error(diff)
				}
				got := s.receipt(r.ID)
				if got.Status != event.ReceiptCompleted || len(s.asked) > 0 || (test.note == "") != (got.error == "") || !strings.Contains(got.error, test.note) {
					t.Errorf("%s: %q; asked %v", got.Status, got.error, s.asked)
				}
			})
		})
	}
}

func TestNangoRepeats(t *testing.T) {
	processFor(t, time.Second, func(s *fixture, c *Config) {
		s.integration(action.Integration{ID: "in", Name: "c@k", Provider: "linear"})
		s.trigger(event.Trigger{ID: "t1", Provider: "linear"})
		for range 2 {
			s.post(event.Receipt{Provider: match.NangoProvider}, `{"from":"linear","type":"forward","connectionId":"c","providerConfigKey":"k","payload":`+sale{Keys: []string{""}, Signed: true}.String()+`}`)
		}
	}, func(s *fixture) {
		if len(s.runs) != 1 {
			t.Errorf("runs of %v", s.kept())
		}
	})
}
