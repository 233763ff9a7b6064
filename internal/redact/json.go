package redact

import (
	"bytes"
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
	if len(text) > 64 || !bytes.HasPrefix(text, []byte(markHead)) {
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

// Replacer removes known secrets from bodies that are passed on, especially the
// credential that was sent with a request. It is safe for concurrent use.
type Replacer struct{ known *known }

// NewReplacer returns a Replacer of the secrets with at least [MinSecret]
// bytes.
func NewReplacer(secrets ...string) *Replacer { return &Replacer{newKnown(secrets)} }

// Replace returns body, usually JSON, with the secrets replaced by [redacted]:
// unchanged, in base64, in hex, and under JSON, URL and HTML escapes. Without a
// match it returns body itself; otherwise only the strings with a secret are
// rewritten.
func (r *Replacer) Replace(body []byte) []byte {
	if len(r.known.plain) == 0 || !r.known.containsForm(body) && !r.known.mayBeEscaped(body) {
		return body
	}
	w := rewriter{raw: body, known: r.known, mark: maskSecret}
	if out, err := w.document(); err == nil {
		return out
	}
	if spans := secretsIn(body, r.known, false, &w.scratchBuf); len(spans) > 0 {
		return replace(body, spans, maskSecret)
	}
	return body
}

func maskSecret(dst, _ []byte) []byte { return append(dst, "[redacted]"...) }
