package notify

import (
	"strings"
	"testing"
	"time"
)

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"Create the issue “Login”":  "Create the issue “Login”",
		"one\ntwo\ttabs":            `one\u{a}two\u{9}tabs`,
		"\u202efdp.exe":             `\u{202e}fdp.exe`,
		"zero\u200bwidth\u3164fill": `zero\u{200b}width\u{3164}fill`,
		"broken\xffbytes":           `broken\u{fffd}bytes`,
		"no\u00a0break":             `no\u{a0}break`,
		strings.Repeat("ü", 60):     strings.Repeat("ü", 50) + "…",
		"  around  ":                "around",
	} {
		if got := plain(text, 50); got != want {
			t.Errorf("%q is told as %q, want %q", text, got, want)
		}
	}
}

func TestPausesGrowUpToALimit(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 9: 4 * time.Minute, 1000: 4 * time.Minute} {
		if got := backoff(time.Second, 4*time.Minute, failures); got > want || got < want*3/4 {
			t.Errorf("after %d failures it waits %s, want up to %s", failures, got, want)
		}
	}
}
