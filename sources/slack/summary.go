package slack

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// summarize returns the line that an approver reads first. Mentions precede the
// text, so that they are visible wherever they occur in it.
func summarize(params json.RawMessage) string {
	var m message
	_ = json.Unmarshal(params, &m)
	line := "Send to " + quoteID(m.Channel)
	if m.Thread != "" {
		line = fmt.Sprintf("Reply in the thread %s of %s", quoteID(m.Thread), quoteID(m.Channel))
	}
	if m.Broadcast {
		line += ", shown in the channel too"
	}
	if who := mentions(m.Text); len(who) > 0 {
		line += ", NOTIFYING " + strings.Join(who, " and ")
	}
	if hasMaskedLink(m.Text) {
		line += ", with a link behind other words"
	}
	return line + ": " + strconv.Quote(truncate(m.Text, 100))
}

// mentions lists whom a text notifies, largest audiences first.
func mentions(text string) (who []string) {
	people, groups := 0, 0
	for markup := range markups(text) {
		switch kind, of := parseMarkup(markup); {
		case kind == broadcast && !slices.Contains(who, "@"+of):
			who = append(who, "@"+of)
		case kind == group:
			groups++
		case kind == person:
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

// hasMaskedLink reports whether a link's label hides its target.
func hasMaskedLink(text string) bool {
	for markup := range markups(text) {
		content, _, closed := strings.Cut(markup, ">")
		shown, _, words := strings.Cut(content, "|")
		switch kind, word := parseMarkup(shown); {
		case !closed:
		case kind == date && strings.Count(shown, "^") > 2: // the third part is a link
			return true
		case (kind == person || kind == channelName) && words && len(word)+1 < len(shown): // not an ID
			return true
		case kind == other && words && shown != "":
			return true
		}
	}
	return false
}

// markups yields the text after each <.
func markups(text string) iter.Seq[string] {
	_, rest, _ := strings.Cut(text, "<")
	return func(yield func(string) bool) {
		for ; rest != "" && yield(rest); _, rest, _ = strings.Cut(rest, "<") {
		}
	}
}

// markupKind is the meaning of a piece of Slack markup.
type markupKind int

const (
	other markupKind = iota // a link, or unknown markup
	person
	channelName
	group
	broadcast // @channel, @here or @everyone
	date
)

// parseMarkup returns the kind of the markup at the start of the text and its
// first word in lower case, because Slack may ignore case.
func parseMarkup(markup string) (_ markupKind, word string) {
	if markup == "" {
		return other, ""
	}
	sign, word := markup[0], markup[1:]
	if end := strings.IndexFunc(word, notAlphanumeric); end >= 0 {
		word = word[:end]
	}
	word = strings.ToLower(word)
	switch {
	case sign == '@':
		return person, word
	case sign == '#':
		return channelName, word
	case sign == '!' && slices.Contains([]string{"channel", "here", "everyone", "group"}, word):
		return broadcast, word
	case sign == '!' && word == "subteam":
		return group, word
	case sign == '!' && word == "date":
		return date, word
	}
	return other, word
}

func notAlphanumeric(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
}

// quoteID returns a channel or timestamp, quoted unless it has the form of one.
func quoteID(id string) string {
	if q := strconv.Quote(truncate(id, 100)); q != `"`+id+`"` || strings.ContainsAny(id, " ,:") {
		return q
	}
	return id
}

func truncate(text string, limit int) string {
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return text
}
