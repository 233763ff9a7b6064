package redact

import (
	"bytes"
	"encoding/base64"
)

// shape is how the credentials of some service look.
type shape struct {
	prefix string
	min    int   // bytes after the prefix
	set    uint8 // of the bytes after the prefix
	need   need  // what else there must be in it
}

// need is what tells a credential from an ordinary word. What a run of bytes
// lacks, every end of it lacks too: so that a long run is looked at once.
type need uint8

const (
	needNothing need = iota
	needDigit
	needDots // two, as between the parts of a JWT, the last of which may be empty
	needs
)

func (n need) met(token []byte) bool {
	switch n {
	case needDigit:
		return bytes.ContainsAny(token, "0123456789")
	case needDots:
		return bytes.Count(token, []byte{'.'}) >= 2
	}
	return true
}

// byFirst holds the shapes by their first byte.
var byFirst = [256][]shape{
	'A': {
		{"AKIA", 16, digit | upper, needNothing},
		{"ASIA", 16, digit | upper, needNothing},
		{"ABIA", 16, digit | upper, needNothing},
		{"ACCA", 16, digit | upper, needNothing},
		{"AIza", 30, wordSet | dash, needNothing},
		{"ATATT3", 20, tokenSet, needNothing},
		{"AGE-SECRET-KEY-1", 20, alnum, needNothing},
	},
	'G': {{"GOCSPX-", 10, wordSet | dash, needNothing}},
	'S': {{"SG.", 20, nameSet, needNothing}},
	'd': {{"dckr_pat_", 10, wordSet | dash, needNothing}, {"dop_v1_", 10, alnum, needNothing}, {"doo_v1_", 10, alnum, needNothing}},
	'e': {{"eyJ", 10, nameSet, needDots}},
	'f': {{"figd_", 10, wordSet | dash, needNothing}},
	'g': {
		{"ghp_", 10, wordSet, needNothing},
		{"gho_", 10, wordSet, needNothing},
		{"ghu_", 10, wordSet, needNothing},
		{"ghs_", 10, nameSet, needNothing},
		{"ghr_", 10, wordSet, needNothing},
		{"github_pat_", 10, wordSet, needNothing},
		{"glpat-", 10, nameSet, needNothing},
		{"gldt-", 10, nameSet, needNothing},
		{"glrt-", 10, nameSet, needNothing},
		{"glsoat-", 10, nameSet, needNothing},
		{"glcbt-", 10, nameSet, needNothing},
		{"glptt-", 10, nameSet, needNothing},
		{"glft-", 10, nameSet, needNothing},
	},
	'h': {
		{"hf_", 20, alnum, needNothing},
		{"hvs.", 20, wordSet | dash, needNothing},
		{"hooks.slack.com/services/", 10, base64Set, needNothing},
	},
	'l': {{"lin_api_", 10, wordSet, needNothing}, {"lin_oauth_", 10, wordSet, needNothing}, {"lin_wh_", 10, wordSet, needNothing}},
	'n': {{"npm_", 20, alnum, needNothing}, {"ntn_", 20, alnum, needNothing}},
	'p': {{"pypi-", 20, wordSet | dash, needNothing}},
	'r': {{"rk_live_", 10, alnum, needNothing}, {"rk_test_", 10, alnum, needNothing}},
	's': {
		{"sps_", 20, wordSet | dash, needNothing},
		{"spk_", 20, wordSet | dash, needNothing},
		{"sk-", 16, wordSet | dash, needDigit},
		{"sk_live_", 10, alnum, needNothing},
		{"sk_test_", 10, alnum, needNothing},
		{"sntrys_", 10, base64Set, needNothing},
		{"sntryu_", 10, base64Set, needNothing},
		{"sntrya_", 10, base64Set, needNothing},
		{"sntryi_", 10, base64Set, needNothing},
		{"shpat_", 10, alnum, needNothing},
		{"shpss_", 10, alnum, needNothing},
		{"shpca_", 10, alnum, needNothing},
		{"shppa_", 10, alnum, needNothing},
	},
	'w': {{"whsec_", 10, base64Set, needNothing}},
	'x': {
		{"xoxb-", 8, nameSet, needNothing},
		{"xoxp-", 8, nameSet, needNothing},
		{"xoxa-", 8, nameSet, needNothing},
		{"xoxr-", 8, nameSet, needNothing},
		{"xoxs-", 8, nameSet, needNothing},
		{"xoxe-", 8, nameSet, needNothing},
		{"xoxe.", 8, nameSet, needNothing},
		{"xoxo-", 8, nameSet, needNothing},
		{"xoxc-", 8, nameSet, needNothing},
		{"xoxd-", 8, tokenSet, needNothing},
		{"xapp-", 10, nameSet, needNothing},
	},
	'y': {{"ya29.", 10, nameSet, needNothing}},
}

// What a byte may be the beginning, or the middle, of.
const (
	nothing = iota
	first   // of a shape
	scheme  // of Bearer or Basic
	colon
	equals
	hyphen
)

var triggers = [256]uint8{
	'A': first, 'G': first, 'S': first, 'd': first, 'e': first, 'f': first, 'g': first, 'h': first, 'l': first, 'n': first,
	'p': first, 'r': first, 's': first, 'w': first, 'x': first, 'y': first,
	'B': scheme, 'b': scheme, ':': colon, '=': equals, '-': hyphen,
}

// shapes appends where text, which is not escaped, has what looks like a
// credential.
func shapes(text []byte, spans []span) []span {
	var lacking [needs]int
	for i := 0; i < len(text); i++ {
		kind := triggers[text[i]]
		if kind == nothing {
			continue
		}
		var s span
		switch kind {
		case first:
			s = shaped(text, i, &lacking)
		case scheme:
			s = schemed(text, i)
		case colon:
			s = afterColon(text, i)
		case equals:
			s = afterEquals(text, i)
		case hyphen:
			s = pem(text, i)
		}
		if s.end > s.start {
			spans = append(spans, s)
			i = max(i, s.end-1)
		}
	}
	return spans
}

// begins reports whether a word can begin at text[i]. An escape of another
// notation may stand before it: %20 or \n.
func begins(text []byte, i int) bool {
	switch {
	case i == 0 || sets[text[i-1]]&alnum == 0:
		return true
	case i >= 3 && text[i-3] == '%' && unhex(text[i-2])|unhex(text[i-1]) < 16:
		return true
	}
	return i >= 2 && text[i-2] == '\\'
}

// shaped finds a credential that begins at text[i]. lacking tells how far the
// text is known to lack what a shape needs.
func shaped(text []byte, i int, lacking *[needs]int) span {
	for _, s := range byFirst[text[i]] {
		head := i + len(s.prefix)
		if len(text) < head+s.min || string(text[i:head]) != s.prefix || i < lacking[s.need] || !begins(text, i) {
			continue
		}
		end := run(text, head, s.set)
		switch {
		case end < head+s.min:
		case !s.need.met(text[i:end]):
			lacking[s.need] = end
		default:
			return span{i, end}
		}
	}
	return span{}
}

// minBearer is the length from which the word after Bearer counts as a token.
const minBearer = 8

// schemed finds the credential after Bearer or Basic.
func schemed(text []byte, i int) span {
	word := text[i:min(len(text), i+6)]
	bearer := len(word) == 6 && bytes.EqualFold(word, []byte("bearer"))
	if !bearer && (len(word) < 5 || !bytes.EqualFold(word[:5], []byte("basic"))) || !begins(text, i) {
		return span{}
	}
	at := i + 5
	if bearer {
		at++
	}
	start := blank(text, at, bearer)
	if start == at {
		return span{}
	}
	end := run(text, start, tokenSet)
	if bearer && end-start < minBearer || !bearer && !isBasic(text[start:end]) {
		return span{}
	}
	return span{start, end}
}

// blank returns the end of the white space at text[i], which a URL may write
// as %20, or as + where plus says so.
func blank(text []byte, i int, plus bool) int {
	for i < len(text) {
		switch {
		case text[i] == ' ' || text[i] == '\t' || plus && text[i] == '+':
			i++
		case bytes.HasPrefix(text[i:], []byte("%20")):
			i += 3
		default:
			return i
		}
	}
	return i
}

// isBasic tells a user and password in base64 from an ordinary word.
func isBasic(token []byte) bool {
	plain, err := base64.RawStdEncoding.DecodeString(string(bytes.TrimRight(token, "=")))
	return err == nil && bytes.IndexByte(plain, ':') >= 0
}

// pem finds a private key in PEM, to its end or that of the text.
func pem(text []byte, i int) span {
	rest := text[i:]
	if !bytes.HasPrefix(rest, []byte("-----BEGIN ")) {
		return span{}
	}
	label, _, ok := bytes.Cut(rest[11:min(len(rest), 64)], []byte("-----"))
	if !ok || !bytes.HasSuffix(bytes.TrimSuffix(label, []byte(" BLOCK")), []byte("PRIVATE KEY")) {
		return span{}
	}
	from := 11 + len(label)
	end := bytes.Index(rest[from:], []byte("-----END "))
	if end < 0 {
		return span{i, len(text)}
	}
	from += end + 9
	if end = bytes.Index(rest[from:], []byte("-----")); end < 0 {
		return span{i, len(text)}
	}
	return span{i, i + from + end + 5}
}
