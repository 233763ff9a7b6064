package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
)

const (
	maxConfig = 16 << 10 // bytes of a trigger's filters
	maxPoll   = 86_400   // seconds between two looks
)

// check refuses what a trigger cannot be; whether its filters fit is for its
// provider to say.
func (r *triggerRow) check() error {
	if r.Kind != event.Webhooks && r.Kind != event.Polling {
		return invalid("/trigger_type", "A trigger's kind is webhook or polling.")
	}
	return first(action.CheckName("/provider", "provider", r.Provider), action.CheckName("/event_type", "type", r.Type), r.checkChoices())
}

// checkChoices refuses what people cannot choose, and puts the filters into one
// form.
func (r *triggerRow) checkChoices() error {
	if err := first(checkTitle("/name", "trigger", r.Name), r.checkConfig()); err != nil {
		return err
	}
	switch polls := r.Kind == event.Polling; {
	case polls && r.Integration == "":
		return invalid("/integration_id", "A trigger that polls needs the integration that it looks at; name one.")
	case polls && (r.PollSeconds < 1 || r.PollSeconds > maxPoll):
		return invalid("/interval_seconds", fmt.Sprintf("Between two looks are 1 to %d seconds.", maxPoll))
	case !polls && r.PollSeconds != 0:
		return invalid("/interval_seconds", "A trigger of webhooks does not poll; leave this out.")
	}
	return nil
}

func (r *triggerRow) checkConfig() error {
	if len(r.Config) == 0 {
		r.Config = json.RawMessage("{}")
	}
	var short bytes.Buffer
	err := json.Compact(&short, r.Config)
	if err != nil || short.Len() > maxConfig || !utf8.Valid(short.Bytes()) || short.Bytes()[0] != '{' {
		return invalid("/config", fmt.Sprintf("The filters of a trigger are a JSON object of at most %d bytes.", maxConfig))
	}
	r.Config = short.Bytes()
	return nil
}

// checkIntegration refuses one of another service, and what not everybody sees:
// others read what the automation is told, and edit it.
func (r *triggerRow) checkIntegration(ctx context.Context, tx bun.Tx, by string) error {
	if r.Integration == "" {
		return nil
	}
	in, err := findIntegration(ctx, visibleIntegrations(tx, r.Organization, by).Where("id = ?", r.Integration))
	fault := ""
	switch {
	case err != nil:
		return err
	case in == nil:
		fault = "There is no such integration; list the integrations to see which there are."
	case in.Holder != "":
		fault = "This integration is private, and others read the automation's events, too; make it visible to the organization first."
	case in.Provider != r.Provider:
		fault = fmt.Sprintf("This is an integration of %s; name one of %s.", in.Provider, r.Provider)
	}
	if fault != "" {
		return invalid("/integration_id", fault)
	}
	return nil
}
