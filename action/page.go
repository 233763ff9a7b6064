package action

import "time"

// Page is a part of a list, newest first.
type Page[T any] struct {
	Items  []T
	Next   string // cursor of the next page; empty: this is the last one
	Total  int    // of the whole list, as far as it was counted
	Capped bool   // Total is a floor: counting stopped there

	// LookedBack is set when the search reached its limit: it covered
	// everything since then. The page may be short or empty, and Next continues.
	LookedBack time.Time
}
