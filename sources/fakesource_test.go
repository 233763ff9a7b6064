package sources_test

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

// house is a source in memory that has everything a source may have.
type house struct {
	*origin
	resources, templates, prompts []string
	warnings                      []string
	offers                        sources.Capabilities
	missing                       sources.Missing
	did                           []string

	listens int
	listen  func(ctx context.Context, heard func(sources.Notice)) error // nil: it listens to words
	words   chan sources.Notice

	shut  time.Time // its circuit is open until then
	steps []sources.Step
}

// furnish makes a source one that has more than tools.
func furnish(o *origin) *house {
	o.more = &house{
		origin: o, words: make(chan sources.Notice),
		offers: sources.Capabilities{Resources: true, Subscribe: true, Prompts: true, Completions: true, Logging: true},
	}
	return o.more
}

func raws(list []string) (out []json.RawMessage) {
	for _, s := range list {
		out = append(out, json.RawMessage(s))
	}
	return out
}

// list is called with the origin's mutex held.
func (h *house) list(l *sources.Listing) {
	l.Resources, l.Templates, l.Prompts = raws(h.resources), raws(h.templates), raws(h.prompts)
	l.Capabilities, l.Missing, l.Warnings = h.offers, h.missing, h.warnings
}

func (h *house) Do(_ context.Context, method string, params json.RawMessage, _ action.Caller) (action.Result, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.did = append(h.did, method+string(params))
	return action.Result{Body: json.RawMessage(`{}`)}, nil
}

func (h *house) Subscribe(_ context.Context, uri string, on bool) error {
	if !on {
		return errors.New("not subscribed to " + uri)
	}
	return nil
}

func (h *house) Listen(ctx context.Context, heard func(sources.Notice)) error {
	h.mu.Lock()
	h.listens++
	listen := h.listen
	h.mu.Unlock()
	if listen != nil {
		return listen(ctx, heard)
	}
	for {
		select {
		case n := <-h.words:
			heard(n)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (h *house) listened() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.listens
}

func (h *house) Circuit() (bool, time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.shut.IsZero(), h.shut
}

func (h *house) Steps() []sources.Step { return h.steps }
