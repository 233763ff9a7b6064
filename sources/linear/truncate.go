package linear

import (
	"encoding/json"
	"slices"

	"sallyport/internal/redact"
	"sallyport/sources"
)

// maxResult bounds the result of get_issue, in bytes.
const maxResult = 60 << 10

// fit encodes the issue in at most maxResult bytes and marks truncation. It
// shortens texts first and keeps every comment, because the page cursor cannot
// return them again. Only if that is not enough does it prune lists.
func (w fullIssue) fit() (text json.RawMessage, err error) {
	for room := 32 << 10; room >= 512; room /= 2 {
		if text, err = sources.Encode(w.within(room)); err != nil || len(text) <= maxResult {
			return text, err
		}
	}
	return redact.JSON{}.Prune(text, maxResult), nil
}

// within truncates the description to room characters, and other texts to a
// fraction of it.
func (w fullIssue) within(room int) fullIssue {
	cut := func(text string, limit int) string {
		out := truncate(text, limit)
		w.Truncated = w.Truncated || out != text
		return out
	}
	if w.Description != nil {
		text := cut(*w.Description, room)
		w.Description = &text
	}
	w.Comments.Items = slices.Clone(w.Comments.Items)
	for i := range w.Comments.Items {
		c := &w.Comments.Items[i]
		c.Body = cut(c.Body, room/4)
	}
	w.Attachments = slices.Clone(w.Attachments)
	for i := range w.Attachments {
		a := &w.Attachments[i]
		a.Title = cut(a.Title, room/8)
		if a.URL != cut(a.URL, 2000) { // a truncated URL would be wrong
			a.URL = ""
		}
	}
	return w
}
