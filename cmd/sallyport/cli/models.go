package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
	"sallyport/internal/agent"
)

type modelsCommand struct {
	Known    modelsList                                                         `cmd:"" default:"withargs" help:"List known models by their gateway, OpenCode and provider names; needs no server."`
	Show     request[api.None, api.ModelsView]                                  `cmd:"" help:"Show providers, aliases, prices and limits."`
	Default  request[api.Body[api.ModelsChange], action.ModelSettings]          `cmd:"" help:"Set the default models."`
	Provider modelProviderCommand                                               `cmd:"" help:"Set and remove providers."`
	Alias    modelAliasCommand                                                  `cmd:"" help:"Set and remove names that stand for models."`
	Price    modelPriceCommand                                                  `cmd:"" help:"Set and remove prices."`
	Limit    modelLimitCommand                                                  `cmd:"" help:"Set and remove allowed models, budgets and rates."`
	Requests request[api.ListModelRequestsInput, api.List[action.ModelRequest]] `cmd:"" help:"List requests to models, newest first."`
}

type modelProviderCommand struct {
	Set    request[api.ByNameWith[api.NewModelProvider], action.ModelSettings] `cmd:"" help:"Set a provider; its API key is a stored secret."`
	Remove request[api.ByName, api.None]                                       `cmd:"" help:"Remove a provider."`
}

type modelAliasCommand struct {
	Set    request[api.ByNameWith[api.NewModelAlias], action.ModelSettings] `cmd:"" help:"Send requests for a model to another one."`
	Remove request[api.ByName, api.None]                                    `cmd:"" help:"Remove an alias."`
}

type modelPriceCommand struct {
	Set    request[api.Body[api.NewModelPrice], action.ModelSettings] `cmd:"" help:"Set the price of the models that a pattern matches."`
	Remove request[api.ByModel, api.None]                             `cmd:"" help:"Remove a price; the built-in one applies again."`
}

type modelLimitCommand struct {
	Set    request[api.Body[api.NewModelLimit], action.ModelSettings] `cmd:"" help:"Set allowed models, a budget or a rate for sessions."`
	Remove request[api.ByModelLimit, api.None]                        `cmd:"" help:"Remove a limit."`
}

// addModels adds the commands of models that call one operation.
func (c *Commands) addModels() {
	c.Models.Show = shows(api.GetModels, showModels)
	c.Models.Default = says(api.UpdateModels, "default models are set")
	c.Models.Provider.Set = says(api.PutModelProvider, "sessions reach provider {name} at /llm/{name}/")
	c.Models.Provider.Remove = says(api.DeleteModelProvider, "provider {name} is removed")
	c.Models.Alias.Set = says(api.PutModelAlias, "alias {name} is set")
	c.Models.Alias.Remove = says(api.DeleteModelAlias, "alias {name} is removed")
	c.Models.Price.Set = says(api.PutModelPrice, "price is set")
	c.Models.Price.Remove = says(api.DeleteModelPrice, "price of {model} is removed")
	c.Models.Limit.Set = says(api.PutModelLimit, "limit is set")
	c.Models.Limit.Remove = says(api.DeleteModelLimit, "limit of {scope} per {per} is removed")
	c.Models.Requests = shows(api.ListModelRequests, table("WHEN SESSION MODEL STATUS TOKENS COST CODE", modelRequestRow))
	c.Usage = shows(api.GetModelUsage, table("KEY REQUESTS REFUSED INPUT CACHED OUTPUT COST", modelUsageRow))
}

// usd formats millionths of a dollar.
func usd(micros int64) string { return fmt.Sprintf("$%.4f", float64(micros)/1e6) }

func modelRequestRow(r *action.ModelRequest) []string {
	cost := usd(r.Cost)
	if !r.Priced && r.Sum() > 0 {
		cost = "unknown"
	}
	status := "running"
	if r.EndedAt != nil {
		status = strconv.Itoa(r.Status)
	}
	tokens := strconv.FormatInt(r.Sum(), 10)
	if r.Estimated {
		tokens = "about " + tokens
	}
	return []string{relativeTime(&r.CreatedAt), r.Session, r.Provider + "/" + r.Model, status, tokens, cost, r.Code}
}

func modelUsageRow(u *action.ModelUsage) []string {
	cost := usd(u.Cost)
	if u.Unpriced > 0 {
		cost += fmt.Sprintf(" and %s without a price", command.Plural(u.Unpriced, "request"))
	}
	n := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{u.Key, n(u.Requests), n(u.Refused), n(u.Input + u.CacheWrite), n(u.Cached), n(u.Output), cost}
}

func showModels(w io.Writer, m *api.ModelsView) {
	line := func(format string, args ...any) { printLine(w, fmt.Sprintf(format, args...)) }
	for _, p := range m.Providers {
		line("provider %s: %s at %s, key in secret %s", p.Name, p.Dialect, p.URL, p.Secret)
	}
	if len(m.Providers) == 0 {
		line("no providers; store an API key (sallyport secret set anthropic --host api.anthropic.com), then: sallyport models provider set anthropic")
	}
	if m.Default != "" {
		line("default model: %s", m.Default)
	}
	if m.Small != "" {
		line("small model: %s", m.Small)
	}
	for _, alias := range slices.Sorted(maps.Keys(m.Aliases)) {
		line("alias %s: %s", alias, m.Aliases[alias])
	}
	for _, p := range m.Prices {
		line("price of %s: $%g input, $%g cached, $%g cache write, $%g output per million tokens", p.Model, p.Input, p.Cached, p.CacheWrite, p.Output)
	}
	for _, l := range m.Limits {
		line("limit of %s: %s", l.Scope, strings.Join(limitParts(&l), ", "))
	}
	if len(m.Limits) == 0 {
		line("no limits: sessions may use every model of the providers")
	}
}

// limitParts describes what a limit allows.
func limitParts(l *action.ModelLimit) (parts []string) {
	if len(l.Models) > 0 {
		parts = append(parts, "allows "+strings.Join(l.Models, " "))
	}
	if l.Tokens > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens per %s", l.Tokens, l.Per))
	}
	if l.USD > 0 {
		parts = append(parts, fmt.Sprintf("$%g per %s", l.USD, l.Per))
	}
	if l.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%d requests a minute", l.Rate))
	}
	return parts
}

type modelsList struct {
	JSON bool `help:"Print JSON."`
}

// Run needs no server: the table is part of the program.
func (c *modelsList) Run(_ context.Context, std *command.Streams) error {
	models := agent.Models()
	if c.JSON {
		raw, err := json.Marshal(map[string]any{"items": models, "total": len(models), "next_cursor": ""})
		if err != nil {
			return err
		}
		return std.PrintJSON(raw)
	}
	printTable(std.Out, "MODEL OPENCODE API PROVIDER", models, func(m *agent.Model) []string {
		return []string{m.ID, m.OpenCode, m.API, m.Provider}
	})
	return nil
}
