package server

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/sources"
)

// What comes in goes to people and agents: the credential that it was asked for
// with is not in it, nor what a service says when it refuses.
func TestServicesTellNoCredential(t *testing.T) {
	t.Parallel()
	p, linear := serveHouse(t), newService(t, likeLinear(linearKey))
	in := p.connectTo(linear, "linear", map[string]any{"kind": "api_key", "secret": linearKey})
	refuses := false
	p.modules = []*sources.Module{{
		ID: "linear", Title: "Linear",
		Poll: func(_ context.Context, c *sources.Conn, _ json.RawMessage) (event.PollResult, error) {
			if refuses {
				return event.PollResult{}, &sources.Refusal{Code: "odd", Message: "Not with " + c.Token + ".", Detail: "foreign"}
			}
			return event.PollResult{Events: []event.Event{{Title: "by " + c.Token, URL: "https://x/" + c.Token, Context: json.RawMessage(`{"by":"` + c.Token + `"}`)}}}, nil
		},
	}}
	at := inboundServices{p.Gateway}
	found, err := at.Poll(t.Context(), in.Organization, in.ID, nil)
	if err != nil || len(found.Events) != 1 {
		t.Fatalf("polled %+v, %v", found, err)
	}
	if e := found.Events[0]; strings.Contains(e.Title+e.URL+string(e.Context), linearKey) || !strings.Contains(string(e.Context), `"by":`) {
		t.Errorf("found %+v, context %s", e, e.Context)
	}
	refuses = true
	_, err = at.Poll(t.Context(), in.Organization, in.ID, nil)
	var said *action.Error
	if !errors.As(err, &said) || strings.Contains(said.Error(), linearKey) || strings.Contains(said.Error(), "foreign") || !strings.HasPrefix(said.Message, "Linear rejected the request: Not with ") {
		t.Errorf("refused with %v", err)
	}
	if changed, err := at.Hydrate(t.Context(), in.Organization, in.ID, &event.Event{}); changed || err != nil {
		t.Errorf("a module that completes nothing: %t, %v", changed, err)
	}
	if _, err = at.Poll(t.Context(), "another", in.ID, nil); !errors.Is(err, action.ErrNotFound) {
		t.Errorf("for another organization: %v", err)
	}
	p.modules = nil
	if _, err = at.Poll(t.Context(), in.Organization, in.ID, nil); !errors.Is(err, action.ErrUnavailable) {
		t.Errorf("without the module: %v", err)
	}
}
