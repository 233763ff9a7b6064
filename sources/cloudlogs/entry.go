package cloudlogs

import (
	"encoding/json"
	"time"
)

// Service is something that has logs.
type Service struct {
	Name   string     `json:"name"`
	Files  int        `json:"files,omitempty"`
	Bytes  int64      `json:"bytes"`
	Newest *time.Time `json:"last_written,omitempty"`
}

// Query says which entries are wanted.
type Query struct {
	Service      string
	Since, Until time.Time         // both are within
	Text         string            // that an entry holds, in any case; empty: any
	Level        Level             // that an entry has at least; zero: any, or none
	Fields       map[string]string // that an entry has, by names, a dot leading inside; values as texts
	Limit        int
	Cursor       string // of the page before; empty: the first
}

// Page is a part of what fits a query.
type Page struct {
	Entries []Entry `json:"entries"`
	Cursor  string  `json:"next_cursor,omitempty"` // empty: there is no more
	Untimed int     `json:"untimed,omitempty"`     // lines that were left out, because nothing says when they were written
	// Unreadable are files that were left out, wholly or from some place on:
	// they cannot be read, or are links that lead elsewhere.
	Unreadable int `json:"unreadable_files,omitempty"`
}

// Entry is a line of a log.
type Entry struct {
	ID      string          `json:"id"`
	Service string          `json:"service"`
	Time    time.Time       `json:"time"`            // a line without one has that of the line before
	Level   string          `json:"level,omitempty"` // empty: it has none
	Message string          `json:"message,omitempty"`
	Fields  json.RawMessage `json:"fields,omitempty"` // all of them, an object; nil: the line is no object
	Cut     bool            `json:"cut,omitempty"`    // it is longer than what is here
}

// Level is how severe an entry is.
type Level int

// The levels.
const (
	LevelTrace Level = iota + 1
	LevelDebug
	LevelInfo
	LevelNotice
	LevelWarning
	LevelError
	LevelCritical
)

func levelNames() []string {
	return []string{"trace", "debug", "info", "notice", "warning", "error", "critical"}
}

// String returns the level's name; that of zero is empty.
func (l Level) String() string {
	if l < LevelTrace || l > LevelCritical {
		return ""
	}
	return levelNames()[l-1]
}
