package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"sallyport/ingest/event"
	"sallyport/internal/guard"
)

type triggerCommand struct {
	Providers triggerProviders `cmd:"" help:"List the services whose events can start runs, or show the types and filters of one."`
	Create    triggerCreate    `cmd:"" help:"Have events start runs of an automation, and print the URL and secret for the service, once."`
	List      triggerList      `cmd:"" help:"List triggers."`
	Show      triggerShow      `cmd:"" help:"Show a trigger."`
	Update    triggerUpdate    `cmd:"" help:"Change a trigger."`
	Enable    triggerEnable    `cmd:"" help:"Let a trigger start runs again."`
	Disable   triggerDisable   `cmd:"" help:"Have a trigger start nothing, and keep nothing of what comes."`
	Rotate    triggerRotate    `cmd:"" help:"Replace the secret of a trigger's URL."`
	Remove    triggerRemove    `cmd:"" help:"Remove a trigger; its URL is gone with it."`
	Polls     triggerPolls     `cmd:"" help:"Show how looking for events by itself goes."`
}

const triggersPath = "/api/v1/triggers"

// triggerRow is a trigger as the API shows it.
type triggerRow struct {
	event.Trigger
	Config         json.RawMessage `json:"config"`
	AutomationName string          `json:"automation_name"`
	Integration    string          `json:"integration_name"`
	URL            string          `json:"url"`
	SharedURL      string          `json:"provider_url"`
	Secret         string          `json:"secret"`
	Secrets        *int            `json:"secrets"`
	SecretNeeded   bool            `json:"secret_needed"`
}

// alias is the URL by which the automation's only trigger of the provider may
// be called as well; empty: there is none.
func (t *triggerRow) alias() string {
	base, _, _ := strings.Cut(t.URL, "/webhooks/")
	switch t.Provider {
	case "custom":
		return base + "/webhooks/automation/" + t.Automation
	case "posthog":
		return base + "/webhooks/posthog/" + t.Automation
	}
	return ""
}

// said is a trigger in a line.
func (t *triggerRow) said() string {
	text := fmt.Sprintf("%s (%s): %s %s by %s, %s", t.Name, t.ID, t.Provider, t.Type, t.Kind, onOff(t.Enabled))
	if string(t.Config) != "{}" && len(t.Config) > 0 {
		text += ", where " + string(t.Config)
	}
	return text
}

type triggerCreate struct {
	remote
	filters
	Automation  string `arg:"" help:"Name or id of the automation."`
	Provider    string `arg:"" help:"Whose events: see trigger providers."`
	Type        string `arg:"" optional:"" help:"Which of them; may be left out where the provider has one type."`
	Name        string `help:"What to call it (default: made of provider and type)."`
	SecretStdin bool   `help:"Read the secret from standard input, where the service makes it."`
	Disabled    bool   `help:"Start nothing yet: to have the URL before the service makes the secret."`
	Kind        string `enum:"webhook,polling," default:"" help:"webhook or polling (default: webhook where the provider has them and --poll is not given)."`
}

// filters are what may change of a trigger.
type filters struct {
	Config      object   `env:"-" placeholder:"JSON" help:"Filters: an object that fits the type's schema; see trigger providers PROVIDER."`
	Integration *string  `placeholder:"REF" help:"Whose events: id, name or provider of an integration, whose credential polls and completes them."`
	Poll        *lasting `placeholder:"D" help:"Look for events by itself, this often: 30s to 24h (5m with --kind polling)."`
}

func (f *filters) into(body map[string]any) {
	if f.Config.raw != nil {
		body["config"] = f.Config.raw
	}
	if f.Integration != nil {
		body["integration_id"] = *f.Integration
	}
	if f.Poll != nil {
		body["interval_seconds"] = int(f.Poll.Seconds())
	}
}

func (c *triggerCreate) Run(ctx context.Context, std *stdio) error {
	body := map[string]any{"automation": c.Automation, "provider": c.Provider}
	for name, value := range map[string]string{"event_type": c.Type, "name": c.Name, "trigger_type": c.Kind} {
		if value != "" {
			body[name] = value
		}
	}
	c.into(body)
	if c.Disabled {
		body["enabled"] = false
	}
	if c.SecretStdin {
		secret, err := readSecret(std, "trigger create AUTOMATION PROVIDER TYPE --secret-stdin")
		if err != nil {
			return err
		}
		body["secret"] = secret
	}
	return alter(ctx, &c.remote, std, http.MethodPost, triggersPath, body, func(w io.Writer, t *triggerRow) {
		said("trigger " + t.said())(w)
		if t.Kind == event.Webhooks {
			said("enter at the service the URL " + t.URL)(w)
			c.local(std, t.URL)
		}
		if t.SecretNeeded {
			said("the service makes the secret; until it is known here, whatever comes is refused. Give it with: " + c.hint("trigger", "rotate", t.ID, "--secret-stdin"))(w)
		}
		sayOnce(w, std, "and the secret "+t.Secret, t.Secret)
	})
}

// local warns of a URL that no service can reach.
func (c *triggerCreate) local(std *stdio, at string) {
	if u, err := url.Parse(at); err == nil && guard.Loopback(u) {
		std.notes = append(std.notes, "only this machine reaches that URL; start the server with --public-url for services elsewhere")
	}
}

// sayOnce shows a secret that was made, in a sentence. Where it was given there
// is none to show.
func sayOnce(w io.Writer, std *stdio, sentence, secret string) {
	if secret == "" {
		return
	}
	said(sentence)(w)
	fmt.Fprintln(std.Err, "the secret is not shown again")
}

type triggerList struct {
	remote
	Automation string `placeholder:"REF" help:"Only of this automation."`
}

func (c *triggerList) Run(ctx context.Context, std *stdio) error {
	return show(ctx, &c.remote, std, triggersPath, queryOf(given{"automation": c.Automation}), func(w io.Writer, all *list[triggerRow]) {
		rows := make([][]string, 0, len(all.Items))
		for _, t := range all.Items {
			rows = append(rows, []string{t.AutomationName, t.Provider, t.Type, string(t.Kind), onOff(t.Enabled), since(t.LastEventAt), t.Name, t.ID})
		}
		table(w, []string{"AUTOMATION", "PROVIDER", "TYPE", "KIND", "STATE", "LAST EVENT", "NAME", "ID"}, rows)
	})
}

// theTrigger names one.
type theTrigger struct {
	remote
	ID string `arg:"" help:"Id of the trigger."`
}

func (t *theTrigger) path() string { return triggersPath + "/" + url.PathEscape(t.ID) }

type triggerShow struct{ theTrigger }

func (c *triggerShow) Run(ctx context.Context, std *stdio) error {
	return show(ctx, &c.remote, std, c.path(), nil, func(w io.Writer, t *triggerRow) {
		said("trigger " + t.said())(w)
		said("starts runs of " + t.AutomationName)(w)
		if t.Integration != "" {
			said("for the integration " + t.Integration)(w)
		}
		if t.PollSeconds > 0 {
			said("looks for events every " + (time.Duration(t.PollSeconds) * time.Second).String())(w)
		}
		if t.URL != "" {
			said("its own URL is " + t.URL)(w)
			if also := t.alias(); also != "" {
				said("also " + also + " while the automation has no other one of " + t.Provider)(w)
			}
		}
		if t.SecretNeeded {
			said("it has no secret, and refuses whatever comes; give it the service's with: " + c.hint("trigger", "rotate", t.ID, "--secret-stdin"))(w)
		}
		if t.SharedURL != "" {
			said("events of all installations may come to " + t.SharedURL)(w)
		}
		if t.Secrets != nil {
			said(number(*t.Secrets, "secret") + " good now")(w)
		}
		if t.LastEventAt != nil {
			said("an event matched " + since(t.LastEventAt))(w)
		}
	})
}

type triggerUpdate struct {
	theTrigger
	filters
	Rename string `placeholder:"NAME" help:"What to call it from now on."`
}

func (c *triggerUpdate) Run(ctx context.Context, std *stdio) error {
	body := map[string]any{}
	c.into(body)
	if c.Rename != "" {
		body["name"] = c.Rename
	}
	if len(body) == 0 {
		return wrongUse("say what to change: --config JSON, --integration REF, --poll D or --rename NAME")
	}
	return c.change(ctx, std, body)
}

// change changes the trigger and says what is so now.
func (t *theTrigger) change(ctx context.Context, std *stdio, body map[string]any) error {
	return alter(ctx, &t.remote, std, http.MethodPatch, t.path(), body, func(w io.Writer, now *triggerRow) {
		said("trigger " + now.said())(w)
	})
}

type triggerEnable struct{ theTrigger }

func (c *triggerEnable) Run(ctx context.Context, std *stdio) error {
	return c.change(ctx, std, map[string]any{"enabled": true})
}

type triggerDisable struct{ theTrigger }

func (c *triggerDisable) Run(ctx context.Context, std *stdio) error {
	return c.change(ctx, std, map[string]any{"enabled": false})
}

type triggerRotate struct {
	theTrigger
	replacement
}

// replacement is how a secret is replaced.
type replacement struct {
	Keep        *lasting `placeholder:"D" help:"How long the secrets before stay good (default: 24h); 0s: not at all."`
	SecretStdin bool     `help:"Read the new secret from standard input instead of making one."`
}

// replace gives the owner of the secrets at path another one; place says whose
// it is.
func (r *replacement) replace(ctx context.Context, at *remote, std *stdio, path, command, place string) error {
	body := map[string]any{}
	if r.Keep != nil {
		body["keep"] = r.Keep.String()
	}
	if r.SecretStdin {
		secret, err := readSecret(std, command+" --secret-stdin")
		if err != nil {
			return err
		}
		body["secret"] = secret
	}
	return alter(ctx, at, std, http.MethodPost, path+"/rotate", body, func(w io.Writer, now *struct {
		Secret string `json:"secret"`
	},
	) {
		said("the secret of " + place + " is replaced; " + r.before())(w)
		sayOnce(w, std, "the new one is "+now.Secret, now.Secret)
	})
}

// before says what becomes of the secrets before.
func (r *replacement) before() string {
	switch {
	case r.Keep == nil:
		return "those before are good for another 24h"
	case r.Keep.Duration == 0:
		return "those before are good no more"
	}
	return "those before are good for another " + short(r.Keep.Duration)
}

func (c *triggerRotate) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	var t triggerRow
	if _, err := server.read(ctx, c.path(), nil, &t); err != nil {
		return err
	}
	return c.replace(ctx, &c.remote, std, c.path(), "trigger rotate ID", t.URL)
}

type triggerRemove struct{ theTrigger }

func (c *triggerRemove) Run(ctx context.Context, std *stdio) error {
	return c.remove(ctx, std, c.path(), "trigger "+c.ID+" is removed")
}

type triggerProviders struct {
	remote
	Provider string `arg:"" optional:"" help:"Only this one, with its types and filters."`
}

// eventProviderRow is a service as the API shows it.
type eventProviderRow struct {
	ID      string `json:"id"`
	Title   string `json:"title"`
	Webhook bool   `json:"webhook"`
	Polling bool   `json:"polling"`
	Secret  string `json:"secret"`
	Types   []struct {
		ID          string          `json:"id"`
		Title       string          `json:"title"`
		Description string          `json:"description"`
		Config      json.RawMessage `json:"config_schema"`
	} `json:"types"`
}

func (p *eventProviderRow) ways() string {
	var ways []string
	if p.Webhook {
		ways = append(ways, "webhook")
	}
	if p.Polling {
		ways = append(ways, "polling")
	}
	return strings.Join(ways, ", ")
}

func (c *triggerProviders) Run(ctx context.Context, std *stdio) error {
	const path = "/api/v1/providers"
	if c.Provider != "" {
		return show(ctx, &c.remote, std, path+"/"+url.PathEscape(c.Provider), nil, showEventProvider)
	}
	return show(ctx, &c.remote, std, path, nil, func(w io.Writer, all *list[eventProviderRow]) {
		rows := make([][]string, 0, len(all.Items))
		for i := range all.Items {
			p := &all.Items[i]
			types := make([]string, len(p.Types))
			for j, t := range p.Types {
				types[j] = t.ID
			}
			rows = append(rows, []string{p.ID, p.Title, p.ways(), strings.Join(types, ", ")})
		}
		table(w, []string{"ID", "SERVICE", "BY", "TYPES"}, rows)
	})
}

func showEventProvider(w io.Writer, p *eventProviderRow) {
	said(fmt.Sprintf("%s (%s), by %s", p.Title, p.ID, p.ways()))(w)
	if p.Secret != "" {
		said(regexp.MustCompile(`\[([^]]*)\]\(([^)]*)\)`).ReplaceAllString(strings.NewReplacer("`", "", "**", "").Replace(p.Secret), "$1 ($2)"))(w)
	}
	for _, t := range p.Types {
		said("")(w)
		said(t.ID + ": " + t.Title + ". " + strings.ReplaceAll(t.Description, "`", ""))(w)
		showFilters(w, t.Config)
	}
}

type triggerPolls struct{ remote }

func (c *triggerPolls) Run(ctx context.Context, std *stdio) error {
	type group struct {
		event.PollGroup
		Title       string `json:"provider_title"`
		Integration string `json:"integration_name"`
	}
	return show(ctx, &c.remote, std, "/api/v1/poll-groups", nil, func(w io.Writer, all *list[group]) {
		rows := make([][]string, 0, len(all.Items))
		for i := range all.Items {
			g := &all.Items[i]
			every := (time.Duration(g.PollSeconds) * time.Second).String()
			rows = append(rows, []string{g.Title, g.Integration, every, since(g.LastAt), since(&g.NextAt), strconv.Itoa(g.Failures), brief(cmp.Or(g.LastError, g.Lost))})
		}
		table(w, []string{"SERVICE", "INTEGRATION", "EVERY", "LAST", "NEXT", "FAILURES", "ERROR"}, rows)
	})
}

// object is a flag that is a JSON object.
type object struct{ raw json.RawMessage }

// UnmarshalText reads a flag.
func (o *object) UnmarshalText(text []byte) error {
	var any map[string]json.RawMessage
	if err := json.Unmarshal(text, &any); err != nil || any == nil {
		return fmt.Errorf(`%q is no JSON object; write one, such as '{"actions": ["opened"]}'`, text)
	}
	o.raw = append(json.RawMessage(nil), text...)
	return nil
}
