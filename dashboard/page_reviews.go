package dashboard

import (
	"time"

	"sallyport/action"
	"sallyport/api"
)

// reviewTable is what of a connector waits for a review.
type reviewTable struct {
	Connector action.Connector
	Tools     []api.ReviewView
	More      int // that are not shown
	FetchedAt time.Time
	Error     string // of the last time that the server was asked
}

// reviewsShown of one connector: who reviews should read.
const reviewsShown = 50

func (p *pageRequest) reviews() (tables []reviewTable) {
	for _, c := range p.loadConnectors() {
		state := p.Connectors.State(p.ctx(), c)
		t := reviewTable{Connector: c, FetchedAt: state.FetchedAt, Error: state.Error}
		for _, r := range load2(p, p.Policy.ListReviews, c.Organization, c.ID) {
			if r.State != action.ToolReviewed {
				t.add(viewReview(r))
			}
		}
		if len(t.Tools) > 0 {
			tables = append(tables, t)
		}
	}
	return tables
}

func (t *reviewTable) add(v api.ReviewView) {
	if len(t.Tools) == reviewsShown {
		t.More++
		return
	}
	t.Tools = append(t.Tools, v)
}
