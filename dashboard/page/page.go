// Package page renders the web page. Its pages read from the database, and
// their scripts make changes through the JSON API.
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
	"sallyport/dashboard/view"
)

//go:embed templates assets
var files embed.FS

// pages renders the web page. Each page is a layout around one template.
// Changes go through the API from its script.
type pages struct {
	*view.Reader
	templates  map[string]func() (*template.Template, error) // each page, parsed on first use
	versions   map[string]string                             // content hash of each asset
	compressed map[string]func() ([]byte, error)             // each asset, compressed on first use
}

// layoutData is the data of the layout.
type layoutData struct {
	Page  string // its page in the navigation; see [pages.navigation]
	Title string
	Me    *dashboard.Principal
	Data  any
}

// Mount adds the web page to the server.
func Mount(server *dashboard.Server, mux *http.ServeMux) error {
	p, err := newPages(view.NewReader(server))
	if err != nil {
		return err
	}
	p.mount(mux)
	return nil
}

func newPages(reader *view.Reader) (*pages, error) {
	p := &pages{Reader: reader, templates: map[string]func() (*template.Template, error){}, versions: map[string]string{}, compressed: map[string]func() ([]byte, error){}}
	assets, err := fs.ReadDir(files, "assets")
	if err != nil {
		return nil, err
	}
	for _, f := range assets {
		b, err := files.ReadFile("assets/" + f.Name())
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(b)
		p.versions[f.Name()] = hex.EncodeToString(sum[:6])
		// Pages are not compressed, because their length would reveal secrets beside
		// attacker-chosen text.
		p.compressed[f.Name()] = sync.OnceValues(func() ([]byte, error) {
			var out bytes.Buffer
			w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
			if err != nil {
				return nil, err
			}
			_, err = w.Write(b)
			err = errors.Join(err, w.Close()) // which writes the rest
			return out.Bytes(), err
		})
	}
	common := sync.OnceValues(func() (*template.Template, error) {
		return template.New("").Funcs(p.funcs("")).ParseFS(files, "templates/layout.html", "templates/part_*.html")
	})
	for name := range pageAreas() {
		p.templates[name] = sync.OnceValues(func() (*template.Template, error) {
			t, err := common()
			if err != nil {
				return nil, err
			}
			if t, err = t.Clone(); err != nil {
				return nil, err
			}
			return t.Funcs(p.funcs(name)).ParseFS(files, "templates/"+name+".html")
		})
	}
	return p, nil
}

// pageAreas maps each template to its area, after the areas that it borrows
// from. An area may have its own script and style, which its pages load after
// core.js and style.css.
func pageAreas() map[string]string {
	return map[string]string{
		"inbox": "env inbox", "env": "env", "evidence": "", "invocation": "inbox activity", "activity": "activity", "overview": "uplot.min overview",
		"connectors": "connections", "connector": "connections", "connector_new": "connections", "secrets": "connections", "integrations": "connections", "provider": "connections", "callback": "connections",
		"policy": "connections policy", "grants": "policy", "audit": "audit", "sessions": "sessions", "people": "people",
		"automations": "automations", "automation": "automations", "triggers": "automations", "trigger": "automations", "trigger_new": "automations",
		"schedules": "automations", "runs": "automations", "run": "automations", "events": "automations", "event": "automations", "deliveries": "automations", "delivery": "automations",
		"workspaces": "workspaces", "workspace": "workspaces", "models": "", "settings": "settings", "login": "login", "error": "",
	}
}

// parts lists the existing files of some areas.
func (p *pages) parts(common []string, areas, ext string) []string {
	for area := range strings.FieldsSeq(areas) {
		if _, ok := p.versions[area+ext]; ok {
			common = append(common, area+ext)
		}
	}
	return common
}

func (p *pages) funcs(name string) template.FuncMap {
	area := pageAreas()[name]
	scripts, styles := p.parts([]string{"htmx.min.js", "core.js"}, area, ".js"), p.parts([]string{"style.css"}, area, ".css")
	return template.FuncMap{
		"scripts":     func() []string { return scripts },
		"styles":      func() []string { return styles },
		"nav":         p.navigation,
		"asset":       func(name string) string { return "/assets/" + name + "?v=" + p.versions[name] },
		"visible":     render.Escape,
		"plain":       render.Plain,
		"pretty":      func(raw json.RawMessage) []render.Segment { return render.JSON(raw) },
		"utc":         utc,
		"iso":         iso,
		"short":       shortID,
		"status":      statusText,
		"level":       levelBadge,
		"means":       modeText,
		"window":      windowText,
		"shown":       displayStatus,
		"alerts":      action.Alerts,
		"unreviewed":  action.Unreviewed,
		"spans":       func() []span { return spansWithin(p.Now(), nil) },
		"settled":     decidedBy,
		"denied":      denialReason,
		"lines":       render.Lines,
		"count":       render.Count,
		"ended":       func(t *time.Time) bool { return t != nil && !p.Now().Before(*t) },
		"join":        strings.Join,
		"wants":       notificationScope,
		"told":        notificationStatus,
		"kind":        kindText,
		"ways":        authMethods,
		"sees":        visibilityText,
		"registered":  registered,
		"evidenceURL": evidenceURL,
		"measure":     formatSize,
		"event":       eventText,
		"modeName":    modeName,
		"spread":      func(list ...string) []string { return list },
		"nothingRan":  nothingRan,
		"limited":     func(names []string) bool { return names != nil }, // also to none
		"pins":        func(t action.Terms) []render.Pin { return pinsOf(&t) },
		"person":      personName,
		"marks":       render.Markdown,
		"unmatched":   unmatchedReason,
		"again":       canRedrive,
		"paragraphs":  paragraphs,
		"intervals":   intervals,
		"crons":       cronExamples,
		"workerHelp":  p.workerHelp,
		"dict":        dict,
	}
}

func (p *pages) mount(mux *http.ServeMux) {
	for pattern, h := range map[string]func(*pageRequest) error{
		"GET /{$}":               (*pageRequest).inbox,
		"GET /inbox/more":        (*pageRequest).inboxMore,
		"GET /inbox/cards":       (*pageRequest).inboxCards,
		"GET /inbox/count":       (*pageRequest).inboxCount,
		"GET /inbox/waiters":     (*pageRequest).inboxWaiters,
		"GET /inbox/requests":    (*pageRequest).inboxRequests,
		"GET /inbox/{id}":        (*pageRequest).inboxCard,
		"GET /inbox/{id}/grant":  (*pageRequest).inboxGrant,
		"GET /inbox/{id}/params": (*pageRequest).inboxParams,
		"GET /activity":          (*pageRequest).activity,
		"GET /overview":          (*pageRequest).overview,
		"GET /invocations/{id}":  (*pageRequest).invocation,

		"GET /connectors":              (*pageRequest).connectorsPage,
		"GET /connectors/new":          (*pageRequest).newConnectorPage,
		"GET /connectors/{id}":         (*pageRequest).connectorPage,
		"GET /integrations":            (*pageRequest).integrationsPage,
		"GET /integrations/{provider}": (*pageRequest).providerPage,
		"GET /secrets":                 (*pageRequest).secretsPage,

		"GET /policy":         (*pageRequest).policyPage,
		"GET /policy/actions": (*pageRequest).policyActions,
		"GET /policy/answer":  (*pageRequest).explained,
		"GET /policy/removed": (*pageRequest).policyRemoved,
		"GET /audit":          (*pageRequest).auditPage,

		"GET /grants":   (*pageRequest).grantsPage,
		"GET /sessions": (*pageRequest).sessionsPage,

		"GET /sessions/{id}/evidence": (*pageRequest).evidencePage,
		"GET /env-requests/{id}":      (*pageRequest).envPage,

		"GET /automations":         (*pageRequest).automationsPage,
		"GET /automations/{id}":    (*pageRequest).automationPage,
		"GET /triggers":            (*pageRequest).triggersPage,
		"GET /triggers/new":        (*pageRequest).newTriggerPage,
		"GET /triggers/{id}":       (*pageRequest).triggerPage,
		"GET /schedules":           (*pageRequest).schedulesPage,
		"GET /runs":                (*pageRequest).runsPage,
		"GET /runs/{id}":           (*pageRequest).runPage,
		"GET /events":              (*pageRequest).eventsPage,
		"GET /events/{id}":         (*pageRequest).eventPage,
		"GET /events/{id}/context": (*pageRequest).eventContext,
		"GET /deliveries":          (*pageRequest).deliveriesPage,
		"GET /deliveries/{id}":     (*pageRequest).deliveryPage,

		"GET /workspaces":      (*pageRequest).workspacesPage,
		"GET /workspaces/{id}": (*pageRequest).workspacePage,

		"GET /models":   (*pageRequest).modelsPage,
		"GET /people":   (*pageRequest).peoplePage,
		"GET /settings": (*pageRequest).settingsPage,

		"GET /settings/{rest...}": (*pageRequest).redirectMoved,
	} {
		mux.HandleFunc(pattern, p.requireSignIn(p.Access(pattern), h))
	}
	p.HandlePublic(mux, "GET /login", p.login)
	p.HandlePublic(mux, "GET /login/oidc", p.beginOIDC)
	p.HandlePublic(mux, "GET "+dashboard.CallbackPath, p.endOIDC)
	p.HandlePublic(mux, "GET /oauth/callback", p.callback)
	p.HandlePublic(mux, "GET /oauth/callback/{provider}", p.callback)
	p.HandlePublic(mux, "GET /assets/{file}", p.asset)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		p.showError(w, r, nil, action.Errorf(action.ErrNotFound, "no_such_page", "This page does not exist."))
	})
}

// redirectMoved redirects the former paths of connector and integration pages.
func (p *pageRequest) redirectMoved() error {
	kind, id, one := strings.Cut(p.r.PathValue("rest"), "/")
	if kind != "connectors" && kind != "integrations" {
		return action.Errorf(action.ErrNotFound, "no_such_page", "This page does not exist. Choose a page from the menu.")
	}
	to := "/" + kind
	if one {
		to += "/" + url.PathEscape(id)
	}
	http.Redirect(p.w, p.r, to, http.StatusFound) // 303 leads to the sign-in
	return nil
}

// requireSignIn redirects users who are not signed in to the sign-in page, on
// the host name that sign-ins use.
func (p *pages) requireSignIn(who api.Access, h func(*pageRequest) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		me, err := p.IdentifyLogin(r)
		switch {
		case errors.Is(err, action.ErrUnauthenticated):
			to := p.PublicURL + "/login?next=" + url.QueryEscape(r.URL.RequestURI())
			if r.Header.Get("HX-Request") != "" {
				w.Header().Set("HX-Redirect", to)
				return
			}
			http.Redirect(w, r, to, http.StatusSeeOther)
			return
		case err != nil:
			p.showError(w, r, nil, err)
			return
		}
		if err = dashboard.Permit(who, me, ""); err == nil {
			err = h(&pageRequest{pages: p, w: w, r: r, me: me, org: me.Organization})
		}
		if err != nil {
			p.showError(w, r, me, err)
		}
	}
}

// showError renders an error page.
func (p *pages) showError(w http.ResponseWriter, r *http.Request, me *dashboard.Principal, err error) {
	problem := p.Problem(r.Context(), err)
	w.WriteHeader(problem.Status)
	if err := p.render(w, "error", "layout", layoutData{Title: problem.Title, Me: me, Data: problem}); err != nil {
		p.Log.ErrorContext(r.Context(), "could not render an error page", "error", err)
	}
}

// render writes a whole page or nothing.
func (p *pages) render(w http.ResponseWriter, page, part string, v any) error {
	t, err := p.templates[page]()
	if err != nil {
		return fmt.Errorf("parsing %s: %w", page, err)
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, part, v); err != nil {
		return fmt.Errorf("rendering %s: %w", page, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if _, err := w.Write(b.Bytes()); err != nil {
		p.Log.Debug("could not send a page", "page", page, "error", err)
	}
	return nil
}

// asset serves an embedded file. Its URL contains its version, so it may be
// cached.
func (p *pages) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	version, ok := p.versions[name]
	b, err := files.ReadFile(path.Join("assets", path.Base(name)))
	if !ok || err != nil {
		p.showError(w, r, nil, action.NewError("no_such_file"))
		return
	}
	types := map[string]string{".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain"}
	w.Header().Set("Content-Type", types[path.Ext(name)]+"; charset=utf-8")
	if r.URL.Query().Get("v") == version {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	w.Header().Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		if packed, err := p.compressed[name](); err == nil {
			w.Header().Set("Content-Encoding", "gzip")
			b = packed
		}
	}
	_, _ = w.Write(b) // a browser that left needs no script
}

// shortID returns the end of an ID. IDs start with a time, so their beginnings
// are alike.
func shortID(id string) string {
	if len(id) <= 12 {
		return render.Plain(id)
	}
	return "…" + render.Plain(id[len(id)-8:])
}

// utc formats a time for people, like the helper exact in core.js. iso formats
// it for browsers.
func utc(t any) string {
	return strings.Replace(render.FormatTime(t, "Mon 2 Jan 2006, 15:04:05 UTC"), ":00 UTC", " UTC", 1)
}

func iso(t any) string { return render.FormatTime(t, time.RFC3339) }

// statusText returns the displayed status.
func statusText(s action.Status) string {
	return map[action.Status]string{
		action.StatusPending: "pending", action.StatusApproved: "starting", action.StatusExecuting: "running",
		action.StatusCompleted: "completed", action.StatusFailed: "failed", action.StatusDenied: "denied", action.StatusExpired: "expired",
	}[s]
}

// dict passes several named values to a template.
func dict(pairs ...any) (map[string]any, error) {
	m := map[string]any{}
	for pair := range slices.Chunk(pairs, 2) {
		name, ok := pair[0].(string)
		if !ok || len(pair) < 2 {
			return nil, errors.New("dict takes names and values in turn")
		}
		m[name] = pair[1]
	}
	return m, nil
}

// paragraphs splits text at its line breaks.
func paragraphs(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" {
			all = append(all, line)
		}
	}
	return all
}

// interval is a polling interval in a form.
type interval struct {
	Seconds int
	Text    string
}

func intervals() []interval {
	return []interval{{30, "30 seconds"}, {60, "minute"}, {300, "5 minutes"}, {900, "15 minutes"}, {3600, "hour"}, {21600, "6 hours"}, {86400, "day"}}
}

// cronExamples are sample expressions.
func cronExamples() []choice {
	return []choice{
		{Value: "0 9 * * 1-5", Text: "weekdays at 9:00"},
		{Value: "0 * * * *", Text: "every hour"},
		{Value: "*/15 * * * *", Text: "every 15 minutes"},
		{Value: "30 6 * * *", Text: "every day at 6:30"},
		{Value: "0 8 1 * *", Text: "first of the month at 8:00"},
	}
}

// workerHelp shows how a program claims a run.
func (p *pages) workerHelp() string {
	return strings.Join([]string{
		"sallyport api-key create worker --scope runs   # prints the key once",
		"export WORKER_KEY=…",
		`curl -X POST '` + p.PublicURL + `/api/v1/runs/claim?wait=30s' \`,
		`  -H "Authorization: Bearer $WORKER_KEY" -H 'Content-Type: application/json' -d '{"lease":"5m"}'`,
		`curl -X POST ` + p.PublicURL + `/api/v1/runs/RUN_ID/finish \`,
		`  -H "Authorization: Bearer $WORKER_KEY" -H 'Content-Type: application/json' -d '{"claim_id":"CLAIM_ID","status":"succeeded"}'`,
	}, "\n")
}
