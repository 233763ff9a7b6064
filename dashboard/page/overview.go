package page

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/view"
)

// overview is the data of the overview page. Figures link to the calls that
// they count, where the list of calls can be filtered like that.
type overview struct {
	api.StatisticsView
	Window  dashboard.Window
	Windows []dashboard.Window
	Never   bool // no call was ever made
	Tiles   []tile
	Modes   [3]int // allowed, held and denied
	Rows    []bucketRow
	Bins    []binRow
	Actions []actionRow
	Denials []denialRow
	Health  []sourceRow

	AllList, HeldList, DeniedList string // URLs of the lists of these calls
}

// tile is a current count.
type tile struct {
	Title, Path string
	Count       string
}

type bucketRow struct {
	action.Bucket
	Unix int64
	Path string
}

type binRow struct {
	Words string
	Calls int
}

type actionRow struct {
	action.ActionCount
	Path, Failures string // URLs of the list of calls, and of the failed ones
	Share          string // share of failed calls
	bar
}

type denialRow struct {
	Words, Path string
	Calls       int
	bar
}

type sourceRow struct {
	api.SourceStatistics
	Path, Failures, Page string
	Share, P50, P95      string
	bar
}

// bar is the length of a bar, as a percentage of the longest one. Bad is a part
// of Long.
type bar struct{ Long, Bad float64 }

func newBar(n, bad, most int) bar {
	if most == 0 {
		return bar{}
	}
	return bar{100 * float64(n) / float64(most), 100 * float64(bad) / float64(most)}
}

func (p *pageRequest) overview() error {
	stats := load2(p, p.ViewStatistics, p.org, cmp.Or(p.query("window"), "24h"))
	o := newOverview(stats)
	o.Tiles = p.tiles(p.me, stats.Queues)
	if stats.Calls.Count == 0 {
		o.Never = len(load(p, p.Calls.ListInvocations, action.InvocationFilter{Organization: p.org, Limit: 1}).Items) == 0
	}
	return p.show("overview", "overview", "Overview", o)
}

func newOverview(s api.StatisticsView) *overview {
	o := &overview{StatisticsView: s, Windows: dashboard.Windows()}
	o.Window, _ = dashboard.FindWindow(s.Window)
	o.AllList = extentURL(s, s.Calls)
	o.HeldList = extentURL(s, s.Held.Extent, "mode", string(action.ModeRequireApproval))
	o.DeniedList = extentURL(s, s.Denied.Extent, "status", string(action.StatusDenied))
	for _, b := range s.Buckets {
		o.Modes[0] += b.Allow
		o.Modes[1] += b.RequireApproval
		o.Modes[2] += b.Deny
		path := callsBetween(b.At, b.At.Add(time.Duration(s.Width)*time.Second))
		o.Rows = append(o.Rows, bucketRow{b, b.At.Unix(), path})
	}
	for i, b := range s.Held.Bins {
		words := "any"
		switch {
		case b.UpToMS > 0:
			words = "up to " + formatElapsed(b.UpToMS)
		case i > 0:
			words = "over " + formatElapsed(s.Held.Bins[i-1].UpToMS)
		}
		o.Bins = append(o.Bins, binRow{words, b.Calls})
	}
	for _, a := range s.Statistics.Actions {
		pairs := []string{"source", a.Source, "action", a.Action}
		o.Actions = append(o.Actions, actionRow{
			a, extentURL(s, s.Calls, pairs...), extentURL(s, s.Calls, append(pairs, "status", string(action.StatusFailed))...),
			percentage(a.Failed, a.Calls), newBar(a.Calls, a.Failed, s.Statistics.Actions[0].Calls),
		})
	}
	layers := map[action.Layer]string{
		action.LayerCeiling: "Limit of the session's group", action.LayerAutomation: "Automation override",
		action.LayerOrganization: "Organization override", action.LayerInferred: "Destructive tool without an override",
		action.LayerDrift: "Tool changed since review", action.LayerCapability: "Group access",
		action.LayerGuardrail: "Setting of the integration",
	}
	for _, d := range s.Denied.Reasons {
		pairs, words := []string{"status", string(action.StatusDenied)}, cmp.Or(layers[d.Layer], "Policy")
		if d.Reason != action.DeniedPolicy {
			pairs = append(pairs, "mode", string(action.ModeRequireApproval))
			words, _ = action.Denied(d.Reason)
			words = strings.TrimSuffix(words, ".")
		}
		o.Denials = append(o.Denials, denialRow{words, extentURL(s, s.Denied.Extent, pairs...), d.Calls, newBar(d.Calls, 0, s.Denied.Reasons[0].Calls)})
	}
	o.countSources(s)
	return o
}

func (o *overview) countSources(s api.StatisticsView) {
	most := int64(0)
	for _, source := range s.Sources {
		if source.P95MS != nil {
			most = max(most, *source.P95MS)
		}
	}
	for _, source := range s.Sources {
		row := sourceRow{
			SourceStatistics: source, Path: extentURL(s, s.Calls, "source", source.Source), Failures: extentURL(s, s.Calls, "source", source.Source, "status", string(action.StatusFailed)),
			Share: percentage(source.Failed, source.Calls),
		}
		if id, ok := strings.CutPrefix(source.Source, view.ConnectorPrefix); ok && source.Health != "" {
			row.Page = "/connectors/" + url.PathEscape(id)
		}
		if source.P50MS != nil {
			row.P50, row.P95 = formatElapsed(*source.P50MS), formatElapsed(*source.P95MS)
			row.bar = newBar(int(*source.P50MS), int(*source.P95MS-*source.P50MS), int(most))
		}
		o.Health = append(o.Health, row)
	}
}

// extentURL returns the URL of the list of calls of an extent, with
// further filters by name and value.
func extentURL(s api.StatisticsView, e action.Extent, pairs ...string) string {
	return callsBetween(e.Since, s.To, pairs...)
}

func callsBetween(from, to time.Time, pairs ...string) string {
	q := url.Values{"from": {from.UTC().Format(time.RFC3339Nano)}, "to": {to.UTC().Format(time.RFC3339Nano)}}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return "/activity?" + q.Encode()
}

// tiles returns the pending and running items, with links if the user may
// follow them.
func (p *pages) tiles(me *dashboard.Principal, q action.Queues) []tile {
	list := []tile{
		{"pending approvals", "/", queueText(q.Pending)},
		{"approved, starting", "/activity?status=approved", queueText(q.Approved)},
		{"running", "/activity?status=executing", queueText(q.Executing)},
		{"runs queued", "/runs?status=queued", queueText(q.Runs)},
		{"deliveries queued", "/deliveries?status=queued", queueText(q.Deliveries)},
		{"runs waiting for the endpoint", "/runs?status=queued", queueText(q.Outbox)},
	}
	for i := range list {
		path, _, _ := strings.Cut(list[i].Path, "?")
		if !p.mayOpen(me, path) {
			list[i].Path = ""
		}
	}
	return list
}

func queueText(d action.Depth) string {
	text := formatNumber(d.Count)
	if d.Capped {
		text += "+"
	}
	return text
}

// formatNumber formats a number with separators.
func formatNumber(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Counted formats a number with separators.
func (o *overview) Counted(n int) string { return formatNumber(n) }

// Lasting formats a time in milliseconds.
func (o *overview) Lasting(ms *int64) string { return formatElapsed(*ms) }

// formatElapsed formats a time with two or three digits.
func formatElapsed(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", ms)
	case d < 10*time.Second:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + " s"
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		return joinUnits(d/time.Minute, "min", d%time.Minute/time.Second, "s")
	case d < 48*time.Hour:
		return joinUnits(d/time.Hour, "h", d%time.Hour/time.Minute, "min")
	}
	return joinUnits(d/(24*time.Hour), "d", d%(24*time.Hour)/time.Hour, "h")
}

func joinUnits(n time.Duration, unit string, rest time.Duration, smaller string) string {
	if rest == 0 {
		return fmt.Sprintf("%d %s", n, unit)
	}
	return fmt.Sprintf("%d %s %d %s", n, unit, rest, smaller)
}

// percentage returns a percentage, or "" for zero.
func percentage(n, all int) string {
	switch percent := 100 * float64(n) / float64(max(all, 1)); {
	case n == 0:
		return ""
	case percent < 1:
		return "under 1%"
	default:
		return fmt.Sprintf("%.0f%%", percent)
	}
}
