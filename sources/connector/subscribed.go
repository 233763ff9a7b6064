package connector

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"sallyport/sources"
)

// subscribed hears subscriptions/listen.
func (e *ear) subscribed(parent context.Context, ses *session) error {
	uris, retuned := e.wishes.now()
	if ses.lists == (changing{}) && len(uris) == 0 {
		e.wishes.told(nil)
		return e.idle(parent, retuned)
	}
	ctx, stop := context.WithCancelCause(parent)
	defer stop(nil)
	go func() {
		select {
		case <-retuned:
			stop(errRetuned)
		case <-ctx.Done():
		}
	}()
	id := e.ids.Add(1)
	resp, err := e.subscribe(ctx, ses, id, uris)
	if err != nil {
		return retunedOr(ctx, err)
	}
	over := errors.New("the server ended the subscription")
	nothing := false
	err = e.follow(resp, func(m *message, method string) {
		switch {
		case m.answers(id):
			stop(over)
			nothing = nothing || problemCode(m.problem) == codeMethod
		case !ours(m, id):
		case method == "notifications/subscriptions/acknowledged":
			nothing = grantsNothing(m)
			e.wishes.told(uris)
			e.missed(ses)
		default:
			e.notice(m, method)
		}
	})
	switch {
	case nothing && len(uris) == 0:
		return errDeaf
	case nothing: // other resources may be granted
		return e.idle(parent, retuned)
	}
	return retunedOr(ctx, err)
}

// idle waits until other resources are wanted.
func (e *ear) idle(ctx context.Context, retuned <-chan struct{}) error {
	select {
	case <-retuned:
		return errRetuned
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errRetuned is a stream that ended because other resources are wanted.
var errRetuned = errors.New("other resources are wanted")

func retunedOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errRetuned) {
		return cause
	}
	return err
}

// subscribe posts subscriptions/listen for all that the server offers.
func (e *ear) subscribe(ctx context.Context, ses *session, id int64, uris []string) (*http.Response, error) {
	wanted, err := json.Marshal(struct {
		Notifications any `json:"notifications"`
	}{struct {
		Tools     bool     `json:"toolsListChanged,omitempty"`
		Prompts   bool     `json:"promptsListChanged,omitempty"`
		Resources bool     `json:"resourcesListChanged,omitempty"`
		URIs      []string `json:"resourceSubscriptions,omitempty"`
	}{ses.lists.tools, ses.lists.prompts, ses.lists.resources, uris}})
	if err != nil {
		return nil, err
	}
	r := &request{method: "subscriptions/listen", params: wanted}
	post, err := e.post(ctx, ses, r, id)
	if err != nil {
		return nil, err
	}
	return e.openStream(ctx, post, ses)
}

// ours reports whether a notification is of this subscription, or does not say.
func ours(m *message, id int64) bool {
	members, _ := sources.Members(m.params)
	meta := sources.Lookup(m.params, members, "_meta")
	members, _ = sources.Members(meta)
	tag := sources.Lookup(meta, members, metaSubscription)
	asked := message{id: tag}
	return tag == nil || asked.answers(id)
}

// grantsNothing reports whether an acknowledgement grants nothing at all.
func grantsNothing(m *message) bool {
	members, _ := sources.Members(m.params)
	granted := sources.Lookup(m.params, members, "notifications")
	list, ok := sources.Members(granted)
	return ok && !slices.ContainsFunc(list, func(g sources.Member) bool {
		switch string(granted[g.Value:g.End]) {
		case "false", "null", "[]":
			return false
		}
		return true
	})
}
