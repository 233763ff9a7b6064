package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
)

// thousands writes a number so that it can be read.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Counted writes a number so that it can be read.
func (o *overview) Counted(n int) string { return thousands(n) }

// Lasting writes a time in milliseconds.
func (o *overview) Lasting(ms *int64) string { return elapsed(*ms) }

// elapsed writes a time with two digits or three.
func elapsed(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", ms)
	case d < 10*time.Second:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + " s"
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		return joined(d/time.Minute, "min", d%time.Minute/time.Second, "s")
	case d < 48*time.Hour:
		return joined(d/time.Hour, "h", d%time.Hour/time.Minute, "min")
	}
	return joined(d/(24*time.Hour), "d", d%(24*time.Hour)/time.Hour, "h")
}

func joined(n time.Duration, unit string, rest time.Duration, smaller string) string {
	if rest == 0 {
		return fmt.Sprintf("%d %s", n, unit)
	}
	return fmt.Sprintf("%d %s %d %s", n, unit, rest, smaller)
}

// share is a part of all, in percent; empty for none.
func share(n, all int) string {
	switch percent := 100 * float64(n) / float64(max(all, 1)); {
	case n == 0:
		return ""
	case percent < 1:
		return "under 1%"
	default:
		return fmt.Sprintf("%.0f%%", percent)
	}
}

func binWords(b action.Bin, all []action.Bin) string {
	if b.UpToMS > 0 {
		return "up to " + elapsed(b.UpToMS)
	}
	i := slices.Index(all, b)
	if i <= 0 {
		return "any"
	}
	return "over " + elapsed(all[i-1].UpToMS)
}

// denialWords says why calls were denied.
func denialWords(d action.DenialCount) string {
	text, _ := action.Denied(d.Reason)
	if d.Reason != action.DeniedPolicy {
		return strings.TrimSuffix(text, ".")
	}
	words := map[action.Layer]string{
		action.LayerCeiling: "Limit of the session's group", action.LayerAutomation: "Automation override",
		action.LayerOrganization: "Organization override", action.LayerInferred: "Destructive tool without an override",
		action.LayerDrift: "Tool changed since review", action.LayerCapability: "Group access",
	}
	return cmp.Or(words[d.Layer], "Policy")
}
