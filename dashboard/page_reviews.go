package dashboard

import (
	"context"
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

func (p *pages) reviews(ctx context.Context, connectors []action.Connector) ([]reviewTable, error) {
	var tables []reviewTable
	for _, c := range connectors {
		list, err := p.Policy.ListReviews(ctx, c.Organization, c.ID)
		if err != nil {
			return nil, err
		}
		state := p.Prober.State(ctx, c)
		t := reviewTable{Connector: c, FetchedAt: state.FetchedAt, Error: state.Error}
		for _, r := range list {
			if r.State != action.ToolReviewed {
				t.add(viewReview(r))
			}
		}
		if len(t.Tools) > 0 {
			tables = append(tables, t)
		}
	}
	return tables, nil
}

func (t *reviewTable) add(v api.ReviewView) {
	if len(t.Tools) == reviewsShown {
		t.More++
		return
	}
	t.Tools = append(t.Tools, v)
}
