package action

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Capability is the ceiling of a group's sessions at one provider. A group
// without one has level none there.
type Capability struct {
	Organization string `json:"organization_id" bun:"organization_id,pk"`
	Group        string `json:"group" bun:"group_id,pk"`
	Provider     string `json:"provider" bun:"provider,pk"` // a source id
	Level        Level  `json:"level"`
	// AllowedActions limits the actions; nil: all actions of the level. An
	// empty list allows none.
	AllowedActions []string `json:"allowed_actions" bun:",nullzero"`
	// DeniedActions are always denied.
	DeniedActions []string `json:"denied_actions,omitempty" bun:",nullzero"`
	// Gate must be approved for the session's task before an action of level
	// production runs. Required with that level.
	Gate      string     `json:"required_gate,omitempty" bun:"required_gate,nullzero"`
	Rate      *Rate      `json:"rate,omitempty" bun:"embed:rate_"` // for the whole group at the provider; nil: no limit
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	GrantedBy string     `json:"granted_by"`
	GrantedAt time.Time  `json:"granted_at"`
}

// GroupTemplate proposes the capabilities of a new group.
type GroupTemplate struct {
	Name  string `json:"name" example:"contributor"`
	About string `json:"about" doc:"What sessions of the group can do." example:"Reads and writes, but cannot merge pull requests or delete."`
	Level Level  `json:"level" enum:"0,1,2,3" doc:"Level at every source, except those in read_only."`
	Gate  string `json:"required_gate,omitempty" doc:"Default gate of level 3."`
	// ReadOnly are the modules where level read is enough.
	ReadOnly []string `json:"read_only,omitempty" doc:"Sources with level 1."`
	// Denied are actions that are denied in any case, by module.
	Denied map[string][]string `json:"denied_actions,omitempty" doc:"Denied actions by source."`
}

// GroupTemplates returns the templates of groups, from the least to the most access.
func GroupTemplates() []GroupTemplate {
	logs := []string{"cloudlogs"}
	return []GroupTemplate{
		{Name: "researcher", About: "Reads everything and changes nothing.", Level: LevelRead},
		{
			Name: "contributor", About: "Reads and writes, but cannot merge pull requests or delete.", Level: LevelWrite,
			ReadOnly: logs, Denied: map[string][]string{"github": {"merge_pr"}},
		},
		{
			Name: "operator", About: "Everything, with destructive actions behind a gate that a person approves for each task.", Level: LevelProduction,
			ReadOnly: logs, Gate: "production",
		},
	}
}

// Capability returns what the template proposes for a group at a source. The gate
// replaces that of the template, unless it is empty.
func (t *GroupTemplate) Capability(source, gate string) Capability {
	c := Capability{Provider: source, Level: t.Level, DeniedActions: t.Denied[source]}
	if slices.Contains(t.ReadOnly, source) {
		c.Level = LevelRead
	}
	if c.Level == LevelProduction {
		c.Gate = cmp.Or(gate, t.Gate)
	}
	return c
}

// GateApproval records that a person approved a gate for a group's task.
// Every approval expires.
type GateApproval struct {
	ID           string `json:"id" bun:"id,pk"`
	Organization string `json:"organization_id" bun:"organization_id,pk"`
	Group        string `json:"group" bun:"group_id"`
	Task         string `json:"task" bun:"task_id"`
	Gate         string `json:"gate"`
	// Actions are the covered policy keys, source:action or source:*; nil:
	// every action behind the gate.
	Actions    []string   `json:"actions" bun:",nullzero"`
	ApprovedBy string     `json:"approved_by"`
	ApprovedAt time.Time  `json:"approved_at"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"` // nil before it is stored: 30 days
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
}

// Rate is a number of calls in a sliding window.
type Rate struct {
	Calls   int `json:"calls"`   // at least 1
	Seconds int `json:"seconds"` // the window; 1 to 86,400
}

// Window returns the rate's window.
func (r Rate) Window() time.Duration { return time.Duration(r.Seconds) * time.Second }

// Span describes the window for people: "an hour", "90 seconds".
func (r Rate) Span() string {
	for _, unit := range []struct {
		size      int
		one, many string
	}{{86400, "a day", "days"}, {3600, "an hour", "hours"}, {60, "a minute", "minutes"}} {
		switch {
		case r.Seconds == unit.size:
			return unit.one
		case r.Seconds%unit.size == 0:
			return strconv.Itoa(r.Seconds/unit.size) + " " + unit.many
		}
	}
	if r.Seconds == 1 {
		return "1 second"
	}
	return strconv.Itoa(r.Seconds) + " seconds"
}

// Limit is a rate that a call counts against.
type Limit struct {
	Key  string `json:"-"`    // identifies the counter; built from IDs, never from names that a caller chose
	What string `json:"what"` // for people: "group developer at github"
	Rate
}

// Quota limits the calls that a key covers, with one counter per session,
// group, creator or organization.
type Quota struct {
	Organization string     `json:"-" bun:"organization_id,pk"`
	Key          Key        `json:"-" bun:"embed:"`
	Per          QuotaScope `json:"per" bun:"per,pk"`
	Rate
	UpdatedBy string `json:"updated_by"`
}

// QuotaScope is whose calls a quota counts together.
type QuotaScope string

// The scopes of quotas.
const (
	PerSession      QuotaScope = "session"
	PerGroup        QuotaScope = "group"   // a session without a group has its own counter
	PerCreator      QuotaScope = "creator" // the user who created the session
	PerOrganization QuotaScope = "organization"
)

// Valid reports whether s is one of the four scopes.
func (s QuotaScope) Valid() bool {
	return s == PerSession || s == PerGroup || s == PerCreator || s == PerOrganization
}

// Snapshot is the whole catalog with what a group or session may do.
type Snapshot struct {
	GeneratedAt  time.Time         `json:"generated_at"`
	Group        string            `json:"group,omitempty"` // empty: no ceilings apply
	Task         string            `json:"task,omitempty"`
	Capabilities []ProviderAbility `json:"capabilities"`
	Providers    []string          `json:"providers_available"` // names of all sources
	Total        int               `json:"total"`               // actions on all pages
	NextCursor   string            `json:"next_cursor,omitempty"`
}

// ability is a provider, with one of its actions unless it has none.
type ability struct {
	provider *ProviderAbility
	action   *ActionAbility
}

func (a ability) key() string {
	key := a.provider.Name + "\x00" + a.provider.Provider + "\x00"
	if a.action != nil {
		key += a.action.Action
	}
	return key
}

// Denied reduces the snapshot to the actions that are denied.
func (s *Snapshot) Denied() {
	for i := range s.Capabilities {
		p := &s.Capabilities[i]
		p.Actions = slices.DeleteFunc(slices.Clone(p.Actions), func(a ActionAbility) bool { return !a.Denied })
	}
	s.Capabilities = slices.DeleteFunc(s.Capabilities, func(p ProviderAbility) bool { return len(p.Actions) == 0 })
}

// Page reduces the snapshot to a page of at most limit actions after a cursor, by
// name of their provider. The error is [ErrInvalid] for a cursor of another list.
func (s *Snapshot) Page(cursor string, limit int) error {
	var all []ability
	for i := range s.Capabilities {
		p := &s.Capabilities[i]
		if s.Total += len(p.Actions); len(p.Actions) == 0 {
			all = append(all, ability{provider: p})
		}
		for j := range p.Actions {
			all = append(all, ability{p, &p.Actions[j]})
		}
	}
	slices.SortFunc(all, func(a, b ability) int { return strings.Compare(a.key(), b.key()) })
	page, err := PageAfter(all, ability.key, cursor, limit)
	if err != nil {
		return err
	}
	capabilities := []ProviderAbility{}
	for i, a := range page.Items {
		if i == 0 || page.Items[i-1].provider != a.provider {
			p := *a.provider
			p.Actions = []ActionAbility{}
			capabilities = append(capabilities, p)
		}
		if last := &capabilities[len(capabilities)-1]; a.action != nil {
			last.Actions = append(last.Actions, *a.action)
		}
	}
	s.Capabilities, s.NextCursor = capabilities, page.Next
	return nil
}

// ProviderAbility is what a group or session may do at one provider.
type ProviderAbility struct {
	Provider       string          `json:"provider"` // a source id
	Name           string          `json:"name"`     // display name
	Level          Level           `json:"level"`
	LevelName      string          `json:"level_name"`
	AllowedActions []string        `json:"allowed_actions"` // null: all actions of the level
	DeniedActions  []string        `json:"denied_actions"`
	Gate           string          `json:"required_gate,omitempty"`
	Rate           *Rate           `json:"rate,omitempty"`
	ExpiresAt      *time.Time      `json:"expires_at,omitempty"`
	Actions        []ActionAbility `json:"actions"`
}

// ActionAbility is the policy decision for one action.
type ActionAbility struct {
	Action      string `json:"action"`
	Tool        string `json:"tool"` // its name over MCP
	Risk        Risk   `json:"risk"`
	Level       Level  `json:"level"`       // level that it needs
	Description string `json:"description"` // the source's own text; foreign, untrusted
	Mode        Mode   `json:"mode"`
	ModeSource  Layer  `json:"mode_source"`
	Denied      bool   `json:"denied"`
	Reason      string `json:"reason"` // the note of the deciding layer
}

// GrantScope is whose calls a grant covers.
type GrantScope string

// The scopes of grants.
const (
	ScopeSession      GrantScope = "session"
	ScopeOrganization GrantScope = "organization"
)

// Valid reports whether s is one of the two scopes.
func (s GrantScope) Valid() bool { return s == ScopeSession || s == ScopeOrganization }

// Terms are what a grant covers.
type Terms struct {
	Scope GrantScope `json:"scope"`
	// Source and Action are exact names. With Any, Action is empty: the grant
	// covers every action of the source, or of all sources if Source is empty
	// too, except dangerous ones.
	Source string `json:"source_id,omitempty"`
	Action string `json:"action,omitempty"`
	Any    bool   `json:"any,omitempty"`
	// Pins are params that must have exactly these values: canonical JSON by
	// JSON Pointer (RFC 6901).
	Pins      map[string]json.RawMessage `json:"pins,omitempty"`
	MaxCalls  *int64                     `json:"max_calls,omitempty"`  // nil: no limit
	ExpiresAt *time.Time                 `json:"expires_at,omitempty"` // nil: never
}

// Grant is a reusable approval.
type Grant struct {
	ID           string `json:"id"`
	Organization string `json:"organization_id"`
	Session      string `json:"session_id,omitempty"` // of scope session
	Terms
	// ToolHash is the [Action.Hash] that the grant covers. Empty with Any:
	// the grant then covers reviewed tools without drift.
	ToolHash   string     `json:"tool_hash,omitempty"`
	UsedCalls  int64      `json:"used_calls"`
	Invocation string     `json:"invocation_id,omitempty"` // whose approval created it
	Request    string     `json:"request_id,omitempty"`    // the grant request
	CreatedBy  string     `json:"created_by"`
	CreatedAt  time.Time  `json:"created_at"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
	RevokedBy  string     `json:"revoked_by,omitempty"`
}

// Usable reports whether the grant can cover one more call at now.
func (g *Grant) Usable(now time.Time) bool {
	return g.RevokedAt == nil && (g.ExpiresAt == nil || now.Before(*g.ExpiresAt)) && (g.MaxCalls == nil || g.UsedCalls < *g.MaxCalls)
}

// RequestStatus is the status of a [GrantRequest].
type RequestStatus string

// The statuses of requests. All but the first are final.
const (
	RequestPending  RequestStatus = "pending"
	RequestApproved RequestStatus = "approved"
	RequestDenied   RequestStatus = "denied"
	RequestExpired  RequestStatus = "expired"
)

// Valid reports whether s is one of the four statuses.
func (s RequestStatus) Valid() bool {
	return s == RequestPending || s == RequestApproved || s == RequestDenied || s == RequestExpired
}

// GrantRequest is an agent's request for a grant. A person can approve it
// with the same or narrower terms.
type GrantRequest struct {
	ID           string        `json:"id"`
	Organization string        `json:"organization_id"`
	Session      string        `json:"session_id"`
	Terms        Terms         `json:"terms"`
	ToolHash     string        `json:"tool_hash,omitempty"` // of the action at the time of the request; empty with Any
	Reason       string        `json:"reason,omitempty"`    // from the agent; untrusted
	Status       RequestStatus `json:"status"`
	Grant        string        `json:"grant_id,omitempty"` // the created grant
	DecidedBy    string        `json:"decided_by,omitempty"`
	DecidedAt    *time.Time    `json:"decided_at,omitempty"`
	DecidedNote  string        `json:"decided_note,omitempty"` // shown to the agent
	CreatedAt    time.Time     `json:"created_at"`
	ExpiresAt    time.Time     `json:"expires_at"` // when the pending request expires
}

// GrantFilter selects grants of an organization. Empty fields match all.
type GrantFilter struct {
	Organization string
	Session      string // grants of this session
	Covering     bool   // with Session: also those of the organization
	Scope        GrantScope
	Source       string
	Action       string
	Usable       bool   // only those that could cover a call now
	Limit        int    // zero: 50; at most 500
	Cursor       string // of the page before; empty: the newest
}

// RequestFilter selects requests for grants. Empty fields match all.
type RequestFilter struct {
	Organization string
	Session      string
	Status       RequestStatus
	Limit        int    // zero: 50; at most 500
	Cursor       string // of the page before; empty: the newest
}

// RequestVerdict is a person's decision about a request for a grant.
type RequestVerdict struct {
	Organization string
	ID           string
	By           string // the user, from the login
	Note         string // of a denial; shown to the agent
	Terms        *Terms // of an approval, narrower than requested; nil: as requested
}

// Check validates the grant.
func (g *Grant) Check() error {
	switch {
	case g.CreatedBy == "":
		return errors.New("a grant needs the person who makes it")
	case g.Scope == ScopeSession && g.Session == "":
		return InvalidTerm("/session_id", "A grant of scope session needs a session. Name one, or use scope organization.")
	case g.Scope == ScopeOrganization && g.Session != "":
		return InvalidTerm("/session_id", "A grant of scope organization has no session. Leave it out, or use scope session.")
	case g.Any && g.ToolHash != "":
		return errors.New("a grant of any action is made for no definition")
	}
	return g.Terms.Check(g.CreatedAt)
}

// Check validates the terms. It returns ErrInvalid with the field.
func (t *Terms) Check(now time.Time) error {
	switch {
	case !t.Scope.Valid():
		return InvalidTerm("/scope", "The scope of a grant is session or organization.")
	case t.Any && t.Action != "":
		return InvalidTerm("/action", "Use either any or an action, not both.")
	case !t.Any && (t.Source == "" || t.Action == ""):
		return InvalidTerm("/action", "A grant needs one source and one action. Use any to cover all actions that are not dangerous.")
	case strings.Contains(t.Source+t.Action, "*"):
		return InvalidTerm("/action", "A grant cannot use *. Use any to cover all actions that are not dangerous.")
	case t.MaxCalls != nil && *t.MaxCalls < 1:
		return InvalidTerm("/max_calls", "max_calls must be at least 1. Leave it out for no limit.")
	case t.ExpiresAt != nil && !now.Before(*t.ExpiresAt):
		return InvalidTerm("/expires_at", "expires_at must be in the future. Leave it out for no expiry.")
	case len(t.Pins) > MaxPins:
		return InvalidTerm("/pins", fmt.Sprintf("A grant can pin at most %d params.", MaxPins))
	}
	size := 0
	for pointer, value := range t.Pins {
		size += len(pointer) + len(value)
	}
	if size > maxPinBytes {
		return InvalidTerm("/pins", fmt.Sprintf("The pins of a grant have at most %d KiB together; pin fewer or smaller params.", maxPinBytes>>10))
	}
	return nil
}

// Limits that keep pins readable for people and fast to compare.
const (
	MaxPins     = 20 // of one grant
	maxPinBytes = 8 << 10
)

// InvalidTerm returns an error about a field of a grant's terms.
func InvalidTerm(field, message string) error {
	return &Error{Kind: ErrInvalid, Code: "invalid_grant", Field: field, Message: message}
}

// IsPointer reports whether s is a JSON Pointer (RFC 6901) to a part of the
// params.
func IsPointer(s string) bool {
	if !strings.HasPrefix(s, "/") {
		return false
	}
	for i := range len(s) {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return false
		}
	}
	return true
}

// CheckNarrower returns nil if t covers nothing that wider does not, and
// otherwise an ErrInvalid that names the field that is too wide.
func (t *Terms) CheckNarrower(wider *Terms) error {
	switch {
	case t.Scope == ScopeOrganization && wider.Scope != ScopeOrganization:
		return tooWide("/scope", "only the session")
	case wider.Source != "" && t.Source != wider.Source:
		return tooWide("/source_id", "only "+wider.Source)
	case !wider.Any && (t.Any || t.Action != wider.Action):
		return tooWide("/action", "only "+wider.Action)
	case wider.MaxCalls != nil && (t.MaxCalls == nil || *t.MaxCalls > *wider.MaxCalls):
		return tooWide("/max_calls", fmt.Sprintf("only %d calls", *wider.MaxCalls))
	case wider.ExpiresAt != nil && (t.ExpiresAt == nil || t.ExpiresAt.After(*wider.ExpiresAt)):
		return tooWide("/expires_at", "nothing after "+wider.ExpiresAt.UTC().Format(time.RFC3339))
	}
	for pointer, value := range wider.Pins {
		if pinned, ok := t.Pins[pointer]; !ok || !bytes.Equal(pinned, value) {
			return tooWide("/pins", "only this value at "+pointer)
		}
	}
	return nil
}

func tooWide(field, asked string) error {
	return InvalidTerm(field, "This exceeds the request ("+asked+"). You can narrow a request, not widen it; create a separate grant for more.")
}
