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

// ReadDelivery decodes a delivery into v, with bounded nesting. Unknown fields
// are ignored.
func ReadDelivery(body []byte, v any) error {
	err := jsonlex.Document(body)
	if err == nil {
		err = json.Unmarshal(body, v)
	}
	if err != nil {
		return fmt.Errorf("reading a delivery: %w", err)
	}
	return nil
}

// EventContext encodes v, a struct or map, as the context of an event. A
// context that is too large is shortened and marked ("_truncated", "_original_size").
func EventContext(v any) json.RawMessage {
	text, err := Encode(v)
	if err != nil {
		return json.RawMessage(`{"_truncated":true}`)
	}
	// Untrusted JSON can contain invalid UTF-8, which the database rejects.
	return redact.JSON{}.Prune(bytes.ToValidUTF8(text, []byte("\ufffd")), maxContext)
}

// ValidID returns an untrusted ID if it is safe in keys and rows, or the empty
// string.
func ValidID(id string) string {
	odd := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.:", r))
	}
	if len(id) > 100 || strings.ContainsFunc(id, odd) {
		return ""
	}
	return id
}

// MatchesFilter reports whether a filter contains one of the values, ignoring
// case. An empty filter matches everything; empty values match nothing.
func MatchesFilter(filter []string, values ...string) bool {
	return len(filter) == 0 || slices.ContainsFunc(values, func(v string) bool {
		return v != "" && slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, v) })
	})
}

// EventTime parses a time that rows and JSON can represent. Zero: not valid.
func EventTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if t = t.UTC(); err != nil || t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}

// WebURL returns an untrusted URL if a page can link to it, or the empty
// string. The gateway itself never requests it.
func WebURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || len(text) > 2000 || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return ""
	}
	return u.String()
}

// Printable makes untrusted text safe for one line: unprintable characters,
// which could break the line or change its direction, become spaces, and text
// beyond the limit, in characters, is replaced with an ellipsis.
func Printable(text string, limit int) string {
	return truncate(strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return ' '
	}, text), limit)
}

// AccountID returns an ID that is unique across servers: every self-hosted
// server numbers its accounts from 1. IDs at cloud, the host of the service
// itself, and at its subdomains are returned unchanged.
func AccountID(base *url.URL, cloud, id string) string {
	host := strings.TrimSuffix(guard.Host(base), ":443")
	if host == cloud || strings.HasSuffix(host, "."+cloud) {
		return id
	}
	return host + strings.TrimRight(base.Path, "/") + "#" + id
}
