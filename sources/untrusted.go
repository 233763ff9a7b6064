package sources

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/guard"
	"sallyport/internal/jsonlex"
	"sallyport/internal/redact"
)

// maxContext bounds [event.Event.Context], in bytes.
const maxContext = 64 << 10

// ReadDelivery decodes what a service posted into v, which takes what it knows
// of it. Nesting is bounded.
func ReadDelivery(body []byte, v any) error {
	if err := jsonlex.Document(body); err != nil {
		return fmt.Errorf("reading a delivery: %w", err)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("reading a delivery: %w", err)
	}
	return nil
}

// EventContext returns v, a struct or map that JSON can hold, as the context of
// an event. One that is too large becomes shorter and says so ("_truncated").
func EventContext(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // models read it
	if err := e.Encode(v); err != nil {
		return json.RawMessage(`{"_truncated":true}`)
	}
	// What was foreign JSON before may hold what is no text, which rows refuse.
	text := bytes.ToValidUTF8(bytes.TrimSpace(b.Bytes()), []byte("\ufffd"))
	return redact.JSON{}.Prune(text, maxContext)
}

// ValidID returns a foreign id that has the form of one, so that it can stand
// in keys and rows, or nothing.
func ValidID(id string) string {
	odd := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.:", r))
	}
	if len(id) > 100 || strings.ContainsFunc(id, odd) {
		return ""
	}
	return id
}

// MatchesFilter reports whether a filter has one of the values, in whatever case. A
// filter without entries lets everything pass; empty values match nothing.
func MatchesFilter(filter []string, values ...string) bool {
	return len(filter) == 0 || slices.ContainsFunc(values, func(v string) bool {
		return v != "" && slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, v) })
	})
}

// EventTime returns a time that rows and JSON can hold; zero: the text is none.
func EventTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if t = t.UTC(); err != nil || t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}

// WebURL returns a foreign URL if a page may link to it, or nothing. The gateway
// itself never goes there.
func WebURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || len(text) > 2000 || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return ""
	}
	return u.String()
}

// Printable makes foreign text harmless in a line of ours: characters that
// nobody sees, which may break lines or turn their direction, become spaces, and
// an ellipsis stands for all beyond the limit, in characters.
func Printable(text string, limit int) string {
	return truncate(strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return ' '
	}, text), limit)
}

// AccountID makes an id unique among servers: each one that somebody runs
// himself counts from 1. Cloud is the host of the service's own, whose ids stay
// as they are, as those of the hosts below it.
func AccountID(base *url.URL, cloud, id string) string {
	host := strings.TrimSuffix(guard.Host(base), ":443")
	if host == cloud || strings.HasSuffix(host, "."+cloud) {
		return id
	}
	return host + strings.TrimRight(base.Path, "/") + "#" + id
}
