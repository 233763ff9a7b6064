package coord

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
)

// TestPacketFields fails when a field of a hint is added and not packed.
func TestPacketFields(t *testing.T) {
	var h action.Hint
	for i, v := 0, reflect.ValueOf(&h).Elem(); i < v.NumField(); i++ {
		if f := v.Field(i); f.Kind() == reflect.Bool {
			f.SetBool(true)
		} else {
			f.SetString("value " + strconv.Itoa(i))
		}
	}
	h.Kind = action.HintInvocation
	text, err := packet{From: "a", Lost: true, Hints: []packedHint{packedHint(h)}}.encode()
	if err != nil {
		t.Fatal(err)
	}
	p, ok := decode(text)
	if !ok || len(p.Hints) != 1 || !p.Lost || p.Beat {
		t.Fatalf("got %+v of %s", p, text)
	}
	if diff := cmp.Diff(h, action.Hint(p.Hints[0])); diff != "" {
		t.Error(diff)
	}
}

// TestHintKinds reads the kinds where they are declared: one that is
// missing here would be dropped between instances.
func TestHintKinds(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../action/ports.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Hint") {
			return true
		}
		seen++
		kind, _ := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if !knownKind(action.HintKind(kind)) {
			t.Errorf("%s is not known", spec.Names[0].Name)
		}
		return true
	})
	if seen < 5 {
		t.Errorf("only %d kinds were found", seen)
	}
}

func TestForeignMessagesAreIgnored(t *testing.T) {
	for _, text := range []string{"", "hello", "null", "[]", "{}", `{"f":""}`, `{"f":1}`, `{"f":"a","h":{}}`, `{"f":"a","h":[1]}`} {
		if p, ok := decode(text); ok {
			t.Errorf("%q is read as %+v", text, p)
		}
	}
	p, ok := decode(`{"f":"a","new":true,"h":[{"k":"tomorrow"},{"k":"policy","o":"x","z":1},{}]}`)
	if want := []packedHint{{Kind: action.HintPolicy, Organization: "x"}}; !ok || !cmp.Equal(p.Hints, want) {
		t.Errorf("got %+v", p)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(`{"f":"a","b":true}`)
	f.Add(`{"f":"a","h":[{"k":"invocation","o":"o","s":"s","i":"i","t":"approved"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := decode(text)
		if !ok {
			return
		}
		again, err := p.encode()
		if err != nil {
			t.Fatal(err)
		}
		if q, ok := decode(again); !ok || len(q.Hints) != len(p.Hints) {
			t.Errorf("%s became %s", text, again)
		}
	})
}
