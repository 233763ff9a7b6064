package redact

import (
	"bytes"
	"strings"

	"sallyport/internal/jsonlex"
)

// maxName limits the length of a name before a colon or =.
const maxName = 64

// afterColon finds a secret by a colon: the userinfo of a URL, the rest of a
// header line, the value of a pair.
func afterColon(text []byte, i int) span {
	switch {
	case bytes.HasPrefix(text[i:], []byte("://")):
		return findUserinfo(text, i+3)
	case bytes.HasPrefix(text[i:], []byte(":=")):
		return span{} // handled by the equals sign
	}
	if s := findTelegramToken(text, i); s.end > 0 {
		return s
	}
	before := trimBlanksBefore(text, i)
	name, quoted := quotedBefore(text, before)
	if quoted {
		return quotedPair(text, name, i+1)
	}
	name = nameBefore(text, before)
	switch kind := roleOf(name); {
	case kind == rolePlain || kind == roleValue:
		return span{}
	case kind == roleLabel:
		return labelledValue(text, name, i+1)
	case before == i && secretHeader(name):
		return restOfLine(text, i+1, i-len(name))
	case passwordName(name):
		return nextWord(text, i+1)
	case secretText(name):
		return tokenLike(text, i+1)
	}
	return span{}
}

// afterEquals finds the value of name=value, as in the query of a URL, and of
// its variants: name = value, name := value, "name" => value.
func afterEquals(text []byte, i int) span {
	at, end := i, i+1
	switch {
	case end < len(text) && text[end] == '=':
		return span{}
	case end < len(text) && text[end] == '>':
		end++
	case i > 0 && text[i-1] == ':':
		at--
	}
	before := trimBlanksBefore(text, at)
	name, quoted := quotedBefore(text, before)
	if quoted {
		return quotedPair(text, name, end)
	}
	name = nameBefore(text, before)
	start := skipBlanks(text, end)
	switch {
	case len(name) == 0:
		return span{}
	case !secretParameter(name):
		if before > len(name) && strings.IndexByte("?&#", text[before-len(name)-1]) >= 0 && isQueryKey(name) {
			if s := tokenLike(text, end); s.end-s.start >= longToken {
				return s
			}
			return span{}
		}
		return labelledValue(text, name, end)
	case string(name) == "pass" && run(text, start, digit) < start+countDigits && run(text, start, digit) > start:
		return span{}
	case before == i && start == i+1, start < len(text) && (text[start] == '"' || text[start] == '\''):
		return valueAt(text, start)
	case passwordName(name):
		return nextWord(text, start)
	}
	return tokenLike(text, start)
}

// countDigits is the number of digits from which a number is not a count of
// passing tests.
const countDigits = 5

// nameBefore returns the name that ends before text[i].
func nameBefore(text []byte, i int) []byte {
	start := i
	for start > 0 && i-start < maxName && sets[text[start-1]]&nameSet != 0 {
		start--
	}
	return text[start:i]
}

// quotedBefore returns the quoted name that ends before text[i].
func quotedBefore(text []byte, i int) (name []byte, ok bool) {
	if i < 2 || text[i-1] != '"' && text[i-1] != '\'' && text[i-1] != '`' || text[i-2] == '\\' {
		return nil, false
	}
	start := i - 1
	for start > 0 && i-start <= maxName && text[start-1] != text[i-1] && text[start-1] != '\n' {
		start--
	}
	return text[start : i-1], start < i-1 && start > 0 && text[start-1] == text[i-1]
}

// findUserinfo finds the user and password of the authority that begins at
// text[i]. The user git alone is not a secret.
func findUserinfo(text []byte, i int) span {
	end, at := i, -1
	for ; end < len(text) && strings.IndexByte(" \t\r\n\"'<>`\\/?#", text[end]) < 0; end++ {
		if text[end] == '@' {
			at = end
		}
	}
	if at <= i || string(text[i:at]) == "git" || isMark(text[i:at]) {
		return span{}
	}
	return span{i, at}
}

// findTelegramToken finds a Telegram bot token by the colon in its middle.
func findTelegramToken(text []byte, i int) span {
	const digits, letters = 6, 33
	if !bytes.HasPrefix(text[i+1:], []byte("AA")) || run(text, i+1, wordSet|dash)-i <= letters {
		return span{}
	}
	start := i
	for start > 0 && i-start < 12 && sets[text[start-1]]&digit != 0 {
		start--
	}
	if i-start < digits {
		return span{}
	}
	return span{start, run(text, i+1, wordSet|dash)}
}

// restOfLine returns what follows a header's name, up to the end of the line or
// of the quotes around the header. from is the start of the name.
func restOfLine(text []byte, i, from int) span {
	stop := "\r\n"
	if from > 0 && strings.IndexByte("\"'`", text[from-1]) >= 0 {
		stop += string(rune(text[from-1]))
	}
	start := skipBlanks(text, i)
	end := start
	for end < len(text) && strings.IndexByte(stop, text[end]) < 0 {
		end++
	}
	return unlessMarked(text, start, end)
}

// nextWord returns the next word or quoted text. The words that programs use
// for a type or for no value are not passwords.
func nextWord(text []byte, i int) span {
	s := valueAt(text, skipBlanks(text, i))
	switch string(bytes.TrimRight(text[s.start:s.end], ",;")) {
	case "string", "str", "String", "boolean", "bool", "number", "int", "null", "nil", "None", "true", "false", "undefined", "none",
		"required", "optional", "any":
		return span{}
	}
	return s
}

// minTokenLike is the length from which a word with a digit may be a
// credential; longToken is that length in a URL.
const (
	minTokenLike = 8
	longToken    = 20
)

// tokenLike returns quoted text, or the next word if it looks like a credential
// rather than code: long, with a digit, in one piece.
func tokenLike(text []byte, i int) span {
	start := skipBlanks(text, i)
	if start < len(text) && (text[start] == '"' || text[start] == '\'') {
		return valueAt(text, start)
	}
	end := run(text, start, tokenSet)
	if end-start < minTokenLike || !bytes.ContainsAny(text[start:end], "0123456789") {
		return span{}
	}
	if end < len(text) && strings.IndexByte(" \t\r\n\"'`,;&#)}]<", text[end]) < 0 {
		return span{}
	}
	return span{start, end}
}

// valueAt returns what follows an equals sign or colon.
func valueAt(text []byte, i int) span {
	if i < len(text) && (text[i] == '"' || text[i] == '\'') {
		end := i + 1
		for ; end < len(text) && text[end] != text[i]; end++ {
			if text[end] == '\\' {
				end++
			}
		}
		return unlessMarked(text, i+1, min(end, len(text)))
	}
	end := i
	for end < len(text) && strings.IndexByte(" \t\r\n\"'`<>&#", text[end]) < 0 {
		end++
	}
	return unlessMarked(text, i, end)
}

// quotedPair finds the value of "name": value in text that is not JSON as a
// whole.
func quotedPair(text, name []byte, i int) span {
	kind := roleOf(name)
	if kind != roleSecret && kind != roleSecretText {
		return labelledValue(text, name, i)
	}
	start := skipBlanks(text, i)
	if start == len(text) {
		return span{}
	}
	if text[start] == '"' || text[start] == '\'' {
		s := valueAt(text, start)
		if kind == roleSecretText && isAuthScheme(text[s.start:s.end]) {
			return span{}
		}
		return s
	}
	if kind == roleSecretText {
		return span{}
	}
	if text[start] == '{' || text[start] == '[' { // up to the end of the text if it is cut off
		end := jsonlex.Skip(text, start)
		inside := bytes.TrimSpace(text[start+1 : max(end-1, start+1)])
		if end < len(text) && isMark(text[start:end]) || len(inside) == 0 && end < len(text) {
			return span{}
		}
		return unlessMarked(text, start, end)
	}
	end := start
	for end < len(text) && strings.IndexByte(" \t\r\n,}]", text[end]) < 0 {
		end++
	}
	switch string(text[start:end]) {
	case "true", "false", "null", "None", "nil", "True", "False":
		return span{}
	}
	return unlessMarked(text, start, end)
}

// maxGap limits the distance between a label and its value in a text.
const maxGap = 64

// labelledValue finds the value after name: DB_PASSWORD, value: … in any
// notation: a YAML list of variables, an XML attribute, headers.
func labelledValue(text, name []byte, i int) span {
	if roleOf(name) != roleLabel {
		return span{}
	}
	const between = " \t\r\n\"',;"
	start := skipBlanks(text, i)
	if start < len(text) && (text[start] == '"' || text[start] == '\'') {
		start++
	}
	end := run(text, start, nameSet)
	if !secretName(text[start:end]) {
		return span{}
	}
	for i = end; i < len(text) && i-end < maxGap && strings.IndexByte(between, text[i]) >= 0; i++ {
	}
	if gap := text[end:i]; bytes.HasSuffix(gap, []byte("\n\n")) || bytes.HasSuffix(gap, []byte("\r\n\r\n")) {
		return restOfLine(text, i, 0) // a field of a form
	}
	if len(text)-i < 5 || !bytes.EqualFold(text[i:i+5], []byte("value")) {
		return span{}
	}
	i += 5
	if i < len(text) && (text[i] == '"' || text[i] == '\'') {
		i++
	}
	if i = skipBlanks(text, i); i == len(text) || text[i] != ':' && text[i] != '=' {
		return span{}
	}
	return nextWord(text, i+1)
}

// xmlElement finds the text of <name>text</name>, by the bracket at text[i].
func xmlElement(text []byte, i int) span {
	name := nameBefore(text, i)
	from := i - len(name)
	if from > 0 && text[from-1] == ':' { // skip the namespace
		from -= 1 + len(nameBefore(text, from-1))
	}
	if from == 0 || text[from-1] != '<' || !secretText(name) {
		return span{}
	}
	end := i + 1
	for end < len(text) && text[end] != '<' {
		end++
	}
	if !bytes.HasPrefix(text[end:], []byte("</")) {
		return span{}
	}
	return unlessMarked(text, i+1, end)
}

// commandOption finds the value after --name or -u in a command line.
func commandOption(text []byte, i int) span {
	if i > 0 && sets[text[i-1]]&nameSet != 0 {
		return span{}
	}
	if bytes.HasPrefix(text[i:], []byte("-p")) && inCommand(text, i, gluedPasswordPrograms...) { // mysql -ppassword
		if s := unlessPort(text, valueAt(text, i+2)); s.end > 0 {
			return s
		}
	}
	end := run(text, i, nameSet)
	if end == len(text) || text[end] != ' ' && text[end] != '\t' {
		return span{}
	}
	start := skipBlanks(text, end)
	if bytes.HasPrefix(text[start:], []byte("\\\n")) { // line continuation
		start = skipBlanks(text, start+2)
	}
	if start == len(text) || text[start] == '-' {
		return span{}
	}
	name := text[i:end]
	switch {
	case string(name) == "-u" || string(name) == "--user":
		s := valueAt(text, start)
		_, password, ok := bytes.Cut(text[s.start:s.end], []byte{':'})
		if !ok || run(password, 0, digit) == len(password) {
			return span{}
		}
		return s
	case string(name) == "-p" && inCommand(text, i, "sshpass", "mongo", " login"):
		return unlessPort(text, valueAt(text, start))
	case bytes.HasPrefix(name, []byte("--")) && secretText(name):
		return valueAt(text, start)
	}
	return span{}
}

// gluedPasswordPrograms are parts of the names of programs that take a password
// directly after the option letter.
var gluedPasswordPrograms = []string{"mysql", "mariadb", "sshpass"}

// maxCommand limits the distance between an option and the name of its program.
const maxCommand = 256

// inCommand reports whether the command around text[i] names one of the
// programs.
func inCommand(text []byte, i int, programs ...string) bool {
	command := text[max(0, i-maxCommand):i]
	command = command[bytes.LastIndexAny(command, "\n;|")+1:]
	for _, p := range programs {
		if bytes.Contains(command, []byte(p)) {
			return true
		}
	}
	return false
}

// unlessPort drops a port mapping of a container, such as 3306:3306.
func unlessPort(text []byte, s span) span {
	if word := text[s.start:s.end]; bytes.IndexByte(word, ':') > 0 && len(bytes.Trim(word, "0123456789:.")) == 0 {
		return span{}
	}
	return s
}

func skipBlanks(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t') {
		i++
	}
	return i
}

// trimBlanksBefore returns the start of the blanks before text[i].
func trimBlanksBefore(text []byte, i int) int {
	for i > 0 && (text[i-1] == ' ' || text[i-1] == '\t') {
		i--
	}
	return i
}

// unlessMarked returns the span unless it is empty or already redacted.
func unlessMarked(text []byte, start, end int) span {
	if end <= start || isMark(text[start:end]) {
		return span{}
	}
	return span{start, end}
}
