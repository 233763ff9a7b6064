package cloudlogs

import (
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// Config selects the logs that agents can read.
type Config struct {
	// Services maps service names to paths. A path can be a pattern of
	// [filepath.Match], to include rotated files; files that end in .gz are
	// decompressed. The path itself can be or contain symbolic links, but
	// matches of a pattern must not resolve outside the directory before its
	// first wildcard. Required.
	Services map[string]string

	MaxRange   time.Duration // of a query; default 24 h
	MaxEntries int           // of a query; default 100
	Timeout    time.Duration // of an action; default 20 s

	Log *slog.Logger     // reports unreadable files; nil discards
	Now func() time.Time // default time.Now
}

func (c Config) complete() (Config, error) {
	switch {
	case len(c.Services) == 0:
		return c, fmt.Errorf("cloudlogs: Config.Services is required: a path, or a pattern of paths, for each name of a service")
	case c.MaxRange < 0 || c.MaxEntries < 0 || c.Timeout < 0:
		return c, fmt.Errorf("cloudlogs: Config.MaxRange, MaxEntries and Timeout must not be negative")
	}
	named := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		pattern := c.Services[name]
		if !named.MatchString(name) {
			return c, fmt.Errorf("cloudlogs: the service %q needs a name of letters, digits, ., _ and -, at most 64 of them", name)
		}
		if _, err := filepath.Match(pattern, ""); err != nil || pattern == "" {
			return c, fmt.Errorf("cloudlogs: the service %q has %q, which is no path and no pattern of paths", name, pattern)
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.MaxRange == 0 {
		c.MaxRange = 24 * time.Hour
	}
	if c.MaxEntries == 0 {
		c.MaxEntries = 100
	}
	if c.Timeout == 0 {
		c.Timeout = 20 * time.Second
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}
