package sources_test

import (
	"context"
	"testing"

	"sallyport/action"
	"sallyport/sources"
)

// What was read before a change, and comes to be known after it, is not what
// everybody is told for the next second.
func TestAReadThatAChangeOvertook(t *testing.T) {
	con := action.Connector{ID: "a", Organization: "o", Name: "a", Slug: "x", Enabled: true, Revision: 1, CreatedAt: day(-1)}
	reading, changed := make(chan struct{}), make(chan struct{})
	reads := 0 // one at a time
	cat, err := sources.New(sources.Config{
		Connectors: func(context.Context, string) ([]action.Connector, error) {
			if reads++; reads > 1 {
				return []action.Connector{con}, nil
			}
			close(reading)
			<-changed
			return nil, nil
		},
		Open: func(c action.Connector) (sources.Source, error) {
			return &origin{con: c, tools: []string{plain("b")}}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cat.Close() })
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = cat.List(t.Context(), "o")
	}()
	<-reading
	cat.Invalidate("o")
	close(changed)
	<-done
	list, _, err := cat.List(t.Context(), "o")
	if err != nil || len(list) != 1 || list[0].Tool != "x_b" {
		t.Errorf("after the change: %d actions, %v", len(list), err)
	}
}
