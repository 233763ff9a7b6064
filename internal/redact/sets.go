package redact

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
