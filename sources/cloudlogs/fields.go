package cloudlogs

import (
	"math"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/jsonlex"
)

// member is a field of an entry.
type member struct {
	name  string
	value []byte // raw JSON
}

// maxDepth bounds how deep a line may be nested.
const maxDepth = 64

// members returns the members of the object that data begins with, as many of
// them as are whole, and whether all are.
func members(data []byte) (list []member, whole bool) {
	i := jsonlex.Space(data, 0)
	if i >= len(data) || data[i] != '{' {
		return nil, false
	}
	if i = jsonlex.Space(data, i+1); i < len(data) && data[i] == '}' {
		return nil, jsonlex.Space(data, i+1) == len(data)
	}
	for {
		end, _, err := jsonlex.String(data, i)
		if err != nil {
			return list, false
		}
		name := data[i:end]
		if i = jsonlex.Space(data, end); i >= len(data) || data[i] != ':' {
			return list, false
		}
		i = jsonlex.Space(data, i+1)
		if end, err = jsonlex.Value(data, i, jsonlex.MaxDepth-maxDepth); err != nil || end == len(data) {
			return list, false // a number at the end may be the half of one
		}
		list = append(list, member{text(name), data[i:end]})
		if i = jsonlex.Space(data, end); i >= len(data) || data[i] != ',' {
			return list, i < len(data) && data[i] == '}' && jsonlex.Space(data, i+1) == len(data)
		}
		i = jsonlex.Space(data, i+1)
	}
}

// text returns what a JSON value says: a string's content, anything else as it
// is written.
func text(value []byte) string {
	if len(value) < 2 || value[0] != '"' {
		return string(value)
	}
	out, _ := jsonlex.Unquote(nil, value[1:len(value)-1])
	return string(out)
}

// find returns the value of the field with the name, or with the first of the
// name's parts inside of which the others lead.
func find(list []member, name string) ([]byte, bool) {
	for _, m := range list {
		if m.name == name {
			return m.value, true
		}
	}
	for i := range name {
		if name[i] != '.' {
			continue
		}
		for _, m := range list {
			if m.name == name[:i] {
				inner, _ := members(m.value)
				if v, ok := find(inner, name[i+1:]); ok {
					return v, true
				}
			}
		}
	}
	return nil, false
}

// first returns the text of the first of the names that there is.
func first(list []member, names ...string) (name, value string) {
	for _, name := range names {
		if v, ok := find(list, name); ok {
			return name, text(v)
		}
	}
	return "", ""
}

// timeOf returns when an entry was written, as its fields say; zero: they do
// not.
func timeOf(list []member) time.Time {
	for _, name := range []string{"time", "timestamp", "ts", "@timestamp", "__REALTIME_TIMESTAMP"} {
		if v, ok := find(list, name); ok {
			if t := parseTime(text(v)); !t.IsZero() {
				return t
			}
		}
	}
	return time.Time{}
}

// parseTime reads a time of RFC 3339, also with a space instead of the T and
// a zone without a colon, or seconds, milli-, micro- or nanoseconds since 1970,
// told apart by their size. Zero: it is none, or none of our days.
func parseTime(s string) time.Time {
	s = strings.TrimSpace(s)
	for _, form := range []string{time.RFC3339Nano, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z0700"} {
		if t, err := time.Parse(form, s); err == nil {
			return sensible(t)
		}
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return sensible(sinceEpoch(n))
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && f >= 0 && f < 1e17 {
		for f >= 1e11 { // the fraction of anything but seconds does not matter
			f /= 1000
		}
		seconds, rest := math.Modf(f)
		return sensible(time.Unix(int64(seconds), int64(rest*1e9)).Round(time.Microsecond))
	}
	return time.Time{}
}

func sinceEpoch(n int64) time.Time {
	switch {
	case n < 1e11:
		return time.Unix(n, 0)
	case n < 1e14:
		return time.UnixMilli(n)
	case n < 1e17:
		return time.UnixMicro(n)
	}
	return time.Unix(0, n)
}

// sensible returns a time that can be written down, or zero.
func sensible(t time.Time) time.Time {
	if t = t.UTC(); t.Year() < 1971 || t.Year() > 2200 {
		return time.Time{}
	}
	return t
}

// levelOf returns how severe an entry is, as its fields say; zero: they do not.
func levelOf(list []member) Level {
	name, value := first(list, "level", "severity", "PRIORITY")
	if n, err := strconv.Atoi(value); err == nil {
		return numbered(name, n)
	}
	switch strings.ToLower(value) {
	case "trace", "finest", "silly", "verbose":
		return LevelTrace
	case "debug", "fine":
		return LevelDebug
	case "info", "information", "informational", "default":
		return LevelInfo
	case "notice":
		return LevelNotice
	case "warn", "warning":
		return LevelWarning
	case "err", "error", "severe":
		return LevelError
	case "crit", "critical", "fatal", "panic", "dpanic", "alert", "emerg", "emergency":
		return LevelCritical
	}
	return 0
}

// numbered reads the numbers of syslog, of node's loggers and of the cloud.
func numbered(name string, n int) Level {
	syslog := []Level{LevelCritical, LevelCritical, LevelCritical, LevelError, LevelWarning, LevelNotice, LevelInfo, LevelDebug}
	node := []Level{LevelTrace, LevelDebug, LevelInfo, LevelWarning, LevelError, LevelCritical}
	cloud := []Level{LevelDebug, LevelInfo, LevelNotice, LevelWarning, LevelError, LevelCritical, LevelCritical, LevelCritical}
	switch {
	case name != "level" && n >= 0 && n < len(syslog):
		return syslog[n]
	case name == "level" && n >= 10 && n/10 <= len(node):
		return node[n/10-1]
	case name == "severity" && n >= 100 && n/100 <= len(cloud):
		return cloud[n/100-1]
	}
	return 0
}
