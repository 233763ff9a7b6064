package redact

// ReplaceSecret is [Replacer.Replace] for secrets that are used once.
func ReplaceSecret(body []byte, secrets []string) []byte {
	return NewReplacer(secrets...).Replace(body)
}
