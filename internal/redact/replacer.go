package redact

// Replacer takes known secrets out of bodies that are passed on, above all
// the credential that was sent along with a request. It is made once for a
// credential and is safe for use by several goroutines.
type Replacer struct{ known *known }

// NewReplacer returns a Replacer of the secrets that are not shorter than
// [MinSecret].
func NewReplacer(secrets ...string) *Replacer { return &Replacer{newKnown(secrets)} }

// Replace returns body, as a rule JSON, with the secrets replaced by
// [redacted], as they are, in base64, in hex, and behind the escapes of JSON, URLs and HTML. When there
// is nothing to replace it returns body itself; otherwise the strings that
// held a secret are written anew and all else stays as it was.
func (r *Replacer) Replace(body []byte) []byte {
	if len(r.known.plain) == 0 || !r.known.literally(body) && !r.known.hidden(body) {
		return body
	}
	w := rewriter{raw: body, known: r.known, mark: blot}
	if out, err := w.document(); err == nil {
		return out
	}
	if spans := secretsIn(body, r.known, false, &w.room); len(spans) > 0 {
		return replace(body, spans, blot)
	}
	return body
}

func blot(dst, _ []byte) []byte { return append(dst, "[redacted]"...) }
