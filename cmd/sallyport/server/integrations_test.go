package server

import (
	"context"
	"errors"
	"testing"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/store"
)

// The catalog takes all modules, and its checks of params take their examples
// and not anything.
func TestModulesInTheCatalog(t *testing.T) {
	t.Parallel()
	catalog, err := sources.New(sources.Config{
		Connectors:        func(context.Context, string) ([]action.Connector, error) { return nil, nil },
		Open:              func(action.Connector) (sources.Source, error) { return nil, action.ErrNotFound },
		Modules:           builtinModules(),
		Integrations:      func(context.Context, string) ([]action.Integration, error) { return nil, nil },
		Session:           func(context.Context, string) (*action.Session, error) { return &action.Session{}, nil },
		Connect:           func(context.Context, action.Integration) (*sources.Conn, error) { return nil, action.ErrNotFound },
		CredentialRefused: func(context.Context, action.Integration, string, string) (bool, error) { return false, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = catalog.Close() })
	for _, m := range builtinModules() {
		for _, declared := range m.Actions {
			name := m.ID + "_" + declared.Name
			a, err := catalog.Find(t.Context(), "o", m.ID, declared.Name, false)
			if err != nil {
				t.Fatal(err)
			}
			if a.Tool != name || a.Risk != declared.Risk || a.Summarize == nil || len(declared.Examples) == 0 {
				t.Errorf("%s: the tool %s of risk %s lacks something", name, a.Tool, a.Risk)
			}
			for _, e := range declared.Examples {
				if err := a.Check(e.Params); err != nil || a.Summarize(e.Params) == "" {
					t.Errorf("%s: %s: %v", name, e.Params, err)
				}
			}
			if a.Check([]byte(`{"nothing":"of the kind"}`)) == nil {
				t.Errorf("%s takes anything", name)
			}
		}
	}
}

// The logs of the machine are the operator's to give, and to take back from an
// organization that is connected to them.
func TestLogsAreOffered(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		to                     []string
		provider, organization string
		offered                bool
	}{
		{nil, logsID, store.DefaultOrganization, true},
		{nil, logsID, "other", false},
		{[]string{"other"}, logsID, "other", true},
		{[]string{"other"}, logsID, store.DefaultOrganization, false},
		{nil, "linear", "other", true},
	} {
		g := &Gateway{Options: Options{LogsFor: test.to}}
		err := g.checkOffered(test.provider, test.organization)
		if test.offered != (err == nil) || err != nil && !errors.Is(err, action.ErrForbidden) {
			t.Errorf("%s to %s with %q: %v", test.provider, test.organization, test.to, err)
		}
		if test.offered {
			continue
		}
		in := action.Integration{Provider: test.provider, Organization: test.organization}
		if _, err := g.integrationConn(t.Context(), in); !errors.Is(err, action.ErrForbidden) {
			t.Errorf("a module speaks for it: %v", err)
		}
		if _, err := (connections{Gateway: g}).Connect(t.Context(), action.ConnectRequest{Provider: test.provider, Organization: test.organization}); !errors.Is(err, action.ErrForbidden) {
			t.Errorf("it is connected: %v", err)
		}
	}
}
