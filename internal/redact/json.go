package redact

import (
	"encoding/json"
	"strconv"
	"strings"

	"sallyport/internal/canonical"
	"sallyport/internal/jsonlex"
)

// JSON redacts, prunes and summarizes raw JSON. The zero value is ready to use.
type JSON struct {
	// Hash returns a keyed hash in hex; redacted values show its first eight
	// digits. It must be keyed, because secrets may be easy to guess. If nil,
	// they show their length only.
	Hash func(string) string
}

// Canonical returns the canonical form. See [canonical.JSON].
func (JSON) Canonical(raw []byte) ([]byte, error) { return canonical.JSON(raw) }

// Redact returns raw with secrets replaced, or raw itself if there are none.
// Invalid JSON becomes a string that says so and reveals nothing of it; empty
// input stays empty.
func (j JSON) Redact(raw json.RawMessage, secrets []string) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	w := rewriter{raw: raw, known: newKnown(secrets), mark: j.mark, full: true}
	out, err := w.document()
	if err != nil {
		return unreadable(len(raw))
	}
	return out
}

// RedactText returns text with secrets replaced, like Redact in a string.
func (j JSON) RedactText(text string, secrets []string) string {
	text, _ = j.clean(text, newKnown(secrets))
	return text
}

func (j JSON) clean(text string, k *known) (clean string, changed bool) {
	w := rewriter{known: k, mark: j.mark, full: true, mayContainKnown: true}
	if out, changed := w.clean([]byte(text), true); changed {
		return string(out), true
	}
	return text, false
}

// The parts of a redacted value.
const (
	markHead   = "[redacted:"
	hashDigits = 8
)

func (j JSON) mark(dst, secret []byte) []byte {
	dst = strconv.AppendInt(append(dst, markHead...), int64(len(secret)), 10)
	if j.Hash != nil {
		h := j.Hash(string(secret))
		dst = append(append(dst, ':'), h[:min(len(h), hashDigits)]...)
	}
	return append(dst, ']')
}

// isMark reports whether text is exactly one redacted value.
func isMark(text []byte) bool {
	if len(text) > 64 {
		return false
	}
	s, head := strings.CutPrefix(string(text), markHead)
	s, tail := strings.CutSuffix(s, "]")
	length, hash, hashed := strings.Cut(s, ":")
	return head && tail && length != "" && strings.Trim(length, "0123456789") == "" &&
		(!hashed || len(hash) == hashDigits && strings.Trim(hash, "0123456789abcdef") == "")
}

func unreadable(n int) json.RawMessage {
	return jsonlex.Quote(nil, "[not valid JSON, "+strconv.Itoa(n)+" bytes]")
}
