package cloudlogs

import (
	"math"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/jsonlex"
)

// field is a field of an entry.
type field struct {
	name  string
	value []byte // raw JSON
}

// maxDepth bounds the nesting of a line.
const maxDepth = 64

// parseFields returns the complete members of the object at the start of data,
// and whether the object is complete.
func parseFields(data []byte) (list []field, whole bool) {
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
			return list, false // a number at the end may be incomplete
		}
		list = append(list, field{fieldText(name), data[i:end]})
		if i = jsonlex.Space(data, end); i >= len(data) || data[i] != ',' {
			return list, i < len(data) && data[i] == '}' && jsonlex.Space(data, i+1) == len(data)
		}
		i = jsonlex.Space(data, i+1)
	}
}

// fieldText returns the content of a JSON string, and any other value as
// written.
func fieldText(value []byte) string {
	if len(value) < 2 || value[0] != '"' {
		return string(value)
	}
	out, _ := jsonlex.Unquote(nil, value[1:len(value)-1])
	return string(out)
}

// findField returns the value of a field. Dots in the name address nested
// objects.
func findField(list []field, name string) ([]byte, bool) {
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
				inner, _ := parseFields(m.value)
				if v, ok := findField(inner, name[i+1:]); ok {
					return v, true
				}
			}
		}
	}
	return nil, false
}

// firstField returns the first of the names that exists, with its text.
func firstField(list []field, names ...string) (name, value string) {
	for _, name := range names {
		if v, ok := findField(list, name); ok {
			return name, fieldText(v)
		}
	}
	return "", ""
}

// recordTime returns the timestamp in the fields, or zero.
func recordTime(list []field) time.Time {
	for _, name := range []string{"time", "timestamp", "ts", "@timestamp", "__REALTIME_TIMESTAMP"} {
		if v, ok := findField(list, name); ok {
			if t := parseTime(fieldText(v)); !t.IsZero() {
				return t
			}
		}
	}
	return time.Time{}
}

// parseTime parses RFC 3339, also with a space instead of the T and a zone
// without a colon, or a Unix time in seconds, milli-, micro- or nanoseconds,
// distinguished by magnitude. It returns zero for anything else.
func parseTime(s string) time.Time {
	s = strings.TrimSpace(s)
	for _, form := range []string{time.RFC3339Nano, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z0700"} {
		if t, err := time.Parse(form, s); err == nil {
			return normalizeTime(t)
		}
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return normalizeTime(sinceEpoch(n))
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && f >= 0 && f < 1e17 {
		for f >= 1e11 { // the fraction of anything but seconds does not matter
			f /= 1000
		}
		seconds, rest := math.Modf(f)
		return normalizeTime(time.Unix(int64(seconds), int64(rest*1e9)).Round(time.Microsecond))
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

// normalizeTime returns a plausible time in UTC, or zero.
func normalizeTime(t time.Time) time.Time {
	if t = t.UTC(); t.Year() < 1971 || t.Year() > 2200 {
		return time.Time{}
	}
	return t
}

// recordLevel returns the level in the fields, or zero.
func recordLevel(list []field) Level {
	name, value := firstField(list, "level", "severity", "PRIORITY")
	if n, err := strconv.Atoi(value); err == nil {
		return numericLevel(name, n)
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

// numericLevel maps numeric levels of syslog, Node.js loggers and Google Cloud.
func numericLevel(name string, n int) Level {
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
