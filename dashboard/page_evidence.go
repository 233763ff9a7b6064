package dashboard

import (
	"fmt"
	"net/http"
	"net/url"

	"sallyport/action"
)

// evidenceFile is a file with where it is fetched.
type evidenceFile struct {
	action.UploadFile
	Path    string
	Measure string
}

// evidenceUpload is an upload as its page shows it.
type evidenceUpload struct {
	action.Upload
	Shown []evidenceFile
}

// evidencePage is what a session sent as evidence of its work.
func (p *pages) evidencePage(w http.ResponseWriter, r *http.Request, me *Principal) error {
	session, err := p.session(r.Context(), me.Organization, r.PathValue("id"))
	if err != nil {
		return err
	}
	page, err := p.Sessions.ListUploads(r.Context(), me.Organization, session.ID, 20, r.URL.Query().Get("cursor"))
	if err != nil {
		return err
	}
	list := make([]evidenceUpload, len(page.Items))
	for i, u := range page.Items {
		list[i].Upload = u
		for _, f := range u.Files {
			list[i].Shown = append(list[i].Shown, evidenceFile{f, evidenceURL(u, f.Name), measure(f.Size)})
		}
	}
	older := ""
	if page.Next != "" {
		older = r.URL.Path + "?" + url.Values{"cursor": {page.Next}}.Encode()
	}
	return p.render(w, "evidence", "layout", view{Page: "sessions", Title: "Evidence", Me: me, Data: struct {
		Session action.Session
		Uploads []evidenceUpload
		Older   string
	}{session, list, older}})
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
