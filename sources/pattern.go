package sources

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

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
		if validInJavaScript(err) {
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

// validInJavaScript reports whether the expression can be valid in JavaScript.
func validInJavaScript(err error) bool {
	var e *syntax.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case syntax.ErrInvalidPerlOp, syntax.ErrInvalidEscape, syntax.ErrInvalidCharRange,
		syntax.ErrInvalidCharClass, syntax.ErrInvalidNamedCapture, syntax.ErrInvalidRepeatSize,
		syntax.ErrInvalidRepeatOp, syntax.ErrLarge, syntax.ErrNestingDepth:
		return true
	}
	return false
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
		if source[i+1] == 'u' && i+6 <= len(source) && hexadecimal(source[i+2:i+6]) {
			b.WriteString(`\x{` + source[i+2:i+6] + `}`)
			i += 5
			continue
		}
		b.WriteString(source[i : i+2])
		i++
	}
	return b.String()
}

func hexadecimal(s string) bool {
	return strings.Trim(s, "0123456789abcdefABCDEF") == ""
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
