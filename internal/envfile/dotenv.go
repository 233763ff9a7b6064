package envfile

import (
	"fmt"
	"strings"
)

// header is the first line of each written file. It identifies the file later.
const header = "# Written by sallyport env apply; sallyport env scrub removes it."

// render returns the content of a file. Keys without a value are omitted.
func render(keys []Key, values map[string]string) []byte {
	var b strings.Builder
	b.WriteString(header + "\n")
	for _, k := range keys {
		if v, ok := values[k.Key]; ok {
			text, _ := quoteValue(v) // validate checked it
			b.WriteString(k.Key + "=" + text + "\n")
		}
	}
	return []byte(b.String())
}

// quoteValue quotes a value so that shells and dotenv parsers, including
// Node's, read the same text; ok is false if no quoting does. Single quotes
// keep everything literal, so they are preferred if the value has none. In
// double quotes, a shell needs a backslash before what it would expand, and
// Node's parser keeps that backslash. Some parsers also take a backslash before
// a closing quote as an escape. Parsers join CR LF even in quotes, so CR is
// escaped, which no shell reads back.
func quoteValue(v string) (text string, ok bool) {
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("_-./:@%+,=", r)
	}
	switch {
	case v == "":
		return `""`, true
	case !strings.ContainsFunc(v, func(r rune) bool { return !plain(r) }):
		return v, true
	case !strings.ContainsAny(v, "'\r") && !strings.HasSuffix(v, `\`):
		return "'" + v + "'", true
	case strings.ContainsAny(v, "\\\"$`"):
		return "", false
	case strings.Contains(v, "\r"):
		v = strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(v)
	}
	return `"` + v + `"`, true
}

// unquotableError returns an error with a remedy for a value that quoteValue
// rejects.
func unquotableError(key, v string) error {
	why := "it has a ' together with one of \" $ ` \\"
	switch {
	case strings.HasSuffix(v, `\`):
		why = "it ends with a \\"
	case strings.Contains(v, "\r"):
		why = "it has a carriage return together with one of \" $ ` \\"
	}
	return fmt.Errorf("the value of %s cannot be written so that shells and dotenv parsers read it alike: %s; enter another one, or in base64 where the program can decode it, or have the program read what env pull wrote", key, why)
}
