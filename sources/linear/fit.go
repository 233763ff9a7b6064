package linear

import (
	"encoding/json"
	"slices"

	"sallyport/internal/redact"
	"sallyport/sources"
)

// maxResult bounds what get_issue returns, in bytes.
const maxResult = 60 << 10

// fit returns the issue in at most maxResult bytes, and says where it is not all
// there. The texts become shorter, and no comment is left out, since its page
// would not come again. Only what is still too large then loses the ends of its
// lists.
func (w whole) fit() (text json.RawMessage, err error) {
	for room := 32 << 10; room >= 512; room /= 2 {
		if text, err = sources.Encode(w.within(room)); err != nil || len(text) <= maxResult {
			return text, err
		}
	}
	return redact.JSON{}.Prune(text, maxResult), nil
}

// within cuts the description to room characters, and other texts to less.
func (w whole) within(room int) whole {
	cut := func(text string, limit int) string {
		out := begin(text, limit)
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
		if a.URL != cut(a.URL, 2000) { // a part of one leads elsewhere
			a.URL = ""
		}
	}
	return w
}
