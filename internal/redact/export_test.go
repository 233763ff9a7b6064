package redact

// ReplaceSecret is [Replacer.Replace] for secrets that are used once.
func ReplaceSecret(body []byte, secrets []string) []byte {
	return NewReplacer(secrets...).Replace(body)
}

// Unescaped returns text with one layer of escapes resolved.
func Unescaped(text string) string {
	if v := new(unescapedView); v.unescape([]byte(text), escapeKindEnd-1, false) {
		return string(v.plain)
	}
	return text
}
