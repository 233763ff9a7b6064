package action

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// EnvStatus is the status of a request for environment variables.
type EnvStatus string

// The statuses of a request for environment variables.
const (
	EnvPending  EnvStatus = "pending"  // a person must decide
	EnvAnswered EnvStatus = "answered" // a person entered values
	EnvTaken    EnvStatus = "taken"    // the sandbox fetched the values
	EnvRefused  EnvStatus = "refused"  // a person refused
	EnvExpired  EnvStatus = "expired"  // not answered or not fetched in time
)

// Valid reports whether s is one of the statuses.
func (s EnvStatus) Valid() bool {
	return s == EnvPending || s == EnvAnswered || s == EnvTaken || s == EnvRefused || s == EnvExpired
}

// Limits of requests for environment variables.
const (
	MaxEnvKeys        = 50
	maxEnvKey         = 200      // bytes of a name
	maxEnvSuggestions = 10       // for one variable
	maxEnvText        = 2000     // bytes of a text from the agent
	maxEnvValue       = 64 << 10 // bytes of a value
	maxEnvValues      = 256 << 10
)

// EnvRequest is an agent's request for environment variables. It does not
// contain values: they are stored encrypted until the sandbox fetches them,
// once.
type EnvRequest struct {
	ID           string     `json:"id" bun:"id,pk"`
	Organization string     `json:"organization_id" bun:"organization_id,pk"`
	Session      string     `json:"session_id" bun:"session_id"`
	Status       EnvStatus  `json:"status" enum:"pending,answered,taken,refused,expired"`
	Keys         []EnvKey   `json:"keys" bun:"-" nullable:"false" doc:"Text from the agent."`
	CreatedAt    time.Time  `json:"created_at"`
	ExpiresAt    time.Time  `json:"expires_at" doc:"When the request expires; once answered, when the values expire."`
	DecidedBy    string     `json:"decided_by,omitempty" bun:",nullzero"`
	DecidedAt    *time.Time `json:"decided_at,omitempty"`
	Note         string     `json:"note,omitempty" bun:",nullzero" doc:"Reason, shown to the agent."`
	TakenAt      *time.Time `json:"taken_at,omitempty"`
}

// EnvKey is a requested variable.
type EnvKey struct {
	Key         string          `json:"key"`
	Description string          `json:"description,omitempty"`
	Type        string          `json:"type,omitempty" enum:"env,secret" doc:"secret: the form hides the value. Missing: env."`
	Required    *bool           `json:"required,omitempty" doc:"Missing: it is complete."`
	Suggestions []EnvSuggestion `json:"suggestions,omitempty"`
}

// EnvSuggestion is a hint for the person who answers.
type EnvSuggestion struct {
	Label        string `json:"label"`
	Value        string `json:"value,omitempty" doc:"Use it unchanged."`
	Instructions string `json:"instructions,omitempty" doc:"How to get a value."`
}

// Needed reports whether the variable requires a value.
func (k *EnvKey) Needed() bool { return k.Required == nil || *k.Required }

// Secret reports whether the form hides the value.
func (k *EnvKey) Secret() bool { return k.Type == "secret" }

// CheckEnvKeys validates the requested variables. It returns ErrInvalid with
// the field.
func CheckEnvKeys(keys []EnvKey) error {
	if len(keys) == 0 || len(keys) > MaxEnvKeys {
		return invalidEnv("/keys", fmt.Sprintf("Request 1 to %d variables at a time.", MaxEnvKeys))
	}
	seen := map[string]bool{}
	for i := range keys {
		k, field := &keys[i], fmt.Sprintf("/keys/%d", i)
		switch {
		case !validEnvName(k.Key):
			return invalidEnv(field+"/key", fmt.Sprintf("A variable name has letters, digits and _, does not start with a digit, and has at most %d characters.", maxEnvKey))
		case seen[k.Key]:
			return invalidEnv(field+"/key", fmt.Sprintf("%s is requested twice. Request it once.", k.Key))
		case k.Type != "" && k.Type != "env" && k.Type != "secret":
			return invalidEnv(field+"/type", "The type of a variable is env or secret.")
		case !shortText(k.Description):
			return invalidEnv(field+"/description", fmt.Sprintf("A description has at most %d bytes.", maxEnvText))
		case len(k.Suggestions) > maxEnvSuggestions:
			return invalidEnv(field+"/suggestions", fmt.Sprintf("A variable has at most %d suggestions.", maxEnvSuggestions))
		}
		seen[k.Key] = true
		for j, s := range k.Suggestions {
			if s.Label == "" || !shortText(s.Label) || !shortText(s.Value) || !shortText(s.Instructions) {
				return invalidEnv(fmt.Sprintf("%s/suggestions/%d", field, j), fmt.Sprintf("A suggestion needs a label, and none of its texts has more than %d bytes.", maxEnvText))
			}
		}
	}
	return nil
}

// CheckEnvValues validates the values for the requested variables. It returns
// ErrInvalid; the error contains no value.
func CheckEnvValues(keys []EnvKey, values map[string]string) error {
	asked, total := map[string]bool{}, 0
	var missing []string
	for i := range keys {
		k := &keys[i]
		asked[k.Key] = true
		if v, ok := values[k.Key]; k.Needed() && (!ok || v == "") {
			missing = append(missing, k.Key)
		}
	}
	if len(missing) > 0 {
		return invalidEnv("/values/"+missing[0], "These variables are required and have no value: "+strings.Join(missing, ", ")+".")
	}
	for name, v := range values {
		total += len(v)
		switch {
		case !asked[name]:
			return invalidEnv("/values", "A value belongs to a variable that was not requested. Leave it out.")
		case len(v) > maxEnvValue || total > maxEnvValues:
			return invalidEnv("/values/"+name, fmt.Sprintf("A value has at most %d KiB, and all together have %d KiB.", maxEnvValue>>10, maxEnvValues>>10))
		case strings.ContainsRune(v, 0) || !utf8.ValidString(v):
			return invalidEnv("/values/"+name, "A value must be text without NUL characters.")
		}
	}
	return nil
}

func invalidEnv(field, message string) error {
	return &Error{Kind: ErrInvalid, Code: "invalid_params", Field: field, Message: message}
}

func shortText(text string) bool {
	return len(text) <= maxEnvText && utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

func validEnvName(name string) bool {
	if name == "" || len(name) > maxEnvKey || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// EnvFilter selects requests for environment variables. Empty fields match all.
type EnvFilter struct {
	Organization string
	Session      string
	Status       EnvStatus
	Limit        int    // zero: 50; at most 500
	Cursor       string // of the page before; empty: the newest
}

// EnvVerdict is a person's decision about a request for environment
// variables.
type EnvVerdict struct {
	Organization string
	ID           string
	By           string           // the user, from the login
	Sealed       []byte           // the values; nil: refused
	Names        []string         // of the values, for the record
	Note         string           // shown to the agent
	Keep         []SealedVariable // values that later sessions get, too
}

// SealedEnv has the encrypted values of a request.
type SealedEnv struct {
	ID     string
	Sealed []byte
}
