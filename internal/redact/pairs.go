package redact

import (
	"bytes"
	"strings"

	"sallyport/internal/jsonlex"
)

// maxName bounds how far back the name before a colon or = is looked for.
const maxName = 64

// afterColon finds the secret that a colon points out: the user of a URL, the
// rest of a header line, the value of a pair.
func afterColon(text []byte, i int) span {
	switch {
	case bytes.HasPrefix(text[i:], []byte("://")):
		return userinfo(text, i+3)
	case bytes.HasPrefix(text[i:], []byte(":=")):
		return span{} // that of the equals sign
	}
	if s := telegram(text, i); s.end > 0 {
		return s
	}
	before := backspaces(text, i)
	name, quoted := quotedBefore(text, before)
	if quoted {
		return pair(text, name, i+1)
	}
	name = nameBefore(text, before)
	switch kind := roleOf(name); {
	case kind == plainName || kind == valueNamed:
		return span{}
	case kind == labelNamed:
		return labelled(text, name, i+1)
	case before == i && secretHeader(name):
		return line(text, i+1, i-len(name))
	case passwordName(name):
		return word(text, i+1)
	case secretText(name):
		return tokenLike(text, i+1)
	}
	return span{}
}

// afterEquals finds the value of name=value, as in the query of a URL, and of
// its kin: name = value, name := value, "name" => value.
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
	before := backspaces(text, at)
	name, quoted := quotedBefore(text, before)
	if quoted {
		return pair(text, name, end)
	}
	name = nameBefore(text, before)
	start := spaces(text, end)
	switch {
	case len(name) == 0:
		return span{}
	case !secretParameter(name):
		if before > len(name) && strings.IndexByte("?&#", text[before-len(name)-1]) >= 0 && isQueryKey(name) {
			return long(tokenLike(text, end))
		}
		return labelled(text, name, end)
	case string(name) == "pass" && run(text, start, digit) < start+countDigits && run(text, start, digit) > start:
		return span{}
	case before == i && start == i+1, start < len(text) && (text[start] == '"' || text[start] == '\''):
		return value(text, start)
	case passwordName(name):
		return word(text, start)
	}
	return tokenLike(text, start)
}

// countDigits is the length from which a number is no count of passing tests.
const countDigits = 5

// nameBefore returns the name that ends before text[i].
func nameBefore(text []byte, i int) []byte {
	start := i
	for start > 0 && i-start < maxName && sets[text[start-1]]&nameSet != 0 {
		start--
	}
	return text[start:i]
}

// quotedBefore returns the name in quotes that ends before text[i].
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

// userinfo finds user and password of the authority that begins at text[i].
// The user git alone is everyone's.
func userinfo(text []byte, i int) span {
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

// telegram finds a bot's token, by the colon in its middle.
func telegram(text []byte, i int) span {
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

// line takes what follows a header's name, to the end of the line or of the
// quotes in which the header stands. from is where the name begins.
func line(text []byte, i, from int) span {
	stop := "\r\n"
	if from > 0 && strings.IndexByte("\"'`", text[from-1]) >= 0 {
		stop += string(rune(text[from-1]))
	}
	start := spaces(text, i)
	end := start
	for end < len(text) && strings.IndexByte(stop, text[end]) < 0 {
		end++
	}
	return unmarked(text, start, end)
}

// word takes the next word, or what is between quotes. The words by which
// programs name a type or nothing are no passwords.
func word(text []byte, i int) span {
	s := value(text, spaces(text, i))
	switch string(bytes.TrimRight(text[s.start:s.end], ",;")) {
	case "string", "str", "String", "boolean", "bool", "number", "int", "null", "nil", "None", "true", "false", "undefined", "none",
		"required", "optional", "any":
		return span{}
	}
	return s
}

// minTokenLike is the length from which a word with a digit in it may be a
// credential, and longToken that from which it is one in a URL.
const (
	minTokenLike = 8
	longToken    = 20
)

// tokenLike takes what is between quotes, or the next word when it looks like
// no code: long, with a digit, and of one piece.
func tokenLike(text []byte, i int) span {
	start := spaces(text, i)
	if start < len(text) && (text[start] == '"' || text[start] == '\'') {
		return value(text, start)
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

func long(s span) span {
	if s.end-s.start < longToken {
		return span{}
	}
	return s
}

// value takes what follows an equals sign or colon.
func value(text []byte, i int) span {
	if i < len(text) && (text[i] == '"' || text[i] == '\'') {
		end := closing(text, i+1, text[i])
		return unmarked(text, i+1, end)
	}
	end := i
	for end < len(text) && strings.IndexByte(" \t\r\n\"'`<>&#", text[end]) < 0 {
		end++
	}
	return unmarked(text, i, end)
}

// pair finds the value of "name": value in text that is not JSON as a whole.
func pair(text, name []byte, i int) span {
	kind := roleOf(name)
	if kind != secretNamed && kind != textNamed {
		return labelled(text, name, i)
	}
	start := spaces(text, i)
	if start == len(text) {
		return span{}
	}
	if text[start] == '"' || text[start] == '\'' {
		s := value(text, start)
		if kind == textNamed && isKind(text[s.start:s.end]) {
			return span{}
		}
		return s
	}
	if kind == textNamed {
		return span{}
	}
	switch text[start] {
	case '{', '[':
		return list(text, start)
	}
	end := start
	for end < len(text) && strings.IndexByte(" \t\r\n,}]", text[end]) < 0 {
		end++
	}
	switch string(text[start:end]) {
	case "true", "false", "null", "None", "nil", "True", "False":
		return span{}
	}
	return unmarked(text, start, end)
}

// list takes an array or object with something in it, to the end of the text
// when it is cut off.
func list(text []byte, start int) span {
	end := jsonlex.Skip(text, start)
	inside := bytes.TrimSpace(text[start+1 : max(end-1, start+1)])
	if end < len(text) && isMark(text[start:end]) || len(inside) == 0 && end < len(text) {
		return span{}
	}
	return unmarked(text, start, end)
}

// maxGap is how far apart a label and its value are in a text.
const maxGap = 64

// labelled finds the value after name: DB_PASSWORD, value: …, in whatever
// notation: a list of variables in YAML, an attribute of XML, headers.
func labelled(text, name []byte, i int) span {
	if roleOf(name) != labelNamed {
		return span{}
	}
	const between = " \t\r\n\"',;"
	start := spaces(text, i)
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
		return line(text, i, 0) // of a form
	}
	if len(text)-i < 5 || !bytes.EqualFold(text[i:i+5], []byte("value")) {
		return span{}
	}
	i += 5
	if i < len(text) && (text[i] == '"' || text[i] == '\'') {
		i++
	}
	if i = spaces(text, i); i == len(text) || text[i] != ':' && text[i] != '=' {
		return span{}
	}
	return word(text, i+1)
}

// element finds the text of <name>text</name>, by the bracket at text[i].
func element(text []byte, i int) span {
	name := nameBefore(text, i)
	from := i - len(name)
	if from > 0 && text[from-1] == ':' { // of a namespace
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
	return unmarked(text, i+1, end)
}

// option finds the value after --name or -u in a command line.
func option(text []byte, i int) span {
	if i > 0 && sets[text[i-1]]&nameSet != 0 {
		return span{}
	}
	if s := glued(text, i); s.end > 0 {
		return s
	}
	end := run(text, i, nameSet)
	if end == len(text) || text[end] != ' ' && text[end] != '\t' {
		return span{}
	}
	start := spaces(text, end)
	if bytes.HasPrefix(text[start:], []byte("\\\n")) { // a line goes on
		start = spaces(text, start+2)
	}
	if start == len(text) || text[start] == '-' {
		return span{}
	}
	name := text[i:end]
	switch {
	case string(name) == "-u" || string(name) == "--user":
		s := value(text, start)
		_, password, ok := bytes.Cut(text[s.start:s.end], []byte{':'})
		if !ok || run(password, 0, digit) == len(password) {
			return span{}
		}
		return s
	case string(name) == "-p" && commands(text, i, "sshpass", "mongo", " login"):
		return noPort(text, value(text, start))
	case bytes.HasPrefix(name, []byte("--")) && secretText(name):
		return value(text, start)
	}
	return span{}
}

// glued finds the password in mysql -ppassword, and in the like of it.
func glued(text []byte, i int) span {
	if !bytes.HasPrefix(text[i:], []byte("-p")) || !commands(text, i, gluing...) {
		return span{}
	}
	return noPort(text, value(text, i+2))
}

// gluing are parts of the names of programs that take a password right after
// the letter of its option.
var gluing = []string{"mysql", "mariadb", "sshpass"}

// maxCommand is how far an option may be from the name of its program.
const maxCommand = 256

// commands reports whether one of the programs is in the command of which
// text[i] is a part.
func commands(text []byte, i int, programs ...string) bool {
	command := text[max(0, i-maxCommand):i]
	command = command[bytes.LastIndexAny(command, "\n;|")+1:]
	for _, p := range programs {
		if bytes.Contains(command, []byte(p)) {
			return true
		}
	}
	return false
}

// noPort drops what publishes a port of a container: 3306:3306.
func noPort(text []byte, s span) span {
	if word := text[s.start:s.end]; bytes.IndexByte(word, ':') > 0 && len(bytes.Trim(word, "0123456789:.")) == 0 {
		return span{}
	}
	return s
}

// closing returns where the quotes end that were opened before text[i].
func closing(text []byte, i int, quote byte) int {
	for ; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case quote:
			return i
		}
	}
	return len(text)
}

func spaces(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t') {
		i++
	}
	return i
}

// backspaces returns where the blanks before text[i] begin.
func backspaces(text []byte, i int) int {
	for i > 0 && (text[i-1] == ' ' || text[i-1] == '\t') {
		i--
	}
	return i
}

// unmarked returns the span unless it is empty or redacted already.
func unmarked(text []byte, start, end int) span {
	if end <= start || isMark(text[start:end]) {
		return span{}
	}
	return span{start, end}
}
