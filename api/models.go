package api

import "sallyport/action"

// Routes.
var (
	GetModels = Route[None, ModelsView]{Operation{
		Method: "GET", Path: "/api/v1/models", Who: Member, Tag: "models",
		Summary: "Get the settings of models",
		Doc:     "Providers, aliases, prices and limits, and known models as hints: a session can use any model of a provider that its limits allow.",
	}}
	UpdateModels = Route[Body[ModelsChange], action.ModelSettings]{Operation{
		Method: "PUT", Path: "/api/v1/models", Who: Decider, Tag: "models", Status: 200,
		Summary: "Set the default models",
		Doc:     "Missing fields stay unchanged. `client config` writes these models.",
	}}
	PutModelProvider = Route[ByNameWith[NewModelProvider], action.ModelSettings]{Operation{
		Method: "PUT", Path: "/api/v1/models/providers/{name}", Who: Decider, Tag: "models", Status: 200,
		Summary: "Set a provider of models",
		Doc:     "Sessions reach it at /llm/{name}/ with their token; the gateway adds the key. The secret is sent only to the host it was set for.",
	}}
	DeleteModelProvider = Route[ByName, None]{Operation{
		Method: "DELETE", Path: "/api/v1/models/providers/{name}", Who: Decider, Tag: "models", Errors: []int{409},
		Summary: "Remove a provider of models",
	}}
	PutModelAlias = Route[ByNameWith[NewModelAlias], action.ModelSettings]{Operation{
		Method: "PUT", Path: "/api/v1/models/aliases/{name}", Who: Decider, Tag: "models", Status: 200,
		Summary: "Set an alias of a model",
		Doc:     "A request for the model NAME goes to the alias's model instead, also at another provider of the same dialect.",
	}}
	DeleteModelAlias = Route[ByName, None]{Operation{
		Method: "DELETE", Path: "/api/v1/models/aliases/{name}", Who: Decider, Tag: "models",
		Summary: "Remove an alias of a model",
	}}
	PutModelPrice = Route[Body[NewModelPrice], action.ModelSettings]{Operation{
		Method: "PUT", Path: "/api/v1/models/prices", Who: Decider, Tag: "models", Status: 200,
		Summary: "Set the price of models",
	}}
	DeleteModelPrice = Route[ByModel, None]{Operation{
		Method: "DELETE", Path: "/api/v1/models/prices", Who: Decider, Tag: "models",
		Summary: "Remove a price of models",
		Doc:     "The built-in price of a known model applies again.",
	}}
	PutModelLimit = Route[Body[NewModelLimit], action.ModelSettings]{Operation{
		Method: "PUT", Path: "/api/v1/models/limits", Who: Decider, Tag: "models", Status: 200,
		Summary: "Set a limit of models",
		Doc:     "Replaces the limit of the scope and period. Every limit that applies to a session must be kept.",
	}}
	DeleteModelLimit = Route[ByModelLimit, None]{Operation{
		Method: "DELETE", Path: "/api/v1/models/limits", Who: Decider, Tag: "models",
		Summary: "Remove a limit of models",
	}}
	GetModelUsage = Route[ModelUsageInput, List[action.ModelUsage]]{Operation{
		Method: "GET", Path: "/api/v1/models/usage", Who: Member, Tag: "models",
		Summary: "Show the use of models",
		Doc:     "Tokens and cost, summed by session, automation, group, provider, model or day (UTC). At most 500 rows, the most expensive or the newest first.",
	}}
	ListModelRequests = Route[ListModelRequestsInput, List[action.ModelRequest]]{Operation{
		Method: "GET", Path: "/api/v1/models/requests", Who: Member, Tag: "models",
		Summary: "List requests to models, newest first",
		Doc:     "Without prompts and answers, which the gateway does not keep.",
	}}
)

// ModelsView is the settings of models, with hints.
type ModelsView struct {
	action.ModelSettings
	Known []string `json:"known" nullable:"false" doc:"Models with a built-in price."`
}

// ByName names an item.
type ByName struct {
	Name string `path:"name" minLength:"1" maxLength:"200" doc:"Name." kong:"arg,name='name',help='Name.'"`
}

// ByNameWith is [ByName] with a body.
type ByNameWith[B any] struct {
	ByName
	Body B `kong:"embed"`
}

// ModelsChange changes the default models.
type ModelsChange struct {
	Default *string `json:"default,omitempty" maxLength:"200" nullable:"false" doc:"Model of sessions that name none, as provider/model; empty: none." example:"anthropic/claude-sonnet-4-5" kong:"placeholder='MODEL',help='Model of sessions that name none, as provider/model; empty for none.'"`
	Small   *string `json:"small,omitempty" maxLength:"200" nullable:"false" doc:"Model for titles and summaries, as provider/model; empty: none." example:"anthropic/claude-haiku-4-5" kong:"placeholder='MODEL',help='Model for titles and summaries, as provider/model; empty for none.'"`
}

// NewModelProvider is a provider of models.
type NewModelProvider struct {
	Dialect action.ModelDialect `json:"dialect,omitempty" enum:"anthropic,openai,google" doc:"API that it speaks. Default: the provider's name if it is one of these, else openai." kong:"enum='anthropic,openai,google,',default='',placeholder='DIALECT',help='API that it speaks: anthropic, openai or google (default: the name if it is one of these, else openai).'"`
	URL     string              `json:"url,omitempty" maxLength:"500" doc:"Base URL, to which a path such as /v1/messages is appended. Default: that of the dialect's own provider." example:"https://api.anthropic.com" kong:"name='base-url',placeholder='URL',help='Base URL of another provider, to which a path such as /v1/chat/completions is appended.'"`
	Secret  string              `json:"secret,omitempty" maxLength:"200" doc:"Name of the stored secret with the API key. Default: the provider's name." kong:"placeholder='NAME',help='Name of the stored secret with the API key (default: the name of the provider).'"`
}

// NewModelAlias is what an alias stands for.
type NewModelAlias struct {
	Model string `json:"model" minLength:"1" maxLength:"200" doc:"Model, as provider/model." example:"anthropic/claude-haiku-4-5" kong:"arg,name='model',help='Model, as provider/model.'"`
}

// NewModelPrice is a price in US dollars per million tokens.
type NewModelPrice struct {
	Model      string   `json:"model" minLength:"1" maxLength:"200" doc:"Pattern for provider/model; * stands for any text." example:"together/llama-*" kong:"arg,name='model',help='Pattern for provider/model; * stands for any text.'"`
	Input      float64  `json:"input" minimum:"0" doc:"Dollars per million tokens of input." example:"3" kong:"required,placeholder='USD',help='Dollars per million tokens of input.'"`
	Output     float64  `json:"output" minimum:"0" doc:"Dollars per million tokens of output." example:"15" kong:"required,placeholder='USD',help='Dollars per million tokens of output.'"`
	Cached     *float64 `json:"cached,omitempty" minimum:"0" nullable:"false" doc:"Of input that was read from the cache. Default: that of input." kong:"placeholder='USD',help='Of input that was read from the cache (default: that of input).'"`
	CacheWrite *float64 `json:"cache_write,omitempty" minimum:"0" nullable:"false" doc:"Of input that was written to the cache. Default: that of input." kong:"placeholder='USD',help='Of input that was written to the cache (default: that of input).'"`
}

// ByModel names a price.
type ByModel struct {
	Model string `query:"model" required:"true" doc:"Pattern of the price." kong:"arg,name='model',help='Pattern of the price.'"`
}

// NewModelLimit limits the use of models.
type NewModelLimit struct {
	Scope  string             `json:"scope" minLength:"1" maxLength:"220" doc:"organization, group:NAME or automation:ID." example:"group:developer" kong:"arg,name='scope',help='organization, group:NAME or automation:ID.'"`
	Per    action.ModelPeriod `json:"per,omitempty" enum:"session,day,month" doc:"What a budget is counted by. Default: session." kong:"enum='session,day,month',default='session',help='Count a budget per session, day or month (default: session).'"`
	Models []string           `json:"models,omitempty" maxItems:"100" doc:"Patterns of allowed models as provider/model; * stands for any text. Missing: all." example:"[\"anthropic/claude-*\"]" kong:"name='allow',placeholder='MODEL',help='Pattern of allowed models as provider/model, in which * stands for any text; repeat it for more.'"`
	Tokens int64              `json:"tokens,omitempty" minimum:"0" doc:"Budget of tokens, input and output." kong:"placeholder='N',help='Budget of tokens, input and output.'"`
	USD    float64            `json:"usd,omitempty" minimum:"0" doc:"Budget in US dollars." kong:"placeholder='USD',help='Budget in US dollars.'"`
	Rate   int                `json:"rate,omitempty" minimum:"0" maximum:"1000000" doc:"Requests per minute." kong:"placeholder='N',help='Requests per minute.'"`
}

// ByModelLimit names a limit.
type ByModelLimit struct {
	Scope string             `query:"scope" required:"true" doc:"organization, group:NAME or automation:ID." kong:"arg,name='scope',help='organization, group:NAME or automation:ID.'"`
	Per   action.ModelPeriod `query:"per" enum:"session,day,month" default:"session" doc:"Period of the limit." kong:"enum='session,day,month',default='session',help='Period of the limit (default: session).'"`
}

// ModelUsageInput selects usage.
type ModelUsageInput struct {
	By         string `query:"by" enum:"session,automation,group,provider,model,day" default:"model" doc:"What the rows are about." kong:"enum='session,automation,group,provider,model,day',default='model',help='Sum by session, automation, group, provider, model or day (default: model).'"`
	Session    string `query:"session" doc:"Only of this session." kong:"placeholder='ID',help='Only of this session.'"`
	Automation string `query:"automation" doc:"Only of this automation, by ID or name." kong:"placeholder='NAME',help='Only of this automation.'"`
	Since      string `query:"since" doc:"First day (UTC), as YYYY-MM-DD." example:"2026-11-01" kong:"placeholder='DAY',help='First day (UTC), as YYYY-MM-DD.'"`
	Until      string `query:"until" doc:"Last day (UTC), as YYYY-MM-DD." example:"2026-11-30" kong:"placeholder='DAY',help='Last day (UTC), as YYYY-MM-DD.'"`
}

// ListModelRequestsInput selects requests to models.
type ListModelRequestsInput struct {
	Session string `query:"session" doc:"Only of this session." kong:"placeholder='ID',help='Only of this session.'"`
	Paging
}
