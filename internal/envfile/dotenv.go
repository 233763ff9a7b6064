package envfile

import (
	"fmt"
	"strings"
)

// header is the first line of each file that was written here, by which it is
// known again.
const header = "# Written by sallyport env apply; sallyport env scrub removes it."

// render is a whole file. A key without a value is left out.
func render(keys []Key, values map[string]string) []byte {
	var b strings.Builder
	b.WriteString(header + "\n")
	for _, k := range keys {
		if v, ok := values[k.Key]; ok {
			text, _ := quoteValue(v) // ready looked
			b.WriteString(k.Key + "=" + text + "\n")
		}
	}
	return []byte(b.String())
}

// quoteValue writes a value so that shells and dotenv parsers, Node's among them, read
// it alike; ok is false where no quoting does. Single quotes leave everything as
// it is, so they are taken wherever the value has none itself. Within double
// quotes a shell needs a \ before what it would expand, and Node's parser keeps
// it. The same parser takes no \ for the end of a value, as shells do, nor others
// one before a closing quote. Parsers join CR LF, even within quotes, and so a CR is
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

// unquotableError says what to do with the value of a variable that quote refuses.
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
