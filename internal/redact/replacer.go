package redact

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
