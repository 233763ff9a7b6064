package sources

import (
	"strconv"
	"strings"
)

// Printable makes foreign text harmless in a line of ours: characters that
// nobody sees, which may break lines or turn their direction, become spaces, and
// an ellipsis stands for all beyond the limit, in characters.
func Printable(text string, limit int) string {
	return cut(strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return ' '
	}, text), limit)
}
