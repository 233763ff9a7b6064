package sources

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"sallyport/action"
	"sallyport/internal/suggest"
)

// Bounds of the params of one check.
const (
	maxValues    = 200_000   // values in the params
	cheapVisits  = 200_000   // schema visits below which a check is not metered
	cheapMatches = 5_000_000 // bytes matched, times pattern instructions
	maxProblems  = 3         // listed in one error
)

// checker validates params against the input schema of one tool.
//
// If the schema's shape and the size of the params bound the work, it validates
// directly. Otherwise, above all for recursive schemas, it validates one call
// at a time with a second copy of the schema that meters the work, and gives up
// when the budget is spent.
type checker struct {
	raw        json.RawMessage
	acceptsAll bool        // every object is valid
	fast       *fastSchema // nil if the schema has no fast form
	plain      *schema
	budget     time.Duration
	rejected   atomic.Int64 // checks given up

	mu      sync.Mutex
	metered *schema
	meter   meter
}

// newChecker compiles an input schema. Notes are sentences for people about
// parts of the schema that are not checked.
func newChecker(raw json.RawMessage, budget time.Duration) (c *checker, notes []string, err error) {
	doc, err := readSchema(raw)
	if err != nil {
		return nil, nil, err
	}
	obj, ok := doc.(map[string]any)
	if !ok {
		return nil, nil, errors.New("it is not an object")
	}
	if kind, ok := obj["type"]; ok && kind != "object" {
		return nil, nil, errors.New("it does not describe an object")
	}
	if _, err := HeaderParams(raw); err != nil {
		return nil, nil, err
	}
	c = &checker{raw: raw, budget: budget, acceptsAll: string(raw) == "{}" || string(raw) == `{"type":"object"}`}
	if c.acceptsAll {
		return c, nil, nil
	}
	c.fast = newFastSchema(doc)
	if c.plain, err = compileSchema(doc, nil); err != nil {
		return nil, nil, err
	}
	if c.plain.unchecked > 0 {
		notes = append(notes, "has a pattern that only its own server can check")
	}
	return c, notes, nil
}

// readSchema decodes and inspects a schema.
func readSchema(raw json.RawMessage) (any, error) {
	if len(raw) > maxSchemaBytes {
		return nil, fmt.Errorf("it is larger than %d KiB", maxSchemaBytes>>10)
	}
	doc, err := decode(raw)
	if err != nil {
		return nil, err
	}
	return doc, (&inspector{}).schema(doc, 0)
}

// Check returns nil, or an [*action.Error] of kind ErrInvalid that names the
// invalid field.
func (c *checker) Check(params json.RawMessage) error {
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	if c.fast.accepts(params) {
		return nil
	}
	v, err := decode(params)
	if err != nil {
		return invalidParams("", "They are not valid JSON.")
	}
	if _, ok := v.(map[string]any); !ok {
		return invalidParams("", "They must be an object.")
	}
	if c.acceptsAll {
		return nil
	}
	s := valueStats{}
	s.walk(v)
	switch {
	case s.values > maxValues:
		return action.Errorf(action.ErrTooLarge, "params_too_large", "The params have more than %d values. Send them in several calls.", maxValues)
	case s.costlyNumber != "":
		return invalidParams("", fmt.Sprintf("The number %.40s… is too large or too exact.", s.costlyNumber))
	}
	if c.plain.cost.visits*float64(s.values) <= cheapVisits && c.plain.cost.bytes*float64(len(params)) <= cheapMatches {
		return explain(validate(c.plain, v), c.plain)
	}
	if err = c.checkMetered(v); errors.Is(err, errBudgetExceeded) {
		c.rejected.Add(1)
		return action.NewError("params_too_costly")
	}
	return explain(err, c.plain)
}

var errBudgetExceeded = errors.New("the check took too long")

// checkMetered validates with the metered copy of the schema.
func (c *checker) checkMetered(v any) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.metered == nil {
		doc, err := decode(c.raw)
		if err != nil {
			return err
		}
		if c.metered, err = compileSchema(doc, &c.meter); err != nil {
			return err
		}
	}
	c.meter.reset(c.budget)
	return validate(c.metered, v)
}

// validate recovers from panics of the meter and of the validator itself.
func validate(s *schema, v any) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case budgetExceeded:
			err = errBudgetExceeded
		default:
			err = fmt.Errorf("the check panicked: %v", p)
		}
	}()
	return s.Validate(v)
}

// explain turns the validator's error into one that a model can act on.
func explain(err error, s *schema) error {
	if err == nil {
		return nil
	}
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return fmt.Errorf("checking params: %w", err)
	}
	list := problems(v)
	if len(list) == 0 {
		return invalidParams("", "They do not match the action's schema.")
	}
	texts := make([]string, 0, maxProblems)
	for _, p := range list[:min(len(list), maxProblems)] {
		texts = append(texts, p.text+s.suggestions(&p))
	}
	message := strings.Join(texts, "; ")
	if more := len(list) - maxProblems; more > 0 {
		message += fmt.Sprintf("; and %d more", more)
	}
	return invalidParams(list[0].pointer, message+".")
}

// maxSuggestionFields bounds how many fields are compared with an unknown one.
const maxSuggestionFields = 200

// suggestions returns the fields of the schema with a name similar to an
// unknown field.
func (s *schema) suggestions(p *problem) string {
	if p.rank != rankUnknown || strings.Count(p.pointer, "/") != 1 || len(s.Properties) > maxSuggestionFields {
		return ""
	}
	near := suggest.Similar(p.field, slices.Sorted(maps.Keys(s.Properties)))
	for i, name := range near {
		near[i] = quote(name)
	}
	if len(near) == 0 {
		return ""
	}
	return " (did you mean " + strings.Join(near, ", ") + "?)"
}

func invalidParams(pointer, message string) error {
	return action.Errorf(action.ErrInvalid, "invalid_params", "%s", action.ParamsMismatch+message).WithField(pointer)
}

// settingsBudget bounds checks against the gateway's own schemas, which are
// cheap.
const settingsBudget = time.Second

// CheckSettings returns nil for settings that are valid against the module's
// schema; without a schema, only empty settings are valid. Its error is an
// [*action.Error] of kind ErrInvalid with a field below /settings.
func (m *Module) CheckSettings(settings json.RawMessage) error {
	if len(settings) == 0 {
		settings = json.RawMessage("{}")
	}
	schema := m.Settings
	if schema == nil {
		schema = json.RawMessage(`{"type":"object","additionalProperties":false}`)
	}
	return checkOwnSchema(schema, settings, ownSchema{"settings", "The settings are not valid: ", "is not a setting"})
}

// CheckConfig returns nil for trigger filters that are valid against the schema
// of the trigger type. Its error is an [*action.Error] of kind ErrInvalid with
// a field below /config.
func CheckConfig(schema, config json.RawMessage) error {
	return checkOwnSchema(schema, config, ownSchema{"config", "The config is not valid: ", "is not a field of it"})
}

// ownSchema is the use of one of the gateway's own schemas, and how its errors
// are worded.
type ownSchema struct{ name, unfit, unknown string }

func checkOwnSchema(schema, value json.RawMessage, d ownSchema) error {
	c, _, err := newChecker(schema, settingsBudget)
	if err != nil {
		return err
	}
	return d.rewordError(c.Check(value), schema)
}

// CheckSomeSettings is [Module.CheckSettings] for settings that may lack
// required fields: the account can still provide those.
func (m *Module) CheckSomeSettings(settings json.RawMessage) error {
	if m.Settings == nil {
		return m.CheckSettings(settings)
	}
	var schema map[string]json.RawMessage
	if err := json.Unmarshal(m.Settings, &schema); err != nil {
		return fmt.Errorf("the settings of module %s: %w", m.ID, err)
	}
	delete(schema, "required")
	some, err := json.Marshal(schema)
	if err != nil {
		return fmt.Errorf("the settings of module %s: %w", m.ID, err)
	}
	return (&Module{Settings: some}).CheckSettings(settings)
}

// rewordError rewords an error about params for a document. For a value that
// does not match a pattern it shows the description in the schema instead,
// since people do not read patterns.
func (d ownSchema) rewordError(err error, schema json.RawMessage) error {
	var e *action.Error
	if !errors.As(err, &e) {
		return err
	}
	message := strings.ReplaceAll(strings.TrimPrefix(e.Message, action.ParamsMismatch), "is not a field of this action", d.unknown)
	name, _, _ := strings.Cut(strings.TrimPrefix(e.Field, "/"), "/")
	before, _, unmatched := strings.Cut(message, " must match the pattern ")
	var s struct {
		Properties map[string]struct {
			Description string `json:"description"`
		} `json:"properties"`
	}
	_ = json.Unmarshal(schema, &s) // schemas that do not compile are refused before
	if about := s.Properties[name].Description; unmatched && about != "" && !strings.Contains(before, "; ") {
		message = before + " has an invalid format. " + name + ": " + about
	}
	return action.Errorf(e.Kind, "invalid_"+d.name, "%s", d.unfit+message).WithField("/" + d.name + e.Field)
}

const maxPattern = 8 << 10

// pattern is a regular expression of a schema. Schemas use JavaScript syntax,
// which has features that Go lacks (lookaround, back references). Such a
// pattern matches anything, since the source validates its params itself. A
// pattern that is invalid in JavaScript, too, is an error.
type pattern struct {
	source string
	re     *regexp.Regexp // nil: matches anything
	size   int            // of its program: bounds the work for each byte
	meter  *meter         // nil: not metered
}

func (p *pattern) String() string { return p.source }

func (p *pattern) MatchString(s string) bool {
	if p.re == nil {
		return true
	}
	if p.meter != nil {
		p.meter.spend(1 + len(s)*p.size)
	}
	return p.re.MatchString(s)
}

// regexpEngine compiles patterns whose work the meter counts, and counts
// patterns that cannot be checked.
func regexpEngine(m *meter, unchecked *int) jsonschema.RegexpEngine {
	return func(source string) (jsonschema.Regexp, error) {
		p, err := compilePattern(source)
		if err != nil {
			return nil, err
		}
		if p.re == nil {
			*unchecked++
		}
		p.meter = m
		return p, nil
	}
}

func compilePattern(source string) (*pattern, error) {
	if len(source) > maxPattern {
		return nil, errors.New("the pattern is too long")
	}
	p := &pattern{source: source}
	text := translateEscapes(source)
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		var e *syntax.Error
		// Codes of expressions that can be valid in JavaScript.
		if errors.As(err, &e) && slices.Contains([]syntax.ErrorCode{
			syntax.ErrInvalidPerlOp, syntax.ErrInvalidEscape, syntax.ErrInvalidCharRange, syntax.ErrInvalidCharClass, syntax.ErrInvalidNamedCapture,
			syntax.ErrInvalidRepeatSize, syntax.ErrInvalidRepeatOp, syntax.ErrLarge, syntax.ErrNestingDepth,
		}, e.Code) {
			return p, nil
		}
		return nil, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	p.size = len(prog.Inst)
	p.re, err = regexp.Compile(text)
	return p, err
}

// translateEscapes rewrites the common escape that Go spells differently:
// \uXXXX is \x{XXXX}.
func translateEscapes(source string) string {
	if !strings.Contains(source, `\u`) {
		return source
	}
	var b strings.Builder
	for i := 0; i < len(source); i++ {
		if source[i] != '\\' || i+1 == len(source) {
			b.WriteByte(source[i])
			continue
		}
		if source[i+1] == 'u' && i+6 <= len(source) && strings.Trim(source[i+2:i+6], "0123456789abcdefABCDEF") == "" {
			b.WriteString(`\x{` + source[i+2:i+6] + `}`)
			i += 5
			continue
		}
		b.WriteString(source[i : i+2])
		i++
	}
	return b.String()
}

// Limits of one metered check.
const (
	maxSteps = 300_000    // schemas visited; bounds the memory of the error, too
	maxWork  = 50_000_000 // bytes matched, times the size of the pattern
)

// meter counts the work of one check and panics if it exceeds the budget: a
// panic is the only way to abort the validator. No check outlives its call, and
// none needs a goroutine.
type meter struct {
	steps    int
	work     int
	deadline time.Time
}

// budgetExceeded is the value of that panic.
type budgetExceeded struct{}

func (m *meter) reset(budget time.Duration) { *m = meter{deadline: time.Now().Add(budget)} }

// spend counts one step and the work that it is about to do.
func (m *meter) spend(work int) {
	m.steps++
	m.work += work
	if m.steps > maxSteps || m.work > maxWork || (work > 0 || m.steps%16 == 0) && time.Now().After(m.deadline) {
		panic(budgetExceeded{})
	}
}

// Validate counts one visit of a schema. It makes the meter a schema extension.
func (m *meter) Validate(*jsonschema.ValidatorContext, any) { m.spend(0) }
