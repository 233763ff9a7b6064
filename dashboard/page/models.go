package page

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"sallyport/action"
	"sallyport/dashboard/render"
)

// modelsData is the data of the models page.
type modelsData struct {
	Settings action.ModelSettings
	Rows     []modelsRow
	Groups   []string // what the rows can be summed by
	By       string
	Days     int
	Spans    []int // choices of Days
	URL      string
	Decides  bool
}

// modelsRow is a row of the use of models.
type modelsRow struct {
	action.ModelUsage
	Name string
	Link string // empty: none
	Cost string
}

func (p *pageRequest) modelsPage() error {
	d := modelsData{
		Settings: load(p, p.Models.ModelSettings, p.org), Groups: []string{"automation", "session", "model", "group", "day"}, By: cmp.Or(p.query("by"), "model"),
		Days: 30, Spans: []int{1, 7, 30, 90}, URL: p.PublicURL, Decides: p.decides(),
	}
	for _, days := range d.Spans {
		if p.query("days") == fmt.Sprint(days) {
			d.Days = days
		}
	}
	if !slices.Contains(d.Groups, d.By) {
		d.By = "model"
	}
	usage, err := p.Models.ModelUsage(p.ctx(), action.ModelUsageFilter{
		Organization: p.org, By: d.By, Since: p.Now().Add(-time.Duration(d.Days-1) * 24 * time.Hour),
	})
	p.setError(err)
	names := p.loadAutomationNames()
	for _, u := range usage {
		r := modelsRow{ModelUsage: u, Name: cmp.Or(u.Key, "none"), Cost: fmt.Sprintf("$%.2f", float64(u.Cost)/1e6)}
		if u.Unpriced > 0 {
			r.Cost += " and " + render.Count(int(u.Unpriced), "request") + " without a price"
		}
		switch {
		case d.By == "session":
			r.Link = "/activity?session=" + u.Key
		case d.By == "automation" && u.Key != "":
			r.Name, r.Link = cmp.Or(names[u.Key], u.Key), "/automations/"+u.Key
		}
		d.Rows = append(d.Rows, r)
	}
	return p.show("models", "models", "Models", d)
}
