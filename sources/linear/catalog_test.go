package linear_test

import (
	"context"
	"testing"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/linear"
)

// TestInTheCatalog has the catalog take the module, and its checks of params
// take the examples.
func TestInTheCatalog(t *testing.T) {
	m := linear.Module()
	catalog, err := sources.New(sources.Config{
		Connectors:   func(context.Context, string) ([]action.Connector, error) { return nil, nil },
		Open:         func(action.Connector) (sources.Source, error) { return nil, action.ErrNotFound },
		Modules:      []*sources.Module{m},
		Integrations: func(context.Context, string) ([]action.Integration, error) { return nil, nil },
		Session:      func(context.Context, string) (action.Session, error) { return action.Session{}, nil },
		Connect:      func(context.Context, action.Integration) (*sources.Conn, error) { return nil, action.ErrNotFound },
		Refused:      func(context.Context, action.Integration, string, string) (bool, error) { return false, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = catalog.Close() })
	for _, declared := range m.Actions {
		a, err := catalog.Find(t.Context(), "o", m.ID, declared.Name, false)
		if err != nil {
			t.Fatal(err)
		}
		if want := m.ID + "_" + declared.Name; a.Tool != want || a.Risk != declared.Risk {
			t.Errorf("%s is the tool %s with risk %s", want, a.Tool, a.Risk)
		}
		for _, e := range declared.Examples {
			if err := a.Check(e.Params); err != nil {
				t.Errorf("%s: %s: %v", declared.Name, e.Params, err)
			}
		}
		if a.Check([]byte(`{"nothing":"of the kind"}`)) == nil {
			t.Errorf("%s takes anything", declared.Name)
		}
	}
}
