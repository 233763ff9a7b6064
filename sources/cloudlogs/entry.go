package cloudlogs

import (
	"encoding/json"
	"time"
)

// Service is a source of logs.
type Service struct {
	Name   string     `json:"name"`
	Files  int        `json:"files,omitempty"`
	Bytes  int64      `json:"bytes"`
	Newest *time.Time `json:"last_written,omitempty"`
}

// Query selects entries.
type Query struct {
	Service      string
	Since, Until time.Time         // both inclusive
	Text         string            // case-insensitive substring; empty matches any
	Level        Level             // minimum level; zero matches any
	Fields       map[string]string // exact values by field name; dots address nested fields
	Limit        int
	Cursor       string // of the previous page
}

// Page is one page of a query's results.
type Page struct {
	Entries []Entry `json:"entries"`
	Cursor  string  `json:"next_cursor,omitempty"` // empty on the last page
	Untimed int     `json:"untimed,omitempty"`     // skipped lines without a known time
	// Unreadable counts files that were skipped, entirely or in part, because
	// they cannot be read or resolve outside the directory.
	Unreadable int `json:"unreadable_files,omitempty"`
}

// Entry is a log entry.
type Entry struct {
	ID      string          `json:"id"`
	Service string          `json:"service"`
	Time    time.Time       `json:"time"`            // of the line before if the line has none
	Level   string          `json:"level,omitempty"` // empty if unknown
	Message string          `json:"message,omitempty"`
	Fields  json.RawMessage `json:"fields,omitempty"` // an object of all fields; nil for plain text
	Cut     bool            `json:"cut,omitempty"`    // truncated
}

// Level is the severity of an entry.
type Level int

// Severity levels, in ascending order.
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

// String returns the name of the level, or "" for zero.
func (l Level) String() string {
	if l < LevelTrace || l > LevelCritical {
		return ""
	}
	return levelNames()[l-1]
}
