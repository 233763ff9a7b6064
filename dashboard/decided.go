package dashboard

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"sallyport/action"
)

// settler is who or what settled a call, as pages say it.
type settler struct {
	Text   string
	Person bool
}

// settledBy names it. Names are those of people, by id.
func settledBy(inv action.Invocation, names map[string]string) settler {
	switch {
	case inv.Status == action.StatusPending:
		return settler{Text: "not decided yet"}
	case inv.Status == action.StatusExpired && inv.ApprovedBy == "":
		return settler{Text: "no one"}
	case inv.Status == action.StatusDenied && inv.DeniedReason != action.DeniedHuman:
		_, by := action.Denied(inv.DeniedReason)
		return settler{Text: by}
	case inv.ApprovedBy == "":
		return settler{Text: "policy"}
	}
	return settler{Text: cmp.Or(names[inv.ApprovedBy], short(inv.ApprovedBy)), Person: true}
}

// deniedWhy is why a call was denied, unless who did it or a note says so.
func deniedWhy(inv action.Invocation) string {
	sentence, _ := action.Denied(inv.DeniedReason)
	_, why, _ := strings.Cut(sentence, ": ")
	if inv.DeniedReason == action.DeniedWithdrawn && inv.DeniedNote != "" {
		return ""
	}
	return strings.TrimSuffix(why, ".")
}

// shown is a status as pages show it: a call that its caller took back was
// refused by nobody.
func shown(inv action.Invocation) string {
	if inv.Status == action.StatusDenied && inv.DeniedReason == action.DeniedWithdrawn {
		return "withdrawn"
	}
	return string(inv.Status)
}

// nothingRan reports whether a failed call surely never ran.
func nothingRan(inv action.Invocation) bool {
	if inv.Status != action.StatusFailed || inv.Error == nil {
		return false
	}
	return inv.Error.Code == action.FailedStale || inv.Error.Code == action.FailedInternal
}

// modeName returns the name of a mode, given as a string or an [action.Mode].
func modeName(mode any) string { return strings.ReplaceAll(fmt.Sprint(mode), "_", " ") }

// happening names a kind of event for people.
func happening(kind string) string {
	switch kind {
	case action.LateOutcome:
		return "The execution finished after it had timed out"
	case action.ParamsRevealed:
		return "Full params viewed"
	case action.SourceAsked:
		return "The source requested input from the caller"
	}
	return kind
}

// redacted reports whether redaction left a mark in the params.
func redacted(params []byte) bool { return bytes.Contains(params, []byte("[redacted")) }

// person names one by an ID, also one who is gone.
func person(id string, names map[string]string) settler {
	return settler{Text: cmp.Or(names[id], short(id)), Person: names[id] != ""}
}
