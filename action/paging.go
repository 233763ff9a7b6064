package action

import (
	"encoding/base64"
	"slices"
	"strings"
)

// cursorPrefix distinguishes cursors of keys from others.
const cursorPrefix = "after:"

// CursorAfter returns the cursor of the page after the item with this key.
func CursorAfter(key string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cursorPrefix + key))
}

// ParseCursor returns the key of a cursor.
func ParseCursor(cursor string) (key string, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", false
	}
	key, ok = strings.CutPrefix(string(b), cursorPrefix)
	return key, ok && key != ""
}

// PageAfter returns the page of at most limit items after a cursor, or the first
// page. The items are sorted by key. A cursor is the key of the last item of a page,
// so that no item is missed or repeated when others are added or removed. The error
// is [ErrInvalid] for a cursor of another list.
func PageAfter[T any](items []T, key func(T) string, cursor string, limit int) (p Page[T], err error) {
	from, after := 0, ""
	if cursor != "" {
		var ok bool
		if after, ok = ParseCursor(cursor); !ok {
			return p, NewError("invalid_cursor").WithField("/cursor")
		}
		from, ok = slices.BinarySearchFunc(items, after, func(item T, after string) int { return strings.Compare(key(item), after) })
		if ok {
			from++
		}
	}
	to := min(from+limit, len(items))
	p = Page[T]{Items: items[from:to], Total: len(items)}
	if to < len(items) && to > from {
		p.Next = CursorAfter(key(items[to-1]))
	}
	return p, nil
}
