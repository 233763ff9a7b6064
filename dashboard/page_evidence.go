package dashboard

import (
	"context"
	"fmt"
	"net/url"

	"sallyport/action"
)

// evidencePage is what a session sent as evidence of its work.
func (p *pageRequest) evidencePage() error {
	session := load2(p, p.session, p.org, p.r.PathValue("id"))
	page := load2(p, func(ctx context.Context, session, cursor string) (action.Page[action.Upload], error) {
		return p.Sessions.ListUploads(ctx, p.org, session, 20, cursor)
	}, session.ID, p.query("cursor"))
	return p.show("evidence", "sessions", "Evidence", struct {
		Session action.Session
		Uploads []action.Upload
		Older   string
	}{session, page.Items, p.readFilters().Older(page.Next)})
}

func evidenceURL(u action.Upload, name string) string {
	return "/api/v1/sessions/" + url.PathEscape(u.Session) + "/evidence/" + url.PathEscape(u.ID) + "/" + url.PathEscape(name)
}

// measure says a size for people.
func measure(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
