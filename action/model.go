package action

import (
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// ModelDialect is the API that a provider of models speaks.
type ModelDialect string

// The dialects. Most providers besides these three speak OpenAI's.
const (
	DialectAnthropic ModelDialect = "anthropic"
	DialectOpenAI    ModelDialect = "openai"
	DialectGoogle    ModelDialect = "google"
)

// URL returns the base URL of the dialect's own provider, to which the gateway appends
// a path such as /v1/messages. Empty: the dialect is unknown.
func (d ModelDialect) URL() string {
	switch d {
	case DialectAnthropic:
		return "https://api.anthropic.com"
	case DialectOpenAI:
		return "https://api.openai.com"
	case DialectGoogle:
		return "https://generativelanguage.googleapis.com"
	}
	return ""
}

// ModelSettings are an organization's settings of models: the providers, which of their
// models sessions may use, and how much of them.
type ModelSettings struct {
	Default   string            `json:"default,omitempty" doc:"Model of sessions that name none, as provider/model."`
	Small     string            `json:"small,omitempty" doc:"Model for titles and summaries, as provider/model."`
	Providers []ModelProvider   `json:"providers" nullable:"false"`
	Aliases   map[string]string `json:"aliases,omitempty" doc:"Models by the names that stand for them in requests."`
	Prices    []ModelPrice      `json:"prices" nullable:"false" doc:"Prices that differ from the built-in ones."`
	Limits    []ModelLimit      `json:"limits" nullable:"false"`
}

// ModelProvider is an API of models. Sessions reach it under /llm/{name}/; the gateway
// adds the key.
type ModelProvider struct {
	Name    string       `json:"name"`
	Dialect ModelDialect `json:"dialect" enum:"anthropic,openai,google"`
	URL     string       `json:"url" doc:"Base URL, to which a path such as /v1/messages is appended."`
	Secret  string       `json:"secret" doc:"Name of the stored secret with the API key."`
}

// ModelPrice is the price of the models that a pattern matches, in US dollars per
// million tokens.
type ModelPrice struct {
	Model      string  `json:"model" doc:"Pattern for provider/model; * stands for any text."`
	Input      float64 `json:"input" minimum:"0"`
	Cached     float64 `json:"cached" minimum:"0" doc:"Input that was read from the provider's cache."`
	CacheWrite float64 `json:"cache_write" minimum:"0" doc:"Input that was written to the provider's cache."`
	Output     float64 `json:"output" minimum:"0"`
}

// Cost returns the cost in millionths of a US dollar, rounded up.
func (p *ModelPrice) Cost(u ModelTokens) int64 {
	return int64(math.Ceil(float64(u.Input)*p.Input + float64(u.Cached)*p.Cached + float64(u.CacheWrite)*p.CacheWrite + float64(u.Output)*p.Output))
}

// ModelPeriod is the time for which a budget is counted.
type ModelPeriod string

// The periods. Days and months are those of UTC.
const (
	EachSession ModelPeriod = "session" // each session has a budget of its own
	EachDay     ModelPeriod = "day"
	EachMonth   ModelPeriod = "month"
)

// Since returns when the period of a time began; the zero time for a session.
func (p ModelPeriod) Since(now time.Time) time.Time {
	y, m, d := now.UTC().Date()
	switch p {
	case EachDay:
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	case EachMonth:
		return time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
	case EachSession:
	}
	return time.Time{}
}

// ModelLimit limits the use of models by the sessions of a scope. Every limit that
// applies to a session must be kept.
type ModelLimit struct {
	Scope  string      `json:"scope" doc:"organization, group:NAME or automation:ID."`
	Per    ModelPeriod `json:"per" enum:"session,day,month" doc:"What the budget is counted by: each session by itself, or all sessions of the scope within a day or month (UTC)."`
	Models []string    `json:"models,omitempty" doc:"Patterns of allowed models as provider/model; * stands for any text. Missing: all."`
	Tokens int64       `json:"tokens,omitempty" minimum:"0" doc:"Budget of tokens, input and output; 0: none."`
	USD    float64     `json:"usd,omitempty" minimum:"0" doc:"Budget in US dollars; 0: none."`
	Rate   int         `json:"rate,omitempty" minimum:"0" doc:"Requests per minute; 0: no limit."`
}

// Group returns the group of the scope, if it is one.
func (l *ModelLimit) Group() (string, bool) { return strings.CutPrefix(l.Scope, "group:") }

// Automation returns the automation of the scope, if it is one.
func (l *ModelLimit) Automation() (string, bool) { return strings.CutPrefix(l.Scope, "automation:") }

// Applies reports whether the limit is for a session.
func (l *ModelLimit) Applies(s *Session) bool {
	if group, ok := l.Group(); ok {
		return s.Group == group
	}
	if automation, ok := l.Automation(); ok {
		return s.Automation == automation
	}
	return true
}

// Allows reports whether the limit allows a model, given as provider/model.
func (l *ModelLimit) Allows(model string) bool {
	return len(l.Models) == 0 || slices.ContainsFunc(l.Models, func(p string) bool { return MatchModel(p, model) })
}

// MatchModel reports whether a pattern, in which * stands for any text, matches a model.
// Upper and lower case are the same: providers do not tell them apart.
func MatchModel(pattern, model string) bool {
	parts := strings.Split(strings.ToLower(pattern), "*")
	rest, ok := strings.CutPrefix(strings.ToLower(model), parts[0])
	if !ok || len(parts) == 1 {
		return ok && rest == ""
	}
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}

// Provider returns the provider with the name; nil if there is none.
func (m *ModelSettings) Provider(name string) *ModelProvider {
	for i := range m.Providers {
		if m.Providers[i].Name == name {
			return &m.Providers[i]
		}
	}
	return nil
}

// Uses names the first setting that uses a provider; empty if none does.
func (m *ModelSettings) Uses(provider string) string {
	for model, what := range map[string]string{m.Default: "default model", m.Small: "small model"} {
		if strings.HasPrefix(model, provider+"/") {
			return what
		}
	}
	for alias, model := range m.Aliases {
		if strings.HasPrefix(model, provider+"/") {
			return "alias " + alias
		}
	}
	return ""
}

// Price returns the price of a model, given as provider/model: the first of the
// settings that matches, or else the built-in one. It is false for an unknown price.
func (m *ModelSettings) Price(model string) (ModelPrice, bool) {
	for _, list := range [][]ModelPrice{m.Prices, builtinPrices()} {
		for _, p := range list {
			if MatchModel(p.Model, model) {
				return p, true
			}
		}
	}
	return ModelPrice{}, false
}

// Check validates the settings.
func (m *ModelSettings) Check() error {
	if len(m.Providers) > 50 || len(m.Aliases) > 200 || len(m.Prices) > 500 || len(m.Limits) > 500 {
		return invalid("", "Too many entries: at most 50 providers, 200 aliases, 500 prices and 500 limits.")
	}
	for i := range m.Providers {
		if err := m.Providers[i].check(); err != nil {
			return err
		}
	}
	for name, model := range map[string]string{"/default": m.Default, "/small": m.Small} {
		if model != "" {
			if err := m.checkModel(name, model); err != nil {
				return err
			}
		}
	}
	for name, model := range m.Aliases {
		if name == "" || len(name) > 200 || strings.ContainsAny(name, "*\x00") {
			return invalid("/name", "An alias has 1 to 200 characters, and no asterisk.")
		}
		if err := m.checkModel("/model", model); err != nil {
			return err
		}
	}
	for i := range m.Prices {
		if err := m.Prices[i].check(); err != nil {
			return err
		}
	}
	for i := range m.Limits {
		if err := m.Limits[i].check(); err != nil {
			return err
		}
	}
	return nil
}

// checkModel checks that a model is named with its provider.
func (m *ModelSettings) checkModel(field, model string) error {
	name, id, ok := strings.Cut(model, "/")
	switch {
	case !ok || id == "" || len(model) > 200:
		return invalid(field, fmt.Sprintf("Name the model as provider/model, such as anthropic/claude-sonnet-4-5; %.100q is not of that form.", model))
	case m.Provider(name) == nil:
		return NewError("model_provider_not_found", name).WithField(field)
	}
	return nil
}

var providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)

func (p *ModelProvider) check() error {
	if !providerName.MatchString(p.Name) {
		return invalid("/name", "The name of a provider has 1 to 40 lower-case letters, digits and hyphens.")
	}
	if p.Dialect.URL() == "" {
		return invalid("/dialect", "A dialect is anthropic, openai or google.")
	}
	u, err := url.Parse(p.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || len(p.URL) > 500 {
		return invalid("/url", "Give the base URL of the provider without a query, such as https://api.openai.com.")
	}
	if p.Secret == "" {
		return invalid("/secret", "Name the stored secret with the API key.")
	}
	return nil
}

func (p *ModelPrice) check() error {
	if err := checkModelPattern(p.Model); err != nil {
		return err
	}
	for _, usd := range []float64{p.Input, p.Cached, p.CacheWrite, p.Output} {
		if !(usd >= 0 && usd <= 1e6) {
			return invalid("/input", "A price is 0 to 1,000,000 US dollars per million tokens.")
		}
	}
	return nil
}

func (l *ModelLimit) check() error {
	kind, name, named := strings.Cut(l.Scope, ":")
	switch {
	case l.Scope != "organization" && (kind != "group" && kind != "automation" || !named || name == "" || len(name) > 200):
		return invalid("/scope", "The scope of a limit is organization, group:NAME or automation:ID.")
	case l.Per != EachSession && l.Per != EachDay && l.Per != EachMonth:
		return invalid("/per", "A budget is counted per session, day or month.")
	case l.Tokens < 0 || !(l.USD >= 0 && l.USD <= 1e9) || l.Rate < 0 || l.Rate > 1e6:
		return invalid("/tokens", "Budgets and rates are not negative; 0 means none.")
	case l.Tokens == 0 && l.USD == 0 && l.Rate == 0 && len(l.Models) == 0:
		return invalid("/models", "A limit needs allowed models, a budget or a rate.")
	case len(l.Models) > 100:
		return invalid("/models", "A limit has at most 100 patterns of models.")
	}
	for _, p := range l.Models {
		if err := checkModelPattern(p); err != nil {
			return err
		}
	}
	return nil
}

func checkModelPattern(p string) error {
	if p == "" || len(p) > 200 || !strings.ContainsAny(p, "/*") {
		return invalid("/models", "A pattern of models has 1 to 200 characters and names the provider, such as anthropic/claude-*; * stands for any text.")
	}
	return nil
}

// ModelTokens are the tokens of one or more requests.
type ModelTokens struct {
	Input      int64 `json:"input_tokens" bun:"input_tokens" doc:"Without those of the cache."`
	Cached     int64 `json:"cached_tokens" bun:"cached_tokens" doc:"Input that was read from the provider's cache."`
	CacheWrite int64 `json:"cache_write_tokens" bun:"cache_write_tokens" doc:"Input that was written to the provider's cache."`
	Output     int64 `json:"output_tokens" bun:"output_tokens"`
}

// Sum returns the number of all tokens.
func (t ModelTokens) Sum() int64 { return t.Input + t.Cached + t.CacheWrite + t.Output }

// ModelRequest is one request to a model, without its prompt and answer.
type ModelRequest struct {
	ID           string     `json:"id" bun:"id,pk"`
	Organization string     `json:"-" bun:"organization_id,pk"`
	Session      string     `json:"session_id" bun:"session_id"`
	Automation   string     `json:"automation_id,omitempty" bun:"automation_id,nullzero"`
	Group        string     `json:"group,omitempty" bun:"group_id,nullzero"`
	Provider     string     `json:"provider"`
	Model        string     `json:"model" doc:"Model that was used."`
	Requested    string     `json:"requested,omitempty" bun:",nullzero" doc:"Name in the request, if an alias stood for the model."`
	CreatedAt    time.Time  `json:"created_at"`
	EndedAt      *time.Time `json:"ended_at,omitempty" doc:"Missing while the request runs."`
	Status       int        `json:"status" doc:"HTTP status of the response; 0: none."`
	Code         string     `json:"code,omitempty" bun:",nullzero" doc:"Why it failed or was refused."`
	ModelTokens
	Estimated bool  `json:"estimated" bun:"-" doc:"The provider did not report all tokens, so the gateway estimated them."`
	Cost      int64 `json:"cost_micros" bun:"cost_micros" doc:"Millionths of a US dollar; 0 if the price is unknown."`
	Priced    bool  `json:"priced" bun:"-" doc:"The price of the model is known."`
}

// Refused reports whether the gateway refused the request: nothing was sent.
func (r *ModelRequest) Refused() bool {
	return r.Code != "" && r.Code != "model_interrupted" && r.Code != "model_unreachable" && r.Code != "model_key_refused" && r.Code != "model_redirect"
}

// ModelUsage is the use of models within a group of requests.
type ModelUsage struct {
	Key      string `json:"key" doc:"Session, automation, model, provider, group or day that the row is about."`
	Requests int64  `json:"requests"`
	Refused  int64  `json:"refused" doc:"Requests that the gateway refused; they are not in requests."`
	ModelTokens
	Cost     int64 `json:"cost_micros" bun:"cost_micros" doc:"Millionths of a US dollar."`
	Unpriced int64 `json:"unpriced" doc:"Requests whose price is unknown."`
}

// ModelUsageFilter selects usage. Empty fields match all.
type ModelUsageFilter struct {
	Organization string
	By           string // "session", "automation", "group", "provider", "model" or "day"
	Session      string
	Automation   string
	Since, Until time.Time // days, both included
}

// ModelRequestFilter selects requests. Empty fields match all.
type ModelRequestFilter struct {
	Organization, Session string
	Cursor                string
	Limit                 int
}

// builtinPrices are list prices of known models, as published by their providers.
// Settings come before them. More specific patterns come first.
func builtinPrices() []ModelPrice {
	return []ModelPrice{
		{"anthropic/claude-opus-4-1*", 15, 1.5, 18.75, 75},
		{"anthropic/claude-opus-4-2*", 15, 1.5, 18.75, 75},
		{"anthropic/claude-opus-4*", 5, .5, 6.25, 25},
		{"anthropic/claude-sonnet-4*", 3, .3, 3.75, 15},
		{"anthropic/claude-haiku-4*", 1, .1, 1.25, 5},
		{"openai/gpt-5-mini*", .25, .025, .25, 2},
		{"openai/gpt-5-nano*", .05, .005, .05, .4},
		{"openai/gpt-5*-codex-mini*", .25, .025, .25, 2},
		{"openai/gpt-5-pro*", 15, 15, 15, 120},
		{"openai/gpt-5", 1.25, .125, 1.25, 10},
		{"openai/gpt-5-codex*", 1.25, .125, 1.25, 10},
		{"openai/gpt-5.1*", 1.25, .125, 1.25, 10},
		{"google/gemini-2.5-pro*", 1.25, .125, 1.25, 10},
		{"google/gemini-2.5-flash-lite*", .1, .01, .1, .4},
		{"google/gemini-2.5-flash*", .3, .03, .3, 2.5},
	}
}

// KnownModels returns models with a built-in price, as hints: any other model of a
// provider can be used, too.
func KnownModels() []string {
	return []string{
		"anthropic/claude-opus-4-6", "anthropic/claude-opus-4-5", "anthropic/claude-sonnet-4-5", "anthropic/claude-haiku-4-5",
		"openai/gpt-5.1", "openai/gpt-5.1-codex", "openai/gpt-5", "openai/gpt-5-mini", "openai/gpt-5-nano",
		"google/gemini-2.5-pro", "google/gemini-2.5-flash",
	}
}
