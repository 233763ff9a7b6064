package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/api"
	"sallyport/cmd/sallyport/command"
	"sallyport/ingest/event"
	"sallyport/internal/guard"
)

type triggerCommand struct {
	Providers triggerProviders                                     `cmd:"" help:"List providers of events, or the event types and filters of one."`
	Create    triggerCreate                                        `cmd:"" help:"Create a trigger and print its webhook URL and secret once."`
	List      request[api.OfAutomation, api.List[api.TriggerView]] `cmd:"" help:"List triggers."`
	Show      request[api.ByID, api.TriggerView]                   `cmd:"" help:"Show a trigger."`
	Update    triggerUpdate                                        `cmd:"" help:"Change a trigger."`
	Enable    triggerEnable                                        `cmd:"" help:"Enable a trigger."`
	Disable   triggerDisable                                       `cmd:"" help:"Disable a trigger; its deliveries are not kept."`
	Rotate    triggerRotate                                        `cmd:"" help:"Replace the webhook secret of a trigger."`
	Remove    request[api.ByID, api.None]                          `cmd:"" help:"Remove a trigger and its URL."`
	Polls     request[api.None, api.List[api.PollGroupView]]       `cmd:"" help:"Show the status of polling."`
}

// triggerAlias returns the second URL of the automation's only trigger of a
// provider, or "".
func triggerAlias(t *api.TriggerView) string {
	base, _, _ := strings.Cut(t.URL, "/webhooks/")
	switch t.Provider {
	case "custom":
		return base + "/webhooks/automation/" + t.Automation
	case "posthog":
		return base + "/webhooks/posthog/" + t.Automation
	}
	return ""
}

// triggerLine describes a trigger in a line.
func triggerLine(t *api.TriggerView) string {
	text := fmt.Sprintf("trigger %s (%s): %s %s by %s, %s", t.Name, t.ID, t.Provider, t.Type, t.Kind, enabledText(t.Enabled))
	if string(t.Config) != "{}" && len(t.Config) > 0 {
		text += ", where " + string(t.Config)
	}
	return text
}

type triggerCreate struct {
	clientFlags
	api.NewTrigger
	SecretStdin bool `help:"Read the secret from standard input, for services that issue it."`
	Disabled    bool `help:"Create it disabled, to get the URL before the service issues the secret."`
}

func (c *triggerCreate) Run(ctx context.Context, std *command.Streams) (err error) {
	if c.Disabled {
		c.Enabled = new(false)
	}
	if c.SecretStdin {
		if c.Secret, err = readSecret(std, "trigger create AUTOMATION PROVIDER TYPE --secret-stdin"); err != nil {
			return err
		}
	}
	return perform(ctx, &c.clientFlags, std, api.CreateTrigger, api.Body[api.NewTrigger]{Body: c.NewTrigger}, func(w io.Writer, t *api.MintedTrigger) {
		printLine(w, triggerLine(&t.TriggerView))
		if t.Kind == event.Webhooks {
			printLine(w, "enter this URL at the service: "+t.URL)
			c.noteLoopback(std, t.URL)
		}
		if t.SecretNeeded {
			printLine(w, "the service generates the secret; deliveries are rejected until you set it with: "+c.hint("trigger", "rotate", t.ID, "--secret-stdin"))
		}
		printSecretOnce(w, std, "and this secret: "+t.Secret, t.Secret)
	})
}

// noteLoopback adds a note if the URL is reachable only from this machine.
func (c *triggerCreate) noteLoopback(std *command.Streams, at string) {
	if u, err := url.Parse(at); err == nil && guard.Loopback(u) {
		std.Notes = append(std.Notes, "only this machine can reach that URL; for other services, start the server with --public-url")
	}
}

// printSecretOnce prints a generated secret in a sentence. secret is empty if
// the user provided it.
func printSecretOnce(w io.Writer, std *command.Streams, sentence, secret string) {
	if secret == "" {
		return
	}
	printLine(w, sentence)
	fmt.Fprintln(std.Err, "the secret is not shown again")
}

// triggerRef is the argument that names a trigger.
type triggerRef struct {
	clientFlags
	ID string `arg:"" help:"ID of the trigger."`
}

type triggerUpdate struct {
	triggerRef
	api.TriggerChange
}

func (c *triggerUpdate) Run(ctx context.Context, std *command.Streams) error {
	if reflect.ValueOf(c.TriggerChange).IsZero() {
		return command.UsageErrorf("nothing to change: pass --config JSON, --integration REF, --poll D or --rename NAME")
	}
	return c.change(ctx, std, c.TriggerChange)
}

// change updates the trigger and prints the result.
func (t *triggerRef) change(ctx context.Context, std *command.Streams, change api.TriggerChange) error {
	return perform(ctx, &t.clientFlags, std, api.UpdateTrigger, api.ByIDWith[api.TriggerChange]{ByID: api.ByID{ID: t.ID}, Body: change}, func(w io.Writer, updated *api.TriggerView) {
		printLine(w, triggerLine(updated))
	})
}

type triggerEnable struct{ triggerRef }

func (c *triggerEnable) Run(ctx context.Context, std *command.Streams) error {
	return c.change(ctx, std, api.TriggerChange{Enabled: new(true)})
}

type triggerDisable struct{ triggerRef }

func (c *triggerDisable) Run(ctx context.Context, std *command.Streams) error {
	return c.change(ctx, std, api.TriggerChange{Enabled: new(false)})
}

type triggerRotate struct {
	triggerRef
	rotationFlags
}

// rotationFlags are the flags for replacing a secret.
type rotationFlags struct {
	api.Rotation
	SecretStdin bool `help:"Read the new secret from standard input instead of generating one."`
}

// rotation returns the request. command is the command line to show if standard
// input is empty.
func (r *rotationFlags) rotation(std *command.Streams, command string) (_ *api.Rotation, err error) {
	if r.SecretStdin {
		r.Secret, err = readSecret(std, command+" --secret-stdin")
	}
	return &r.Rotation, err
}

// showRotated returns a printer of the new secret of a place.
func (r *rotationFlags) showRotated(std *command.Streams, place string) func(io.Writer, *api.MintedSecret) {
	return func(w io.Writer, rotated *api.MintedSecret) {
		printLine(w, "the secret of "+place+" is replaced; "+r.previousSecrets())
		printSecretOnce(w, std, "new secret: "+rotated.Secret, rotated.Secret)
	}
}

// previousSecrets says how long the previous secrets stay valid.
func (r *rotationFlags) previousSecrets() string {
	switch keep, _ := time.ParseDuration(r.Keep); { // [readDuration] wrote the value
	case r.Keep == "":
		return "the previous ones stay valid for 24h"
	case keep == 0:
		return "the previous ones are no longer valid"
	default:
		return "the previous ones stay valid for " + shortDuration(keep)
	}
}

func (c *triggerRotate) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	t, _, err := Fetch(ctx, server, api.GetTrigger, api.ByID{ID: c.ID})
	if err != nil {
		return err
	}
	r, err := c.rotation(std, "trigger rotate ID")
	if err != nil {
		return err
	}
	return perform(ctx, &c.clientFlags, std, api.RotateTrigger, api.ByIDWith[*api.Rotation]{ByID: api.ByID{ID: c.ID}, Body: r}, c.showRotated(std, t.URL))
}

type triggerProviders struct {
	clientFlags
	Provider string `arg:"" optional:"" help:"Provider to show in detail."`
}

func eventMethods(p *api.EventProvider) string {
	var methods []string
	if p.Webhook {
		methods = append(methods, "webhook")
	}
	if p.Polling {
		methods = append(methods, "polling")
	}
	return strings.Join(methods, ", ")
}

func (c *triggerProviders) Run(ctx context.Context, std *command.Streams) error {
	if c.Provider != "" {
		return perform(ctx, &c.clientFlags, std, api.GetEventProvider, api.GetEventProviderInput{ID: c.Provider}, showEventProvider)
	}
	return perform(ctx, &c.clientFlags, std, api.ListEventProviders, api.None{}, table("ID SERVICE BY TYPES", func(p *api.EventProvider) []string {
		types := make([]string, len(p.Types))
		for i, t := range p.Types {
			types[i] = t.ID
		}
		return []string{p.ID, p.Title, eventMethods(p), strings.Join(types, ", ")}
	}))
}

func showEventProvider(w io.Writer, p *api.EventProvider) {
	printLine(w, fmt.Sprintf("%s (%s), by %s", p.Title, p.ID, eventMethods(p)))
	if p.Secret != "" {
		printLine(w, regexp.MustCompile(`\[([^]]*)\]\(([^)]*)\)`).ReplaceAllString(strings.NewReplacer("`", "", "**", "").Replace(p.Secret), "$1 ($2)"))
	}
	for _, t := range p.Types {
		printLine(w, "")
		printLine(w, t.ID+": "+t.Title+". "+strings.ReplaceAll(t.Description, "`", ""))
		showFilters(w, t.Config)
	}
}

// filter is the part of a JSON Schema that describes an event filter.
type filter struct {
	Type        any               `json:"type"`
	Description string            `json:"description"`
	Enum        []any             `json:"enum"`
	Items       *filter           `json:"items"`
	Properties  map[string]filter `json:"properties"`
}

// showFilters prints the filters of a schema and an example.
func showFilters(w io.Writer, schema json.RawMessage) {
	var all filter
	if json.Unmarshal(schema, &all) != nil || len(all.Properties) == 0 {
		printLine(w, "    no filters")
		return
	}
	names := slices.Sorted(maps.Keys(all.Properties))
	for _, name := range names {
		f := all.Properties[name]
		f.show(w, "    "+name)
		for _, part := range slices.Sorted(maps.Keys(f.Properties)) {
			inner := f.Properties[part]
			inner.show(w, "        "+part)
		}
	}
	for _, name := range names {
		if f := all.Properties[name]; len(f.Properties) == 0 && f.example() != nil {
			line, _ := json.Marshal(map[string]any{name: f.example()}) // of strings and booleans
			printLine(w, "    such as --config '"+string(line)+"'")
			return
		}
	}
}

// show prints a filter in a line.
func (f *filter) show(w io.Writer, name string) {
	text := name + " (" + f.kind() + ")"
	if f.Description != "" {
		text += ": " + strings.ReplaceAll(f.Description, "`", "")
	}
	printLine(w, text)
}

// kind describes the values that a filter accepts.
func (f *filter) kind() string {
	choices := f.Enum
	if f.Items != nil && len(f.Items.Enum) > 0 {
		choices = f.Items.Enum
	}
	words := make([]string, len(choices))
	for i, c := range choices {
		words[i] = fmt.Sprint(c)
	}
	switch {
	case f.Items != nil && len(words) > 0:
		return "list of " + strings.Join(words, ", ")
	case f.Items != nil:
		return "list of " + f.Items.kind() + "s"
	case len(words) > 0:
		return strings.Join(words, ", ")
	}
	if kind, ok := f.Type.(string); ok {
		return kind
	}
	return "value"
}

// example returns a valid value, or nil.
func (f *filter) example() any {
	switch {
	case len(f.Enum) > 0:
		return f.Enum[0]
	case f.Items != nil:
		if one := f.Items.example(); one != nil {
			return []any{one}
		}
		return nil
	}
	switch f.Type {
	case "boolean":
		return true
	case "string":
		return "…"
	}
	return nil
}

func showTrigger(_ context.Context, w io.Writer, c *clientFlags, t *api.TriggerView) {
	printLine(w, triggerLine(t))
	printLine(w, "starts runs of "+t.AutomationName)
	if t.IntegrationName != "" {
		printLine(w, "for integration "+t.IntegrationName)
	}
	if t.PollSeconds > 0 {
		printLine(w, "polls every "+(time.Duration(t.PollSeconds)*time.Second).String())
	}
	if t.URL != "" {
		printLine(w, "URL: "+t.URL)
		if also := triggerAlias(t); also != "" {
			printLine(w, "also "+also+" while the automation has no other trigger of "+t.Provider)
		}
	}
	if t.SecretNeeded {
		printLine(w, "it has no secret, so all deliveries are rejected; set the service's secret with: "+c.hint("trigger", "rotate", t.ID, "--secret-stdin"))
	}
	if t.SharedURL != "" {
		printLine(w, "URL for all installations: "+t.SharedURL)
	}
	if t.Secrets != nil {
		printLine(w, command.Plural(*t.Secrets, "secret")+" valid")
	}
	if t.LastEventAt != nil {
		printLine(w, "last matching event "+relativeTime(t.LastEventAt))
	}
}

func pollRow(g *api.PollGroupView) []string {
	every := (time.Duration(g.PollSeconds) * time.Second).String()
	return []string{g.Title, g.IntegrationName, every, relativeTime(g.LastAt), relativeTime(&g.NextAt), strconv.Itoa(g.Failures), truncate(cmp.Or(g.LastError, g.Lost))}
}
