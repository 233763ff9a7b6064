package slack

import (
	"encoding/json"
	"fmt"
	"iter"
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
	for markup := range markups(text) {
		switch kind, of := kindOf(markup); {
		case kind == mass && !slices.Contains(who, "@"+of):
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

// masked reports whether a link shows something else than where it leads.
func masked(text string) bool {
	for markup := range markups(text) {
		content, _, closed := strings.Cut(markup, ">")
		shown, _, words := strings.Cut(content, "|")
		switch kind, word := kindOf(shown); {
		case !closed:
		case kind == date && strings.Count(shown, "^") > 2: // beside the time and its form, a link
			return true
		case (kind == person || kind == channelName) && words && len(word)+1 < len(shown): // no id
			return true
		case kind == other && words && shown != "":
			return true
		}
	}
	return false
}

// markups are what follows each < of a text.
func markups(text string) iter.Seq[string] {
	_, rest, _ := strings.Cut(text, "<")
	return func(yield func(string) bool) {
		for ; rest != "" && yield(rest); _, rest, _ = strings.Cut(rest, "<") {
		}
	}
}

// kind is what a piece of Slack's markup stands for.
type kind int

const (
	other kind = iota // a link, or what nobody knows
	person
	channelName
	group
	mass // the channel, all who are here, everyone
	date
)

// kindOf tells what the markup is that begins so, and the word that it begins
// with. Case makes no difference, as little as Slack may make of it.
func kindOf(markup string) (_ kind, word string) {
	if markup == "" {
		return other, ""
	}
	sign, word := markup[0], markup[1:]
	if end := strings.IndexFunc(word, odd); end >= 0 {
		word = word[:end]
	}
	word = strings.ToLower(word)
	switch {
	case sign == '@':
		return person, word
	case sign == '#':
		return channelName, word
	case sign == '!' && slices.Contains([]string{"channel", "here", "everyone", "group"}, word):
		return mass, word
	case sign == '!' && word == "subteam":
		return group, word
	case sign == '!' && word == "date":
		return date, word
	}
	return other, word
}

func odd(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') }

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
