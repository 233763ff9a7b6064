package redact

// shapesByFirstByte holds the formats of credentials by their first byte.
var shapesByFirstByte = [256][]tokenShape{
	'1': {{"1//0", 20, wordSet | dash, needNothing}},
	'A': {
		{"AKIA", 16, digit | upper, needNothing},
		{"ASIA", 16, digit | upper, needNothing},
		{"ABIA", 16, digit | upper, needNothing},
		{"ACCA", 16, digit | upper, needNothing},
		{"AIza", 30, wordSet | dash, needNothing},
		{"ATATT3", 20, tokenSet, needNothing},
		{"ATCTT3", 20, tokenSet, needNothing},
		{"ATBB", 28, alnum, needDigit},
		{"AKCp", 60, alnum, needDigit},
		{"AGE-SECRET-KEY-1", 20, alnum, needNothing},
	},
	'C': {{"CCIPAT_", 20, wordSet, needNothing}, {"CFPAT-", 20, wordSet | dash, needNothing}},
	'F': {{"FwoGZXIvYXdz", 50, base64Set, needNothing}},
	'G': {{"GOCSPX-", 10, wordSet | dash, needNothing}},
	'H': {{"HRKU-", 20, wordSet | dash, needNothing}},
	'I': {{"IQoJb3JpZ2lu", 50, base64Set, needNothing}},
	'N': {{"NRAK-", 20, alnum, needNothing}},
	'P': {{"PMAK-", 20, alnum | dash, needNothing}},
	'S': {{"SG.", 20, nameSet, needNothing}},
	'd': {
		{"dckr_pat_", 10, wordSet | dash, needNothing},
		{"dckr_oat_", 10, wordSet | dash, needNothing},
		{"dop_v1_", 10, alnum, needNothing},
		{"doo_v1_", 10, alnum, needNothing},
		{"dor_v1_", 10, alnum, needNothing},
		{"dapi", 32, digit | lower, needDigit},
		{"dp.pt.", 20, alnum, needNothing},
		{"dp.st.", 20, nameSet, needNothing},
		{"dt0c01.", 20, nameSet, needNothing},
		{"discord.com/api/webhooks/", 20, base64Set, needNothing},
		{"discordapp.com/api/webhooks/", 20, base64Set, needNothing},
	},
	'e': {{"eyJ", 10, nameSet, needDots}, {"eyA", 10, nameSet, needDots}, {"ewog", 10, nameSet, needDots}},
	'f': {
		{"figd_", 10, wordSet | dash, needNothing},
		{"fm1_", 20, base64Set, needNothing},
		{"fm2_", 20, base64Set, needNothing},
		{"fo1_", 20, base64Set, needNothing},
	},
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
		{"glrtr-", 10, nameSet, needNothing},
		{"glsoat-", 10, nameSet, needNothing},
		{"glcbt-", 10, nameSet, needNothing},
		{"glptt-", 10, nameSet, needNothing},
		{"glft-", 10, nameSet, needNothing},
		{"glimt-", 10, nameSet, needNothing},
		{"glagent-", 10, nameSet, needNothing},
		{"glwt-", 10, nameSet, needNothing},
		{"glffct-", 10, nameSet, needNothing},
		{"glsa_", 20, wordSet, needNothing},
		{"glc_", 20, base64Set, needNothing},
		{"gsk_", 20, alnum, needNothing},
	},
	'h': {
		{"hf_", 20, alnum, needNothing},
		{"hvs.", 20, wordSet | dash, needNothing},
		{"hvb.", 20, wordSet | dash, needNothing},
		{"hvr.", 20, wordSet | dash, needNothing},
		{"hooks.slack.com/services/", 10, base64Set, needNothing},
		{"hooks.slack.com/workflows/", 10, base64Set, needNothing},
		{"hooks.slack.com/triggers/", 10, base64Set, needNothing},
	},
	'k': {{"key-", 32, digit | lower, needDigit}},
	'l': {{"lin_api_", 10, wordSet, needNothing}, {"lin_oauth_", 10, wordSet, needNothing}, {"lin_wh_", 10, wordSet, needNothing}},
	'n': {
		{"npm_", 20, alnum, needNothing},
		{"ntn_", 20, alnum, needNothing},
		{"nfp_", 20, alnum, needNothing},
		{"nvapi-", 20, wordSet | dash, needNothing},
	},
	'p': {
		{"pypi-", 20, wordSet | dash, needNothing},
		{"pplx-", 20, alnum, needNothing},
		{"pscale_", 20, nameSet, needDigit},
		{"pul-", 32, digit | lower, needDigit},
		{"phx_", 20, alnum, needNothing},
	},
	'r': {
		{"rk_live_", 10, alnum, needNothing},
		{"rk_test_", 10, alnum, needNothing},
		{"r8_", 30, alnum, needNothing},
		{"rubygems_", 20, alnum, needNothing},
	},
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
		{"sbp_", 20, alnum, needNothing},
		{"sgp_", 20, wordSet, needNothing},
		{"sq0atp-", 15, wordSet | dash, needNothing},
		{"sq0csp-", 15, wordSet | dash, needNothing},
		{"secret_", 40, alnum, needDigit},
		{"sl.", 60, wordSet | dash, needDigit},
	},
	't': {{"tskey-", 15, wordSet | dash, needNothing}},
	'w': {{"whsec_", 10, base64Set, needNothing}, {"webhook.office.com/webhookb2/", 20, base64Set, needNothing}},
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
		{"xkeysib-", 30, nameSet, needNothing},
		{"xai-", 30, alnum, needNothing},
	},
	'y': {{"ya29.", 10, nameSet, needNothing}},
}

// What a byte may trigger a search for.
const (
	triggerNone   = iota
	triggerShape  // of a shape
	triggerScheme // of Bearer or Basic
	triggerColon
	triggerEquals
	triggerHyphen
	triggerBracket
)

var triggers = [256]uint8{
	'1': triggerShape, 'A': triggerShape, 'C': triggerShape, 'F': triggerShape, 'G': triggerShape, 'H': triggerShape, 'I': triggerShape, 'N': triggerShape, 'P': triggerShape, 'S': triggerShape,
	'd': triggerShape, 'e': triggerShape, 'f': triggerShape, 'g': triggerShape, 'h': triggerShape, 'k': triggerShape, 'l': triggerShape, 'n': triggerShape, 'p': triggerShape, 'r': triggerShape,
	's': triggerShape, 't': triggerShape, 'w': triggerShape, 'x': triggerShape, 'y': triggerShape,
	'B': triggerScheme, 'b': triggerScheme, ':': triggerColon, '=': triggerEquals, '-': triggerHyphen, '>': triggerBracket,
}

// Character classes, as bits.
const (
	digit = 1 << iota
	upper
	lower
	underscore
	dash
	dot
	base64Extra // + / =
	tilde

	alnum     = digit | upper | lower
	wordSet   = alnum | underscore
	nameSet   = wordSet | dash | dot
	base64Set = wordSet | dash | base64Extra
	tokenSet  = base64Set | dot | tilde
)

// sets maps each byte to its character classes.
var sets = [256]uint8{
	'0': digit, '1': digit, '2': digit, '3': digit, '4': digit, '5': digit, '6': digit, '7': digit, '8': digit, '9': digit,
	'A': upper, 'B': upper, 'C': upper, 'D': upper, 'E': upper, 'F': upper, 'G': upper, 'H': upper, 'I': upper, 'J': upper,
	'K': upper, 'L': upper, 'M': upper, 'N': upper, 'O': upper, 'P': upper, 'Q': upper, 'R': upper, 'S': upper, 'T': upper,
	'U': upper, 'V': upper, 'W': upper, 'X': upper, 'Y': upper, 'Z': upper,
	'a': lower, 'b': lower, 'c': lower, 'd': lower, 'e': lower, 'f': lower, 'g': lower, 'h': lower, 'i': lower, 'j': lower,
	'k': lower, 'l': lower, 'm': lower, 'n': lower, 'o': lower, 'p': lower, 'q': lower, 'r': lower, 's': lower, 't': lower,
	'u': lower, 'v': lower, 'w': lower, 'x': lower, 'y': lower, 'z': lower,
	'_': underscore, '-': dash, '.': dot, '+': base64Extra, '/': base64Extra, '=': base64Extra, '~': tilde,
}

// run returns the end of the run of bytes of a class at text[i].
func run(text []byte, i int, set uint8) int {
	for i < len(text) && sets[text[i]]&set != 0 {
		i++
	}
	return i
}
