package slack

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// summarize is the line that an approver reads first, beside the whole text.
// Whom the message would notify comes before the text, however deep in the
// text that stands.
func summarize(params json.RawMessage) string {
	var m message
	_ = json.Unmarshal(params, &m)
	line := "Send to " + short(m.Channel)
	if m.Thread != "" {
		line = fmt.Sprintf("Reply in the thread %s of %s", short(m.Thread), short(m.Channel))
	}
	if m.Broadcast {
		line += ", shown in the channel too"
	}
	if who := notified(m.Text); len(who) > 0 {
		line += ", NOTIFYING " + strings.Join(who, " and ")
	}
	if masked(m.Text) {
		line += ", with a link behind other words"
	}
	return line + ": " + strconv.Quote(begin(m.Text, 100))
}

// notified says whom a text mentions: those who are many first.
func notified(text string) (who []string) {
	people, groups := 0, 0
	for _, found := range mention().FindAllStringSubmatch(text, -1) {
		switch mass, kind := found[2], found[1]; {
		case mass != "" && !slices.Contains(who, "@"+mass):
			who = append(who, "@"+mass)
		case kind == "!subteam^":
			groups++
		case kind == "@":
			people++
		}
	}
	if groups > 0 {
		who = append(who, fmt.Sprintf("user groups (%d)", groups))
	}
	if people > 0 {
		who = append(who, fmt.Sprintf("people (%d)", people))
	}
	return who
}

func mention() *regexp.Regexp {
	return regexp.MustCompile(`<(@|!subteam\^|!(channel|here|everyone|group)\b)`)
}

// masked reports whether a link shows something else than where it leads.
func masked(text string) bool {
	return regexp.MustCompile(`<(https?://|mailto:)[^|>]*\|`).MatchString(text)
}

// short is a channel or a time, quoted where it is none.
func short(id string) string {
	if q := strconv.Quote(begin(id, 100)); q != `"`+id+`"` || strings.ContainsAny(id, " ,:") {
		return q
	}
	return id
}

func begin(text string, limit int) string {
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return text
}
