package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"sallyport/internal/redact"
)

// planter makes documents with canaries in them, steered by bytes.
type planter struct {
	steer []byte
	known string // the credential that was used
	deep  int    // layers so far: those of a canary are at most these
}

// Canaries that are told by their place and by their shape.
const (
	placed = "Canary7hunter2"
	formed = "gh" + "p_c4n4ryC4N4RYc4n4ryC4N4RYc4n4ry123456"
)

func (p *planter) pick(n int) int {
	if len(p.steer) == 0 {
		return 0
	}
	c := int(p.steer[0])
	p.steer = p.steer[1:]
	return c % n
}

// document returns a JSON document.
func (p *planter) document(depth int) string {
	switch n := p.pick(9); {
	case n == 0 || depth == 0:
		return quoted(p.text())
	case n < 3:
		return "[" + p.document(depth-1) + "," + p.document(depth-1) + "]"
	case n == 3:
		return fmt.Sprintf(`{%s:%s}`, quoted(p.text()), p.document(depth-1))
	case n == 4:
		return `{"content":[{"type":"text","text":` + quoted(p.layers(p.document(depth-1))) + `}],"isError":true}`
	case n == 5:
		return fmt.Sprintf(`{"a":%s,"b":%s}`, p.document(depth-1), p.document(depth-1))
	case n == 6:
		return p.place()
	case n == 7:
		if p.pick(3) == 0 {
			return fmt.Sprintf(`{%s:%s,"pass":12}`, quoted(p.spelled(secretTexts)), quoted(placed))
		}
		return fmt.Sprintf(`{%s:{"x":[%s,1.5e3]}}`, quoted(p.spelled(secretNames)), quoted(placed))
	}
	return quoted(p.layers(p.place()))
}

// place returns one of places. Those that have layers take no more.
func (p *planter) place() string {
	place := places[p.pick(len(places))]
	if strings.Contains(place, `\"`) || strings.ContainsAny(place, "%&") {
		p.deep += 3
	}
	return strings.ReplaceAll(place, "§", placed)
}

// spelled returns one of the names, which are written with underscores, in
// some spelling.
func (p *planter) spelled(names []string) string {
	word := names[(p.pick(256)*256+p.pick(256))%len(names)]
	if strings.ToLower(word) != word || strings.Contains(word, "-") {
		return word
	}
	name := strings.ReplaceAll(word, "_", []string{"", "-", "_", ".", " ", "][", ":"}[p.pick(7)])
	switch p.pick(3) {
	case 0:
		return strings.ToUpper(name)
	case 1:
		return strings.ToUpper(name[:1]) + name[1:]
	}
	return name
}

// text returns a text with a canary that is told wherever it is.
func (p *planter) text() string {
	canary := []string{formed, p.known, b64("u:" + p.known), hex.EncodeToString([]byte(p.known)), base64.RawURLEncoding.EncodeToString([]byte(p.known))}[p.pick(5)]
	frame := []string{"§", "x § y", "https://h/?a=§&b=1", "https://u:§@h/", "Authorization: Bearer §\nx", "{§}", "[§", `"§`, "a\\ §%", "é§é", `\ud83d §`, "%zz&§;", "- §"}[p.pick(13)]
	return p.layers(strings.ReplaceAll(frame, "§", canary))
}

// layers puts a text under up to two layers of escapes, three in a document.
func (p *planter) layers(text string) string {
	for range p.pick(3) {
		if p.deep++; p.deep > 3 {
			break
		}
		switch p.pick(7) {
		case 0:
			text = quoted(text)
		case 1:
			text = url.PathEscape(text)
		case 2:
			text = strings.ReplaceAll(strings.ReplaceAll(text, "&", "&amp;"), `"`, "&quot;")
		case 3:
			text = p.some(text, `\u%04x`)
		case 4:
			text = p.some(text, "&#x%x;")
		case 5:
			text = p.some(text, "%%%02x")
		case 6:
			text = "before " + quoted(text) + " behind"
		}
	}
	return text
}

// some escapes some letters and all that could be taken for an escape.
func (p *planter) some(text, format string) string {
	var b strings.Builder
	nth := 1 + p.pick(4)
	for i, r := range text {
		if r < 0x80 && (i%nth == 0 || strings.ContainsRune(`\%&"`, r)) {
			fmt.Fprintf(&b, format, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // a string always encodes
	return string(b)
}

// FuzzCanaries: wherever canaries are planted, none comes out of what is kept
// and shown, made as it is made of params and results.
func FuzzCanaries(f *testing.F) {
	f.Add([]byte{8, 3, 2, 1, 5, 5, 0}, "canary!1", 400)
	f.Add([]byte{4, 7, 1, 2, 2, 3, 1}, "pa/ss\"wo rd", 90)
	f.Fuzz(canaries)
}

func TestCanaries(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 1_500 {
		steer := make([]byte, 60)
		for i := range steer {
			steer[i] = byte(r.Uint32())
		}
		canaries(t, steer, []string{"canary!1/x", `c4"n ary`, "cänäry €", "0123456789"}[i%4], r.IntN(700))
	}
}

func canaries(t *testing.T, steer []byte, known string, limit int) {
	known = strings.TrimSpace(strings.ToValidUTF8(known, "?"))
	// Escapes in a secret are found under layers of one kind only.
	if len(known) < redact.MinSecret || strings.ContainsAny(known, `\%&`) || strings.Contains(formed+placed+"[redacted:", known) || strings.Trim(known, "redact[]:0123456789bf") == "" && len(known) < 10 {
		return
	}
	p := planter{steer: steer, known: known}
	raw := []byte(p.document(4))
	if !json.Valid(raw) {
		t.Fatalf("not valid: %s", raw)
	}
	secrets := []string{known}
	redacted := hashed.Redact(raw, secrets)
	if !json.Valid(redacted) {
		t.Fatalf("%s\nbecomes %s", raw, redacted)
	}
	if again := hashed.Redact(redacted, secrets); !json.Valid(again) {
		t.Fatalf("%s\nbecomes %s", redacted, again)
	}
	for how, out := range map[string]string{
		"Redact":                 string(redacted),
		"Redact, Prune":          string(hashed.Prune(redacted, limit)),
		"Redact, Summary":        hashed.Summary(redacted, limit),
		"RedactText":             hashed.RedactText(string(raw), secrets),
		"RedactText of a string": hashed.RedactText(firstString(raw), secrets),
	} {
		if found := canaryIn(out, known, 0); found != "" {
			t.Fatalf("%s: %s is in\n%s\nof %s", how, found, out, raw)
		}
	}
	for _, out := range []string{string(redact.ReplaceSecret(raw, secrets))} {
		if strings.Contains(out, known) {
			t.Fatalf("ReplaceSecret: %s\nbecomes %s", raw, out)
		}
	}
}

// canaryIn looks for canaries in a text and under its escapes.
func canaryIn(text, known string, depth int) string {
	for _, c := range []string{known, placed, formed, b64("u:" + known)} {
		if strings.Contains(text, c) {
			return c
		}
	}
	if depth == 4 {
		return ""
	}
	if plain := redact.Unescaped(text); plain != text {
		return canaryIn(plain, known, depth+1)
	}
	return ""
}

// firstString returns the first string within a document.
func firstString(raw []byte) string {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	for {
		token, err := d.Token()
		if err != nil {
			return ""
		}
		if s, ok := token.(string); ok {
			return s
		}
	}
}
